"""One step of every sampler against its equation, term by term.

A kick is linear: with momentum and force at zero only the added noise remains, and the difference of two kicks with
the same key has none. So the terms of the equation are compared to rounding and the covariance of the noise to its
Monte Carlo error, without assumptions about how a sampler uses its key. The numbers are those of `one_step.py`. The
symmetric schemes of SGNHT and CCAdL are in `samplers/test_symmetric_step.py`.
"""

import dataclasses

import jax
import numpy as np
import pytest

import isotherm as iso
from isotherm import tree
from support.one_step import (
    BATCH,
    DIAGONAL,
    HYPER,
    KEYS,
    LIKE,
    MASS,
    MOMENTUM,
    MU,
    ROUNDING,
    STEP,
    THERMOSTAT,
    THETA,
    XI,
    A,
    C,
    D,
    F,
    P,
    T,
    assert_covariance,
    h,
    kick,
    moved,
    remainder,
    state_of,
)

a = h * A / 2

pytestmark = pytest.mark.usefixtures("quick_compilation")


@dataclasses.dataclass(frozen=True)
class Case:
    """A sampler; the matrix that its kick applies to the old momentum or position; the covariance of its noise.

    `kick` is what the force is multiplied by, and `moves` the share of the drift that comes before the gradient.
    """

    sampler: iso.extend.Sampler
    keeps: np.ndarray
    noise: np.ndarray
    covariance: np.ndarray | None = None
    clipped: int | None = None
    mass: np.ndarray = dataclasses.field(default_factory=lambda: np.ones(D))
    s_per_noise: float = h**2 / T
    kick: float = h
    moves: float = 1.0


def thermostat(sampler, covariance=None):
    damping = XI * np.eye(D) + (0 if covariance is None else h / (2 * T) * covariance / MASS)
    return Case(sampler, np.eye(D) - h * damping, 2 * A * h * T * np.diag(MASS), covariance, mass=MASS)


def ccadl(kind, covariance, scheme="euler"):
    return thermostat(iso.CCAdL(covariance=kind, scheme=scheme, **THERMOSTAT), covariance)


def sghmc(kind, covariance, scheme="euler", c=h / (2 * A * T)):
    noise, clipped = remainder(c, np.zeros((D, D)) if covariance is None else covariance, MASS)
    count = None if covariance is None else clipped
    sampler = iso.SGHMC(covariance=kind, scheme=scheme, **MOMENTUM)
    common = {"covariance": covariance, "clipped": count, "mass": MASS}
    if scheme == "symmetric":  # p' = [(1 - a) p + h F + eta] / (1 + a)
        keeps, noise = (1 - a) / (1 + a) * np.eye(D), 2 * A * h * T * noise / (1 + a) ** 2
        return Case(sampler, keeps, noise, **common, kick=h / (1 + a), moves=0.5)
    return Case(sampler, (1 - h * A) * np.eye(D), 2 * A * h * T * noise, **common)


def modified_sgld(kind, covariance, form="exact"):
    noise, clipped = remainder(h / (2 * T), covariance, np.ones(D))
    if form == "first-order":
        factor = np.eye(D) - h / (4 * T) * covariance
        noise, clipped = factor @ factor.T, None
    sampler = iso.ModifiedSGLD(covariance=kind, form=form, **HYPER)
    return Case(sampler, np.eye(D), 2 * h * T * noise, covariance, clipped, s_per_noise=2 * h / T)


CASES = {
    "SGLD": Case(iso.SGLD(**HYPER), np.eye(D), 2 * h * T * np.eye(D), s_per_noise=2 * h / T),
    "ModifiedSGLD-dense": modified_sgld(iso.Dense(), C),
    "ModifiedSGLD-first-order": modified_sgld(iso.Dense(), C, "first-order"),
    "SGHMC": sghmc(None, None),
    "SGHMC-dense": sghmc(iso.Dense(), C),
    "SGHMC-diagonal": sghmc(iso.Diagonal(), DIAGONAL),
    "SGHMC-symmetric": sghmc(None, None, "symmetric"),
    "SGHMC-symmetric-dense": sghmc(iso.Dense(), C, "symmetric"),
    "SGNHT": thermostat(iso.SGNHT(**THERMOSTAT)),
    "SGNHT-midpoint": thermostat(iso.SGNHT(scheme="euler-midpoint", **THERMOSTAT)),
    "CCAdL-dense": ccadl(iso.Dense(), C),
    "CCAdL-midpoint": ccadl(iso.Dense(), C, "euler-midpoint"),
    "CCAdL-diagonal": ccadl(iso.Diagonal(), DIAGONAL),
    "CCAdL-low-rank": ccadl(
        iso.DiagonalLowRank(D), C
    ),  # as many directions as parameters: nothing is missing
    "CCAdL-matrix-free": ccadl(iso.MatrixFree(), BATCH),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def test_the_cases_clip_some_directions_and_not_others():
    for name in ("ModifiedSGLD-dense", "SGHMC-dense", "SGHMC-diagonal", "SGHMC-symmetric-dense"):
        assert 0 < CASES[name].clipped < D


@every_case
def test_terms_of_the_kick(case):
    sampler, start = case.sampler, P
    state, info = kick(sampler, THETA, P, F, jax.random.key(1))
    if state.momentum is None:
        start = THETA
    bare, _ = kick(sampler, np.zeros(D), np.zeros(D), np.zeros(D), jax.random.key(1))
    np.testing.assert_allclose(moved(state) - moved(bare), case.keeps @ start + case.kick * F, **ROUNDING)
    assert int(state.step) == STEP + 1
    assert sampler.noise_scale(STEP) == pytest.approx(case.s_per_noise, rel=1e-6)
    if case.covariance is not None:
        assert int(state.covariance.count) == 2
    assert (None if info.clipped is None else int(info.clipped)) == case.clipped
    if state.momentum is None:
        return
    p = np.asarray(moved(state), np.float64)
    if case.moves == 1:
        np.testing.assert_array_equal(tree.ravel(state.position), np.float32(THETA))
    else:
        np.testing.assert_allclose(
            tree.ravel(state.position), THETA + (1 - case.moves) * h * p / MASS, **ROUNDING
        )
    driving = p
    if isinstance(sampler, iso.SGHMC) and sampler.scheme == "symmetric":
        # 1/beta on average at every step of a quadratic potential
        driving = np.sqrt(1 + a) * (P + p) / 2
    np.testing.assert_allclose(float(info.kinetic_temperature), driving @ (driving / MASS) / D, **ROUNDING)
    if state.xi is not None:
        driving = (P + p) / 2 if sampler.scheme == "euler-midpoint" else p
        np.testing.assert_allclose(
            float(state.xi), XI + h / MU * (driving @ (driving / MASS) - D * T), **ROUNDING
        )
        assert float(info.xi) == float(state.xi)


@every_case
def test_covariance_of_the_added_noise(case):
    """20,000 kicks from rest give variances to 5 %; a factor of 2 or T is 30 % and more. 6e-7 per entry."""
    zero = np.zeros(D)
    one = lambda key: moved(kick(case.sampler, zero, zero, zero, key)[0])
    noise = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(2), KEYS))
    assert_covariance(noise, case.noise)


@pytest.mark.parametrize("case", [case for name, case in CASES.items() if "SGLD" not in name][::3])
def test_start_and_drift(case):
    """p ~ N(0, M T) with the schedules at step 0, and theta moves by h M^-1 p, or by half of it."""
    at_start = T * (1 - 0.25 * STEP)
    one = lambda key: tree.ravel(case.sampler.init(LIKE, key=key).momentum)
    assert_covariance(jax.vmap(one)(jax.random.split(jax.random.key(3), KEYS)), at_start * np.diag(MASS))
    state = case.sampler.drift(state_of(case.sampler, THETA, P), key=jax.random.key(4))
    np.testing.assert_allclose(tree.ravel(state.position), THETA + case.moves * h * P / MASS, **ROUNDING)
    np.testing.assert_array_equal(moved(state), np.float32(P))


@every_case
def test_a_restart_resets_only_the_average(case):
    before = state_of(case.sampler, THETA, P)
    after = case.sampler.restart_averages(before)
    assert after.covariance is None or int(after.covariance.count) == 0
    for name in ("position", "momentum", "xi", "step"):
        jax.tree.map(np.testing.assert_array_equal, getattr(after, name), getattr(before, name))


@pytest.mark.parametrize(("given", "want"), [(None, A), (0.0, 0.0), (-0.3, -0.3)])
def test_initial_value_of_xi(given, want):
    """0.0 is a value, not a default."""
    for sampler in (iso.SGNHT(h, A, initial_xi=given), iso.CCAdL(h, A, initial_xi=given)):
        assert float(sampler.init(LIKE, key=jax.random.key(5)).xi) == pytest.approx(want)


def test_thermal_mass_is_the_number_of_parameters_by_default():
    plain, given = iso.SGNHT(h, A), iso.SGNHT(h, A, thermal_mass=float(D))
    after = [kick(s, THETA, P, F, jax.random.key(6))[0].xi for s in (plain, given)]
    assert float(after[0]) == pytest.approx(float(after[1]), rel=1e-6)
