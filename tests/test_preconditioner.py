"""A preconditioned chain is the same as a plain chain on the posterior in the new coordinates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm import tree
from support.models import normal_mean

CENTER = {"a": jnp.asarray([1.0, -2.0]), "b": jnp.asarray(0.5)}
ROOT = np.array([[2.0, 0.3, 0.0], [0.0, 0.5, -0.2], [0.1, 0.0, 1.5]], np.float32)
KINDS = {
    "dense": iso.DensePreconditioner(CENTER, jnp.asarray(ROOT), jnp.asarray(np.linalg.inv(ROOT))),
    "diagonal": iso.DiagonalPreconditioner(CENTER, {"a": jnp.asarray([2.0, 0.1]), "b": jnp.asarray(3.0)}),
    "low rank": iso.LowRankPreconditioner(
        CENTER,
        {"a": jnp.asarray([2.0, 0.1]), "b": jnp.asarray(3.0)},
        {"a": jnp.asarray([[0.6, 0.0]]), "b": jnp.asarray([0.8])},
        jnp.asarray([0.3]),
    ),
}
kinds = pytest.mark.parametrize("chart", KINDS.values(), ids=KINDS.keys())
V = {"a": jnp.asarray([0.3, -1.0]), "b": jnp.asarray(2.0)}

pytestmark = pytest.mark.usefixtures("quick_compilation")


@kinds
def test_there_and_back(chart):
    back = chart.from_params(chart.to_params(V))
    np.testing.assert_allclose(tree.ravel(back), tree.ravel(V), rtol=1e-5)


@kinds
def test_forces_and_contrasts_are_pulled_back(chart):
    """L' x equals the transpose by autodiff."""
    x = {"a": jnp.asarray([1.0, 2.0]), "b": jnp.asarray(-1.0)}
    pull = lambda y: jax.vjp(chart.to_params, V)[1](y)[0]
    two = jax.tree.map(lambda leaf: jnp.stack([leaf, 3 * leaf]), x)
    for contrasts in (None, two):
        out = chart.pull(iso.extend.GradientEstimate(x, contrasts, jnp.zeros(())))
        np.testing.assert_allclose(tree.ravel(out.force), tree.ravel(pull(x)), rtol=1e-5)
    for i in range(2):
        row = jax.tree.map(lambda leaf, i=i: leaf[i], out.contrasts)
        np.testing.assert_allclose(tree.ravel(row), (1, 3)[i] * tree.ravel(pull(x)), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sampler",
    [
        iso.CCAdL(0.1, 1.0, covariance=iso.Dense(), scheme="symmetric"),
        iso.CCAdL(0.05, 1.0, covariance=iso.MatrixFree()),
        iso.SGLD(0.01),
    ],
    ids=["symmetric dense", "matrix-free", "SGLD"],
)
def test_a_chain_is_that_of_the_posterior_in_its_coordinates(sampler):
    """Draws, moments and temperatures equal those of a plain chain on log p(center + L v)."""
    posterior, data, _ = normal_mean()
    root = np.array([[0.2, 0.05], [-0.02, 0.1]], np.float32)
    center = jnp.asarray([0.1, -0.2])
    chart = iso.DensePreconditioner(center, jnp.asarray(root), jnp.asarray(np.linalg.inv(root)))
    moved = iso.Posterior(
        lambda v, row: posterior.log_likelihood(chart.to_params(v), row),
        lambda v: posterior.log_prior(chart.to_params(v)),
    )
    common = {"sampler": sampler, "batch_size": 8, "num_draws": 20, "thinning": 2, "burn_in": 10}
    common |= {"num_chains": 2, "progress": False}
    start = chart.to_params(jnp.asarray([0.5, 1.0]))
    ours = iso.sample(posterior, data, start, preconditioner=chart, **common)
    theirs = iso.sample(moved, data, jnp.asarray([0.5, 1.0]), **common)
    x = np.asarray(center) + theirs.posterior @ root.T
    np.testing.assert_allclose(ours.posterior, x, atol=2e-4)
    # SGLD pairs the mean gradient with the mean position one step later.
    if not isinstance(sampler, iso.SGLD):
        np.testing.assert_allclose(ours.moments.temperature, theirs.moments.temperature, rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(
        ours.moments.mean, np.asarray(center) + theirs.moments.mean @ root.T.astype(np.float64), atol=2e-4
    )
    assert ours.record.s == pytest.approx(theirs.record.s, rel=1e-2)


def test_low_rank_equals_its_matrix():
    rng = np.random.default_rng(0)
    u = np.linalg.qr(rng.normal(size=(5, 2)))[0].T.astype(np.float32)
    like = {"a": jnp.zeros(2), "b": jnp.zeros((3,))}
    split = lambda x: {"a": jnp.asarray(x[..., :2]), "b": jnp.asarray(x[..., 2:])}
    scale, factors = rng.uniform(0.5, 2, 5).astype(np.float32), np.array([0.1, 0.4], np.float32)
    chart = iso.LowRankPreconditioner(tree.multiply(1.0, like), split(scale), split(u), jnp.asarray(factors))
    L = scale[:, None] * (np.eye(5) + (u.T * (factors - 1)) @ u)
    x = rng.normal(size=5).astype(np.float32)
    for f, matrix in (
        (chart.multiply, L),
        (chart.multiply_transposed, L.T),
        (chart.solve, np.linalg.inv(L)),
    ):
        np.testing.assert_allclose(tree.ravel(f(split(x))), matrix @ x, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["i8", ">i8", "u8"])
def test_integers_of_64_bits_are_kept(dtype):
    """2^40 cut down to 32 bits is 0, and L = 0 puts all draws at the center."""
    chart = iso.DiagonalPreconditioner(np.zeros(2), np.full(2, 2**40, dtype))
    assert jax.jit(lambda chart: chart.multiply(jnp.ones(2)))(chart).tolist() == [2**40, 2**40]
