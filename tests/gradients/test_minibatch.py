"""The minibatch gradient on every batch that can be drawn: where N/n, N^2/n, f and the prior go."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from support.tiny import (
    BATCHED,
    DATA,
    DIMENSION,
    POSITION,
    POSTERIOR,
    PRIOR_GRADIENT,
    ROUNDING,
    N,
    estimates,
    flat,
    log_likelihood,
    row_gradients,
)

# Every batch that a plan can draw, equally likely, and its finite-population factor.
DESIGNS = {
    "with replacement, n=2": (list(itertools.product(range(N), repeat=2)), 1.0),
    "with replacement, n=3": (list(itertools.product(range(N), repeat=3)), 1.0),
    "without replacement, n=2": (list(itertools.combinations(range(N), 2)), 1 - 2 / N),
    "without replacement, n=3": (list(itertools.combinations(range(N), 3)), 1 - 3 / N),
    "all rows": ([tuple(range(N))], 0.0),
}
designs = pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS.keys())

pytestmark = pytest.mark.usefixtures("quick_compilation")


@designs
@pytest.mark.parametrize("needs", [iso.extend.Needs.NOTHING, iso.extend.Needs.EXACT])
def test_mean_force_is_the_full_gradient(design, needs):
    """Over all batches; the prior once, however large N/n is."""
    force, _, log_density, _ = estimates(POSTERIOR, design, needs)
    want = row_gradients().sum(axis=0) + PRIOR_GRADIENT
    np.testing.assert_allclose(force.mean(axis=0), want, rtol=ROUNDING, atol=ROUNDING * np.abs(want).max())
    assert log_density.mean() == pytest.approx(float(POSTERIOR.log_density(POSITION, DATA)), rel=ROUNDING)


@designs
def test_contrasts_give_the_covariance_of_the_force(design):
    """Batch by batch mean z z' = (N^2/n) f V, and over all batches that is the covariance of the force."""
    batches, factor = design
    n = len(batches[0])
    force, z, *_ = estimates(POSTERIOR, design)
    C = np.einsum("bki,bkj->bij", z, z) / z.shape[1]
    g = row_gradients()
    V = np.stack([np.cov(g[list(batch)].T) for batch in batches])
    scale = N**2 / n * np.abs(V).max()
    np.testing.assert_allclose(C, N**2 / n * factor * V, atol=ROUNDING * scale)
    exact = np.cov(force.T, bias=True) if len(batches) > 1 else np.zeros((DIMENSION, DIMENSION))
    np.testing.assert_allclose(C.mean(axis=0), exact, atol=2 * ROUNDING * scale)


def test_the_prior_is_not_in_the_covariance():
    with_prior = estimates(POSTERIOR, DESIGNS["with replacement, n=3"])
    without = estimates(iso.Posterior(log_likelihood), DESIGNS["with replacement, n=3"])
    np.testing.assert_array_equal(with_prior[1], without[1])
    difference = with_prior[0] - without[0]
    np.testing.assert_allclose(difference, np.broadcast_to(PRIOR_GRADIENT, difference.shape), rtol=1e-4)


@pytest.mark.parametrize("needs", [iso.extend.Needs.NOTHING, iso.extend.Needs.EXACT])
def test_batched_and_per_datum_forms_agree(needs):
    design = DESIGNS["with replacement, n=3"]
    one = estimates(POSTERIOR, design, needs)
    other = estimates(BATCHED, design, needs)
    assert (one[1] is None) == (needs is iso.extend.Needs.NOTHING)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=ROUNDING, atol=ROUNDING * np.abs(a).max())


def test_asking_for_the_noise_does_not_change_the_force():
    design = DESIGNS["without replacement, n=3"]
    plain, exact = (
        estimates(POSTERIOR, design, needs)[0] for needs in (iso.extend.Needs.NOTHING, iso.extend.Needs.EXACT)
    )
    np.testing.assert_allclose(plain, exact, rtol=ROUNDING, atol=ROUNDING * np.abs(plain).max())


def test_full_data_has_no_noise():
    batch = iso.extend.Batch(DATA, jnp.arange(N), N, 0.0)
    estimate = iso.FullData(POSTERIOR)(POSITION, batch, needs=iso.extend.Needs.EXACT, key=jax.random.key(0))
    want = row_gradients().sum(axis=0) + PRIOR_GRADIENT
    np.testing.assert_allclose(flat(estimate.force), want, rtol=ROUNDING)
    assert all((np.asarray(z) == 0).all() for z in jax.tree.leaves(estimate.contrasts))
