"""The noise without a gradient per row: every estimate of C has the mean C, for all batches that can be drawn.

All batches of a tiny data set are listed, in every order, since a plan draws them all with equal probability and
the halves of a batch depend on its order. Means over them are exact; what is compared is rounding.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.gradients import minibatch
from isotherm.gradients.minibatch import BatchNoise
from support.jaxprs import intermediates
from support.monte_carlo import assert_mean
from support.tiny import (
    BATCHED,
    DIMENSION,
    POSTERIOR,
    PRIOR_GRADIENT,
    ROUNDING,
    N,
    estimates,
    flat,
    row_gradients,
    unflat,
)

DESIGNS = {
    **{f"with, n={n}": (list(itertools.product(range(N), repeat=n)), 1.0) for n in (2, 3, 4)},
    **{f"without, n={n}": (list(itertools.permutations(range(N), n)), 1 - n / N) for n in (2, 3, 4)},
}
designs = pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS.keys())
CASES = {
    **{name: (design, POSTERIOR) for name, design in DESIGNS.items()},
    "batched": (DESIGNS["with, n=3"], BATCHED),
}
cases = pytest.mark.parametrize(("design", "posterior"), CASES.values(), ids=CASES.keys())
HALVES, SIGNS = iso.extend.Needs(contrasts=1), iso.extend.Needs(contrasts=3)

pytestmark = pytest.mark.usefixtures("quick_compilation")


def covariance_of_the_force(batches):
    """Of (N/n) sum g_i over all batches, from gradients by hand."""
    g = row_gradients()
    force = np.stack([N / len(batch) * g[list(batch)].sum(axis=0) for batch in batches])
    np.testing.assert_allclose(force.mean(axis=0), g.sum(axis=0))
    return np.cov(force.T, bias=True)


def second_moment(z):
    """The mean of z z' over batches and contrasts."""
    return np.einsum("bki,bkj->ij", z, z) / z.shape[0] / z.shape[1]


def assert_equal(got, want):
    np.testing.assert_allclose(got, want, atol=ROUNDING * np.abs(want).max())


@cases
@pytest.mark.parametrize("one_linearisation", [True, False])
def test_halves(design, posterior, one_linearisation, monkeypatch):
    """E[z z'] = C, for batches of odd size too; and z is a contrast, so its mean is 0. By both ways to compute it."""
    monkeypatch.setattr(minibatch, "_cheap_backward", lambda position, batch: one_linearisation)
    force, z, log_density, _ = estimates(posterior, design, HALVES)
    assert_equal(force.mean(axis=0), row_gradients().sum(axis=0) + PRIOR_GRADIENT)
    np.testing.assert_allclose(log_density, estimates(posterior, design)[2], rtol=ROUNDING)
    assert z.shape[1:] == (1, DIMENSION)
    want = covariance_of_the_force(design[0])
    assert_equal(second_moment(z), want)
    np.testing.assert_allclose(z.mean(axis=(0, 1)), 0, atol=ROUNDING * np.sqrt(want.max()))


@cases
def test_random_signs(design, posterior, monkeypatch):
    """E[z z'] = C, with the mean over signs taken exactly: as many contrasts as there are signs, one of each."""
    n = len(design[0][0])
    every = np.array(list(itertools.product([-1.0, 1.0], repeat=n)))

    def all_signs(key, shape, dtype):
        assert shape == every.shape
        return jnp.asarray(every, dtype)

    monkeypatch.setattr(jax.random, "rademacher", all_signs)
    force, z, log_density, _ = estimates(posterior, design, iso.extend.Needs(contrasts=len(every)))
    assert_equal(second_moment(z), covariance_of_the_force(design[0]))
    assert_equal(force.mean(axis=0), row_gradients().sum(axis=0) + PRIOR_GRADIENT)
    np.testing.assert_allclose(log_density, estimates(posterior, design)[2], rtol=ROUNDING)


def contrasts_of_one_batch(needs, count):
    """Contrasts of one batch of four rows under many keys: (count, k, d)."""
    batch = iso.extend.Batch({k: v[:4] for k, v in ROWS.items()}, jnp.arange(4), N, 1.0)
    one = lambda key: (
        iso.Minibatch(POSTERIOR)(unflat(jnp.ones(DIMENSION)), batch, needs=needs, key=key).contrasts
    )
    out = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), count))
    return np.asarray(jax.vmap(jax.vmap(flat))(out), np.float64)


ROWS = {"x": jnp.asarray(np.random.default_rng(1).normal(size=(4, 2)), jnp.float32), "y": jnp.arange(4.0)}


def test_signs_are_drawn_anew_for_each_contrast():
    """Given the batch, E[z z'] is its C, and two contrasts of one batch are uncorrelated. 5 errors, 6e-7 each."""
    z = contrasts_of_one_batch(SIGNS, 4000)
    batch = iso.extend.Batch(ROWS, jnp.arange(4), N, 1.0)
    noise = BatchNoise(POSTERIOR, unflat(jnp.ones(DIMENSION)), batch, halved=False)
    C = np.column_stack([np.asarray(flat(noise.mv(unflat(e)))) for e in jnp.eye(DIMENSION)])
    for i, j in itertools.product(range(DIMENSION), repeat=2):
        assert_mean(np.mean(z[:, :, i] * z[:, :, j], axis=1), C[i, j])
        assert_mean(z[:, 0, i] * z[:, 1, j], 0.0)
        assert_mean(z[:, 1, i] * z[:, 2, j], 0.0)


@cases
@pytest.mark.parametrize(
    "needs", [iso.extend.Needs(1, True), iso.extend.Needs(0, True)], ids=["halved", "whole"]
)
def test_operator_of_a_batch(design, posterior, needs):
    """Batch by batch (N^2/n) f V x, whose mean over all batches is C x."""
    batches, factor = design
    n, g = len(batches[0]), row_gradients()
    columns = lambda e: jax.vmap(lambda x: flat(e.operator.mv(unflat(x))))(jnp.eye(DIMENSION))
    products = estimates(posterior, design, needs, columns)[3]
    V = np.stack([np.cov(g[list(batch)].T) for batch in batches])
    assert_equal(products, N**2 / n * factor * V)
    assert_equal(products.mean(axis=0), covariance_of_the_force(batches))


@designs
def test_all_estimates_have_the_force_of_the_plain_gradient(design):
    """Batch by batch, up to rounding; the log-density agrees as well."""
    plain, _, density, _ = estimates(POSTERIOR, design, iso.extend.Needs.NOTHING)
    assert_equal(plain.mean(axis=0), row_gradients().sum(axis=0) + PRIOR_GRADIENT)
    for needs in (HALVES, SIGNS, iso.extend.Needs.EXACT, iso.extend.Needs(1, True)):
        force, z, other, _ = estimates(POSTERIOR, design, needs)
        assert_equal(force, plain)
        assert_equal(other, density)
        assert z.shape[1] == {1: 1, 3: 3, "exact": len(design[0][0])}[needs.contrasts]


def test_the_prior_is_in_no_contrast():
    design = DESIGNS["with, n=3"]
    flat_prior = iso.Posterior(POSTERIOR.log_likelihood)
    for needs in (HALVES, SIGNS):
        assert_equal(estimates(POSTERIOR, design, needs)[1], estimates(flat_prior, design, needs)[1])


def excess(plan, N, n, needs, count=20_000):
    """(noise of the force)^2 - mean z^2 over many batches of one plan, for a sum of rows: mean 0 where E[z^2] = C."""
    x = jnp.asarray(np.random.default_rng(2).gamma(1.0, size=N), jnp.float32)
    gradient = iso.Minibatch(iso.Posterior(lambda theta, row: theta * row))

    def one(key):
        arrange_key, batch_key, chain_key, gradient_key = jax.random.split(key, 4)
        data = plan.arrange(x, key=arrange_key)
        batch = plan.batch(data, jnp.asarray(0), num_data=N, batch_size=n, key=batch_key, chain_key=chain_key)
        estimate = gradient(jnp.zeros(()), batch, needs=needs, key=gradient_key)
        return (estimate.force - jnp.sum(x)) ** 2 - jnp.mean(estimate.contrasts**2)

    return jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=500))(
        jax.random.split(jax.random.key(3), count)
    )


PLANS = [
    pytest.param(iso.WithReplacement(), 60, id="WithReplacement"),
    pytest.param(iso.WithoutReplacement(), 60, id="WithoutReplacement"),
    pytest.param(iso.RandomBlocks(rows_per_run=4), 500, id="RandomBlocks", marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize(("plan", "num_data"), PLANS)
@pytest.mark.parametrize("needs", [HALVES, SIGNS], ids=["halves", "signs"])
def test_contrasts_of_drawn_batches(plan, num_data, needs):
    """20,000 batches of 15 rows: the variance to 5 standard errors, 7 %; false alarm 6e-7. Of 60 rows 15 without
    replacement have a finite-population factor of 3/4. Runs of r rows want N/r large: see `RandomBlocks`."""
    assert_mean(excess(plan, num_data, 15, needs), 0.0)


@pytest.mark.parametrize("needs", [HALVES, SIGNS], ids=["halves", "signs"])
def test_contrasts_of_long_runs(needs):
    """Two runs of 8 of 40 rows: rows of one run are never the same row twice. To 5 standard errors, 7 %."""
    assert_mean(excess(iso.RandomBlocks(rows_per_run=8), 40, 16, needs), 0.0)


N_ROWS, WIDE, DEEP = 13, 7, 11


def softmax(params, rows):
    logits = rows["x"] @ params["w"] + params["b"][None]
    return jax.nn.log_softmax(logits)[jnp.arange(rows["y"].shape[0]), rows["y"]]


def one_softmax(params, row):
    return jax.nn.log_softmax(row["x"] @ params["w"] + params["b"])[row["y"]]


SOFTMAX = {"per row": iso.Posterior(one_softmax), "batched": iso.Posterior(softmax, batched=True)}
START = {"w": jnp.zeros((WIDE, DEEP)), "b": jnp.zeros(DEEP)}


def largest(posterior, covariance, scheme="euler"):
    """The size of the largest intermediate array in a start and a step."""
    rows = {"x": jnp.zeros((2 * N_ROWS, WIDE)), "y": jnp.zeros(2 * N_ROWS, int)}
    sampler = iso.CCAdL(0.1, 1.0, covariance, scheme=scheme)
    kernel = iso.extend.Kernel(sampler, iso.Minibatch(posterior), 2 * N_ROWS, N_ROWS)

    def step(position, rows, key):
        return kernel.step(kernel.init(position, rows, key=key), rows, key=key)[:2]

    shapes = intermediates(jax.make_jaxpr(step)(START, rows, jax.random.key(0)).jaxpr)
    return max(int(np.prod(shape)) for shape in shapes)


@pytest.mark.parametrize("posterior", SOFTMAX.values(), ids=SOFTMAX.keys())
def test_no_gradient_per_row_is_ever_made(posterior):
    """13 rows and a weight of 7 x 11: only the paper's formula makes an array of 13 x 7 x 11 numbers."""
    assert largest(posterior, iso.Diagonal("exact")) >= N_ROWS * WIDE * DEEP
    for covariance in (iso.Diagonal(), iso.Diagonal(contrasts=3), iso.DiagonalLowRank(4)):
        assert largest(posterior, covariance) < N_ROWS * WIDE * DEEP
    for scheme in ("euler", "symmetric"):
        assert largest(posterior, iso.MatrixFree(), scheme) < N_ROWS * WIDE * DEEP
