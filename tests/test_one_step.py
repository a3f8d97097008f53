"""One step of every sampler against its equation, term by term.

A kick is linear: with momentum and force at zero only the added noise is left, and the difference of two kicks
with one key has none. So the terms of the equation are compared to rounding and the covariance of the noise to its
Monte Carlo error, with nothing assumed about how a sampler uses its key. Step size, friction, temperature and
masses all differ from 1, and the first three are schedules read at step 3.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm import tree
from monte_carlo import LIMIT

h, A, T, MU, XI, STEP = 0.1, 1.5, 0.7, 5.0, 0.4, 3
LIKE = {"a": jnp.zeros(2), "b": jnp.zeros((1, 2))}
MASS = np.array([2.0, 0.5, 1.0, 3.0])
D, KEYS = 4, 20_000
RNG = np.random.default_rng(0)
THETA, P, F = RNG.normal(size=(3, D))
OLD, NEW = 6 * RNG.normal(size=(2, 3, D))  # three contrasts of the last batch and of this one
C = (OLD.T @ OLD + NEW.T @ NEW) / 6  # both batches have weight 1/2 in the average after this step
DIAGONAL = np.diag(np.diag(C))
ROUNDING = {"rtol": 2e-5, "atol": 2e-5}


@pytest.fixture(autouse=True)
def quick_compilation():
    """Small programs are compiled here and run once."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def scheduled(value):
    """A schedule that is right at step 3 and nowhere else."""
    return lambda step: value * (1 + 0.25 * (step - STEP))


HYPER = {"step_size": scheduled(h), "temperature": scheduled(T)}


def shaped(vector):
    return tree.unravel_like(jnp.asarray(vector, jnp.float32), LIKE)


MOMENTUM = {"friction": scheduled(A), "mass": shaped(MASS), **HYPER}
THERMOSTAT = {"thermal_mass": MU, **MOMENTUM}


def remainder(c, covariance, mass):
    """M^1/2 (I - c M^-1/2 C M^-1/2) M^1/2 with negative eigenvalues at 0, and their number."""
    root = np.sqrt(mass)
    values, vectors = np.linalg.eigh(np.eye(len(mass)) - c * covariance / np.outer(root, root))
    positive = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
    return positive * np.outer(root, root), int(np.sum(values < 0))


@dataclasses.dataclass(frozen=True)
class Case:
    """A sampler; the matrix that its kick applies to the old momentum or position; the covariance of its noise."""

    sampler: iso.Sampler
    keeps: np.ndarray
    noise: np.ndarray
    covariance: np.ndarray | None = None
    clipped: int | None = None
    mass: np.ndarray = dataclasses.field(default_factory=lambda: np.ones(D))
    s_per_noise: float = h**2 / T


def thermostat(sampler, covariance=None):
    damping = XI * np.eye(D) + (0 if covariance is None else h / (2 * T) * covariance / MASS)
    return Case(sampler, np.eye(D) - h * damping, 2 * A * h * T * np.diag(MASS), covariance, mass=MASS)


def sghmc(kind, covariance, c=h / (2 * A * T)):
    noise, clipped = remainder(c, np.zeros((D, D)) if covariance is None else covariance, MASS)
    count = None if covariance is None else clipped
    sampler = iso.SGHMC(covariance=kind, **MOMENTUM)
    return Case(sampler, (1 - h * A) * np.eye(D), 2 * A * h * T * noise, covariance, count, MASS)


def modified_sgld(kind, covariance, form="exact"):
    noise, clipped = remainder(h / (2 * T), covariance, np.ones(D))
    if form == "first-order":
        factor = np.eye(D) - h / (4 * T) * covariance
        noise, clipped = factor @ factor.T, None
    sampler = iso.ModifiedSGLD(covariance=kind, form=form, **HYPER)
    return Case(sampler, np.eye(D), 2 * h * T * noise, covariance, clipped, s_per_noise=2 * h / T)


CASES = {
    "SGLD": Case(iso.SGLD(**HYPER), np.eye(D), 2 * h * T * np.eye(D)),
    "ModifiedSGLD-dense": modified_sgld(iso.Dense(), C),
    "ModifiedSGLD-first-order": modified_sgld(iso.Dense(), C, "first-order"),
    "SGHMC": sghmc(None, None),
    "SGHMC-dense": sghmc(iso.Dense(), C),
    "SGHMC-diagonal": sghmc(iso.Diagonal(), DIAGONAL),
    "SGNHT": thermostat(iso.SGNHT(**THERMOSTAT)),
    "CCAdL-dense": thermostat(iso.CCAdL(covariance=iso.Dense(), **THERMOSTAT), C),
    "CCAdL-diagonal": thermostat(iso.CCAdL(covariance=iso.Diagonal(), **THERMOSTAT), DIAGONAL),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def state_of(sampler, theta, p):
    """A state at step 3 whose average holds one batch."""
    state = sampler.init(shaped(theta), key=jax.random.key(0))
    average = state.covariance
    if average is not None:
        average = sampler.covariance.update(average, estimate_of(np.zeros(D), OLD))
    momentum = None if state.momentum is None else shaped(p)
    xi = None if state.xi is None else jnp.asarray(XI)
    return iso.State(shaped(theta), momentum, xi, average, jnp.asarray(STEP))


def estimate_of(force, contrasts):
    return iso.GradientEstimate(shaped(force), jax.vmap(shaped)(jnp.asarray(contrasts)), jnp.zeros(()))


def moved(state):
    """What the kick moves: the momentum where there is one, else the position."""
    return tree.ravel(state.position if state.momentum is None else state.momentum)


def kick(sampler, theta, p, force, key):
    return sampler.kick(state_of(sampler, theta, p), estimate_of(force, NEW), key=key)


def test_the_cases_clip_some_directions_and_not_others():
    for name in ("ModifiedSGLD-dense", "SGHMC-dense", "SGHMC-diagonal"):
        assert 0 < CASES[name].clipped < D


@every_case
def test_terms_of_the_kick(case):
    sampler, start = case.sampler, P
    state, info = kick(sampler, THETA, P, F, jax.random.key(1))
    if state.momentum is None:
        start = THETA
    bare, _ = kick(sampler, np.zeros(D), np.zeros(D), np.zeros(D), jax.random.key(1))
    np.testing.assert_allclose(moved(state) - moved(bare), case.keeps @ start + h * F, **ROUNDING)
    assert int(state.step) == STEP + 1
    np.testing.assert_allclose(float(info.virial), -THETA @ F / D, **ROUNDING)
    if case.covariance is not None:
        assert int(state.covariance.count) == 2
        root = np.sqrt(case.mass)
        largest = np.linalg.eigvalsh(case.covariance / np.outer(root, root))[-1]
        np.testing.assert_allclose(float(info.s), case.s_per_noise * largest, **ROUNDING)
    assert (None if info.clipped is None else int(info.clipped)) == case.clipped
    if state.momentum is None:
        return
    np.testing.assert_array_equal(tree.ravel(state.position), np.float32(THETA))
    p = np.asarray(moved(state), np.float64)
    np.testing.assert_allclose(float(info.kinetic_temperature), p @ (p / MASS) / D, **ROUNDING)
    if state.xi is not None:
        np.testing.assert_allclose(float(state.xi), XI + h / MU * (p @ (p / MASS) - D * T), **ROUNDING)
        assert float(info.xi) == float(state.xi)


def assert_covariance(samples, expected):
    """Mean zero and the covariance expected, each entry to `LIMIT` standard errors of a normal sample."""
    x = np.asarray(samples, np.float64)
    scale = np.outer(np.diag(expected), np.diag(expected))
    error = np.sqrt((scale + expected**2) / len(x))
    # Rounding alone is left in a direction whose noise is clipped away.
    floor = 1e-5 * np.abs(expected).max()
    assert np.all(np.abs(x.T @ x / len(x) - expected) < LIMIT * error + floor)
    assert np.all(np.abs(x.mean(axis=0)) < LIMIT * np.sqrt(np.diag(expected) / len(x)) + floor)


@every_case
def test_covariance_of_the_added_noise(case):
    """20,000 kicks from rest: variances to 5 %, where a factor of 2 or T is 30 % and more; 6e-7 an entry."""
    zero = np.zeros(D)
    one = lambda key: moved(kick(case.sampler, zero, zero, zero, key)[0])
    noise = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(2), KEYS))
    assert_covariance(noise, case.noise)


@pytest.mark.parametrize("case", [case for name, case in CASES.items() if "SGLD" not in name][::3])
def test_start_and_drift(case):
    """p ~ N(0, M T) with the schedules at step 0, and theta moves by h M^-1 p."""
    at_start = T * (1 - 0.25 * STEP)
    one = lambda key: tree.ravel(case.sampler.init(LIKE, key=key).momentum)
    assert_covariance(jax.vmap(one)(jax.random.split(jax.random.key(3), KEYS)), at_start * np.diag(MASS))
    state = case.sampler.drift(state_of(case.sampler, THETA, P), key=jax.random.key(4))
    np.testing.assert_allclose(tree.ravel(state.position), THETA + h * P / MASS, **ROUNDING)
    np.testing.assert_array_equal(moved(state), np.float32(P))


@every_case
def test_settling_forgets_the_average_and_nothing_else(case):
    before = state_of(case.sampler, THETA, P)
    after = case.sampler.settle(before)
    assert after.covariance is None or int(after.covariance.count) == 0
    for name in ("position", "momentum", "xi", "step"):
        jax.tree.map(np.testing.assert_array_equal, getattr(after, name), getattr(before, name))


@pytest.mark.parametrize(("given", "want"), [(None, A), (0.0, 0.0), (-0.3, -0.3)])
def test_xi_starts_where_it_is_told(given, want):
    """0.0 is a number like any other."""
    for sampler in (iso.SGNHT(h, A, initial_xi=given), iso.CCAdL(h, A, initial_xi=given)):
        assert float(sampler.init(LIKE, key=jax.random.key(5)).xi) == pytest.approx(want)


def test_thermal_mass_is_the_number_of_parameters_by_default():
    plain, given = iso.SGNHT(h, A), iso.SGNHT(h, A, thermal_mass=float(D))
    after = [kick(s, THETA, P, F, jax.random.key(6))[0].xi for s in (plain, given)]
    assert float(after[0]) == pytest.approx(float(after[1]), rel=1e-6)
