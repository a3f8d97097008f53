"""Small networks as pytrees: convolution, embedding, attention, tied weights, a likelihood of whole batches.

They differ in structure and in the shapes of their leaves, and in each a gradient per row could differ from what
forward and backward passes over a batch give.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import isotherm as iso
from isotherm import tree
from isotherm.gradients.minibatch import BatchNoise

N, BATCH = 12, 5
RNG = np.random.default_rng(0)

pytestmark = pytest.mark.usefixtures("quick_compilation")


def normal(*shape, scale=0.5):
    return jnp.asarray(scale * RNG.normal(size=shape), jnp.float32)


def convolution(params, row):
    """A 2 x 2 kernel over a 4 x 4 image with two channels, whose means predict a label."""
    image = row["image"][None, None]
    maps = jax.lax.conv_general_dilated(image, params["kernel"], (1, 1), "VALID")[0]
    logit = jnp.mean(jnp.tanh(maps), axis=(1, 2)) @ params["head"][0] + params["head"][1]
    return jax.nn.log_sigmoid(row["y"] * logit)


def embedding(params, row):
    """The mean of the vectors of three words; most words are not in a batch."""
    vector = jnp.mean(params["table"][row["words"]], axis=0)
    return -0.5 * (row["y"] - vector @ params["out"]) ** 2


class Attention(NamedTuple):
    query: Array
    key: Array
    value: Array


def attention(params, row):
    """One head over three tokens of four numbers."""
    x = row["tokens"]
    weights = jax.nn.softmax((x @ params.query) @ (x @ params.key).T / 2.0)
    return -0.5 * jnp.mean((row["y"] - jnp.sum(weights @ (x @ params.value), axis=1)) ** 2)


def tied(params, row):
    """An autoencoder whose decoder is the transpose of its encoder."""
    weight, (bias,) = params
    return -0.5 * jnp.sum((row - weight.T @ jnp.tanh(weight @ row + bias)) ** 2)


def batched(params, rows):
    """Two layers, all rows at once."""
    hidden = jnp.tanh(rows["x"] @ params[0]["w"] + params[0]["b"][None])
    return -0.5 * (rows["y"] - hidden @ params[1]) ** 2


SIGNS = jnp.asarray(RNG.choice([-1.0, 1.0], N), jnp.float32)
MODELS = {
    "convolution": (
        iso.Posterior(convolution),
        {"kernel": normal(2, 1, 2, 2), "head": (normal(2), normal())},
        {"image": normal(N, 4, 4), "y": SIGNS},
    ),
    "embedding": (
        iso.Posterior(embedding),
        {"table": normal(7, 3), "out": normal(3)},
        {"words": jnp.asarray(RNG.integers(7, size=(N, 3))), "y": normal(N)},
    ),
    "attention": (
        iso.Posterior(attention),
        Attention(normal(4, 2), normal(4, 2), normal(4, 2)),
        {"tokens": normal(N, 3, 4, scale=1.0), "y": normal(N, 3)},
    ),
    "tied": (iso.Posterior(tied), (normal(2, 4), [normal(2)]), normal(N, 4, scale=1.0)),
    "batched": (
        iso.Posterior(batched, batched=True),
        [{"w": normal(3, 4), "b": normal(4)}, normal(4)],
        {"x": normal(N, 3, scale=1.0), "y": normal(N)},
    ),
}
models = pytest.mark.parametrize(("posterior", "params", "data"), MODELS.values(), ids=MODELS.keys())


def a_batch(data):
    index = jnp.asarray([7, 0, 3, 11, 4])
    return iso.extend.Batch(jax.tree.map(lambda x: x[index], data), index, N, 1 - BATCH / N)


def centred_gradients(posterior, params, batch):
    """Return the gradient of each row minus the mean of all: (n, d), in float64."""
    each = jax.vmap(jax.grad(posterior.one_log_likelihood), in_axes=(None, 0))
    gradients = jax.jit(each)(params, batch.rows)
    g = np.asarray(jax.vmap(tree.ravel)(gradients), np.float64)
    return g - g.mean(axis=0)


@pytest.mark.slow
@models
def test_the_operator_of_a_batch_is_that_of_its_gradients(posterior, params, data):
    """C x = (N^2/n) f G_c' G_c x / (n - 1), for whole and halved batches, to the rounding of float32 sums, 1e-5."""
    batch = a_batch(data)
    G = centred_gradients(posterior, params, batch)
    x = RNG.normal(size=G.shape[1])
    want = N**2 / BATCH * (1 - BATCH / N) * G.T @ (G @ x) / (BATCH - 1)
    for halved in (False, True):
        apply = jax.jit(lambda params, y, h=halved: BatchNoise(posterior, params, batch, h).mv(y))
        product = apply(params, tree.unravel_like(jnp.asarray(x, jnp.float32), params))
        assert jax.tree.structure(product) == jax.tree.structure(params)
        np.testing.assert_allclose(tree.ravel(product), want, atol=1e-5 * np.abs(want).max())


@pytest.mark.slow
@models
def test_contrasts_are_like_the_parameters(posterior, params, data):
    """They have the structure, shapes and dtypes of the parameters, plus a leading axis.

    They lie in the span of the centred gradients of the rows. The contrast of the halves agrees with its formula
    to 1e-5.
    """
    batch = a_batch(data)
    G = centred_gradients(posterior, params, batch)
    c = N * np.sqrt((1 - BATCH / N) / BATCH)
    for needs, count in ((iso.extend.Needs(1), 1), (iso.extend.Needs(3), 3), (iso.extend.Needs.EXACT, BATCH)):
        gradient = lambda p, b, needs=needs: iso.Minibatch(posterior)(
            p, b, needs=needs, key=jax.random.key(0)
        )
        estimate = jax.jit(gradient)(params, batch)
        assert jax.tree.structure(estimate.contrasts) == jax.tree.structure(params)
        for z, x in zip(jax.tree.leaves(estimate.contrasts), jax.tree.leaves(params), strict=True):
            assert (z.shape, z.dtype) == ((count, *x.shape), x.dtype)
        rows = np.asarray(jax.vmap(tree.ravel)(estimate.contrasts), np.float64)
        weights = np.linalg.lstsq(G.T, rows.T)[0]
        np.testing.assert_allclose(G.T @ weights, rows.T, atol=1e-4 * np.abs(rows).max())
        if needs.contrasts == 1:
            halves = (G[:2].mean(axis=0) - G[2:].mean(axis=0)) / np.sqrt(1 / 2 + 1 / 3)
            np.testing.assert_allclose(rows[0], c * halves, atol=1e-5 * np.abs(rows).max())
        if needs == iso.extend.Needs.EXACT:
            want = c * np.sqrt(BATCH / (BATCH - 1)) * G
            np.testing.assert_allclose(rows, want, atol=1e-5 * np.abs(rows).max())


COVARIANCES = (iso.Diagonal(), iso.DiagonalLowRank(4), iso.MatrixFree())
RUNS = [(name, c, scheme) for name in MODELS for c in COVARIANCES for scheme in ("euler", "symmetric")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "covariance", "scheme"),
    [pytest.param(*run, id=f"{run[0]}-{type(run[1]).__name__}-{run[2]}") for run in RUNS],
)
def test_twenty_steps(name, covariance, scheme):
    """Draws have the structure of the parameters and are finite, and every number moves: the noise reaches each."""
    posterior, params, data = MODELS[name]
    draws = iso.sample(
        posterior,
        data,
        params,
        sampler=iso.CCAdL(0.01, 5.0, covariance, scheme=scheme),
        batch_size=BATCH,
        num_draws=20,
        num_chains=1,
        progress=False,
    )
    assert jax.tree.structure(draws.posterior) == jax.tree.structure(params)
    for drawn, start in zip(jax.tree.leaves(draws.posterior), jax.tree.leaves(params), strict=True):
        assert drawn.shape == (1, 20, *start.shape)
        assert np.all(np.isfinite(drawn))
        assert np.all(drawn[0, -1] != np.asarray(start))
    assert np.all(np.isfinite(draws.stats["xi"]))
