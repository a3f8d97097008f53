"""Float32 averages of C neither drift nor stop in runs of 10^8 steps."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.covariance.base import SMALLEST_WEIGHT
from support.estimate import Estimate

LATE = 50_000_000  # batches that the average has seen, where a weight of 1/t would drift
STEPS, LANES = 100_000, 512
C = np.array([[1.9, 0.5], [0.5, 1.0]])
ROOT = np.linalg.cholesky(C)
KINDS = {
    "Dense": iso.Dense(),
    "Dense, a schedule": iso.Dense(averaging=lambda t: 1 / t),
    "Diagonal": iso.Diagonal(),
    "MatrixFree": iso.MatrixFree(),
}


@functools.partial(jax.jit, static_argnums=0)
def late_averages(kind, keys):
    """Averages of every lane after `STEPS` more batches, from averages that are right at count `LATE`."""
    like, root = jnp.zeros(2), jnp.asarray(ROOT, jnp.float32)
    right = np.asarray(C if isinstance(kind, iso.Dense) else np.diag(C), np.float32)

    def start(_):
        empty = kind.init(like)
        operator = jax.tree.map(lambda x: jnp.asarray(right), empty.operator)
        return iso.extend.Average(jnp.asarray(LATE, jnp.int32), operator)

    def lane(average, z):
        return kind.update(average, iso.extend.GradientEstimate(like, z[None], jnp.zeros(())))

    def step(t, averages):
        normal = jax.random.normal(jax.random.fold_in(keys, t), (LANES, 2))
        return jax.vmap(lane)(averages, normal @ root.T)

    averages = jax.lax.fori_loop(0, STEPS, step, jax.vmap(start)(jnp.arange(LANES)))
    return jax.tree.leaves(averages.operator)[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_late_average_stays_right(name):
    """The mean over 512 lanes of averages that start at the truth, each entry to 5 standard errors: 6e-7 each.

    A standard error is 1e-4 of the entry. With weights of 1/t the diagonal grows by 1e-8 of itself in a step, so by
    1e-3 in this test.
    """
    got = np.asarray(late_averages(KINDS[name], jax.random.key(1)), np.float64)
    estimate = Estimate.of(got.reshape(LANES, -1))
    want = C.ravel() if isinstance(KINDS[name], iso.Dense) else np.diag(C)
    assert np.all(estimate.se < 2e-4 * want.max())
    assert np.all(np.abs(estimate.value - want) < 5 * estimate.se)


@pytest.mark.parametrize("averaging", [0.0, lambda t: (1.0 * t) ** -2], ids=["plain", "a schedule"])
def test_the_weight_in_float32_has_a_floor(averaging):
    """Weights are those of the schedule down to 2^-17, and below that in float64 only."""
    kind, t = iso.Dense(averaging=averaging), jnp.asarray(LATE)
    assert float(kind.kappa(t)) == SMALLEST_WEIGHT
    assert float(kind.kappa(jnp.asarray(2))) == float(averaging(2) if averaging else 0.5)
    with jax.enable_x64(True):
        wide = kind.kappa(jnp.asarray(LATE), jnp.float64)
        assert wide.dtype == jnp.float64
        np.testing.assert_allclose(float(wide), averaging(float(LATE)) if averaging else 1 / LATE, rtol=1e-6)


def test_a_count_beyond_32_bits_still_has_a_weight():
    """Seed and steps together may exceed 2^31 - 1, where the count wraps to a negative number."""
    wrapped = jnp.asarray(-(2**31), jnp.int32)
    assert float(iso.Dense().kappa(wrapped)) == SMALLEST_WEIGHT
    assert float(iso.Dense(averaging=lambda t: t**-0.5).kappa(wrapped)) == pytest.approx(2**-15.5)
