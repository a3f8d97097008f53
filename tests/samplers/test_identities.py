"""Equivalent settings give the same draws, bit for bit.

The compiled programs of the two sides differ, so this also checks that a term of zero adds nothing. If the arithmetic
differs, the tolerance is stated in units of the last place.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from support.known_noise import ROWS, GaussianTarget, KnownNoise, constant

# Identities hold at any step, and strong noise shows violations best.
pytestmark = [
    pytest.mark.filterwarnings("ignore:At the start:isotherm.IsothermWarning"),
    pytest.mark.usefixtures("quick_compilation"),
]

SEED = 3
TARGET = GaussianTarget(np.array([[2.0, 0.6, 0.0], [0.6, 1.0, 0.2], [0.0, 0.2, 0.5]]))
ONE = GaussianTarget(np.array([[2.0]]))
SIGMA2 = 4.0
h, A, T, M = 0.1, 1.5, 0.7, np.array([2.0, 0.5, 1.0])
SETTINGS = {"mass": M, "temperature": T, "thermal_mass": 5.0, "initial_xi": A}
NOISE, ONE_NOISE = constant(SIGMA2 * np.diag(M)), constant(np.array([[5.0]]))


def known(sampler, root=NOISE, target=TARGET, *, noise_scale=1.0, temperature=1.0):
    gradient = KnownNoise(target, root, noise_scale)
    return sampled(target.posterior(temperature), ROWS, target.unravel(target.mean), sampler, gradient)


def sampled(posterior, data, init, sampler, gradient=None):
    return iso.sample(
        posterior,
        data,
        init,
        sampler=sampler,
        batch_size=2,
        num_draws=100,
        thinning=3,
        burn_in=20,
        num_chains=3,
        seed=SEED,
        gradient=gradient,
        progress=False,
    )


def assert_same(a, b, *, ulps: int = 0) -> None:
    """Assert that draws and statistics agree, bit for bit or to `ulps` of the largest entry, and that chains move."""
    assert a.status == b.status
    x, y = jax.tree.leaves(a.posterior), jax.tree.leaves(b.posterior)
    common = sorted(set(a.stats) & set(b.stats))
    assert "configurational_temperature" in common
    pairs = [*zip(x, y, strict=True), *((a.stats[k], b.stats[k]) for k in common)]
    assert np.ptp(x[0]) > 0, "chains must move"
    for u, v in pairs:
        if ulps == 0:
            np.testing.assert_array_equal(u, v, err_msg=f"seed {SEED}")
        else:
            bound = ulps * np.finfo(np.float32).eps * np.abs(u).max()
            np.testing.assert_allclose(u, v, rtol=0, atol=bound, err_msg=f"seed {SEED}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "covariance",
    [
        pytest.param(iso.Dense(), id="dense"),
        pytest.param(iso.Diagonal(), id="diagonal"),
    ],
)
def test_ccadl_with_zero_covariance_is_sgnht(covariance):
    """Bit for bit."""
    ccadl = known(iso.CCAdL(h, A, covariance, **SETTINGS), noise_scale=0.0)
    sgnht = known(iso.SGNHT(h, A, **SETTINGS), noise_scale=0.0)
    assert_same(ccadl, sgnht)


@pytest.mark.slow
def test_ccadl_on_identical_rows_is_sgnht():
    """Identical rows have V = 0 in every batch. Equal up to rounding: CCAdL averages gradients per row, and SGNHT
    takes the gradient of the sum."""

    def log_likelihood(theta, x):
        return -0.5 * jnp.sum((x - theta) ** 2)

    posterior = iso.Posterior(log_likelihood, lambda theta: -0.5 * jnp.sum(theta**2))
    rows = np.tile(np.array([1.0, -2.0], np.float32), (8, 1))
    init = np.zeros(2, np.float32)
    ccadl = sampled(posterior, rows, init, iso.CCAdL(h, A, iso.Dense()))
    sgnht = sampled(posterior, rows, init, iso.SGNHT(h, A))
    assert_same(ccadl, sgnht, ulps=64)


@pytest.mark.slow
def test_sgnht_with_infinite_thermal_mass_is_sghmc():
    """Bit for bit, under gradient noise, with xi frozen at A."""
    sgnht = known(iso.SGNHT(h, A, **(SETTINGS | {"thermal_mass": np.inf})))
    sghmc = known(iso.SGHMC(h, A, mass=M, temperature=T))
    assert np.all(sgnht.stats["xi"] == A)
    assert_same(sgnht, sghmc)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda c: iso.CCAdL(h, A, c, mass=2.0, temperature=T), id="CCAdL"),
        pytest.param(lambda c: iso.SGHMC(h, A, c, mass=2.0, temperature=T), id="SGHMC"),
        pytest.param(lambda c: iso.ModifiedSGLD(h / 2, c, temperature=T), id="ModifiedSGLD"),
    ],
)
def test_dense_is_diagonal_on_one_parameter(make):
    """Whitening divides by sqrt(m) sqrt(m) in one and by m in the other: equal to rounding. The recursion
    forgets in 1/(hA) = 7 steps, so errors of an ulp or two in a step do not grow beyond a few dozen."""
    dense, diagonal = (known(make(c), ONE_NOISE, ONE) for c in (iso.Dense(), iso.Diagonal()))
    assert_same(dense, diagonal, ulps=64)


@pytest.mark.slow
def test_sgnht_with_shifted_xi_is_ccadl():
    """If C = sigma^2 M, the control is a friction of beta h sigma^2 / 2: SGNHT whose xi starts higher by that
    equals CCAdL, step by step, to rounding. This checks factor, temperature and mass without a statistic."""
    shift = h * SIGMA2 / (2 * T)
    sgnht = known(iso.SGNHT(h, A, **(SETTINGS | {"initial_xi": A + shift})))
    ccadl = known(iso.CCAdL(h, A, iso.Dense(), **SETTINGS))
    sgnht.stats["xi"][...] -= np.float32(shift)
    assert_same(sgnht, ccadl, ulps=64)


@pytest.mark.slow
def test_temperature_of_the_posterior_is_that_of_the_sampler():
    """Bit for bit. If both are given, that of the sampler is used."""
    by_sampler = known(iso.CCAdL(h, A, iso.Dense(), **SETTINGS))
    by_posterior = known(iso.CCAdL(h, A, iso.Dense(), **(SETTINGS | {"temperature": None})), temperature=T)
    both = known(iso.CCAdL(h, A, iso.Dense(), **SETTINGS), temperature=3.0)
    assert_same(by_posterior, by_sampler)
    assert_same(both, by_sampler)


@pytest.mark.slow
def test_constant_schedules_are_numbers():
    """Step size, friction and temperature as functions of the step: bit for bit."""

    def always(x):
        return lambda step: jnp.full((), x) + 0 * step

    scheduled = iso.CCAdL(always(h), always(A), iso.Dense(), **(SETTINGS | {"temperature": always(T)}))
    assert_same(known(scheduled), known(iso.CCAdL(h, A, iso.Dense(), **SETTINGS)))
