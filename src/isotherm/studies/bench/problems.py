"""The problems whose steps are timed. The rows are synthetic: the cost of a step does not depend on their values."""

import dataclasses
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from isotherm.posterior import Posterior


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """A posterior with its rows, a start, a batch size, and a step size at which every sampler stays finite."""

    posterior: Posterior
    data: PyTree[Array]
    start: PyTree[Array]
    num_data: int
    batch_size: int
    step_size: float
    friction: float = 10.0

    @property
    def dimension(self) -> int:
        """N_d."""
        return sum(x.size for x in jax.tree.leaves(self.start))


def network(layers: Sequence[int], rows: int, batch: int, seed: int = 0) -> Problem:
    """Return a classifier with relu layers and a batched log-likelihood."""
    keys = jax.random.split(jax.random.key(seed), len(layers) + 1)
    pairs = list(zip(layers[:-1], layers[1:], keys[2:], strict=True))
    start = [{"w": jax.random.normal(k, (a, b)) / math.sqrt(a), "b": jnp.zeros(b)} for a, b, k in pairs]
    x = jax.random.normal(keys[0], (rows, layers[0]))
    y = jax.random.randint(keys[1], (rows,), 0, layers[-1])
    posterior = Posterior(_network_likelihood, _normal_prior, batched=True)
    return Problem(posterior, (x, y), start, rows, batch, step_size=0.015 * math.sqrt(batch) / rows)


def logistic(rows: int, dimension: int, batch: int, seed: int = 0) -> Problem:
    """Return a logistic regression on standard normal features with a log-likelihood per row."""
    keys = jax.random.split(jax.random.key(seed), 3)
    x = jax.random.normal(keys[0], (rows, dimension))
    true = jax.random.normal(keys[1], (dimension,)) / math.sqrt(dimension)
    y = jnp.where(jax.random.uniform(keys[2], (rows,)) < jax.nn.sigmoid(x @ true), 1.0, -1.0)
    posterior = Posterior(logistic_likelihood, _normal_prior)
    # s = h^2 (N^2 / n) lambda, where lambda is about 1/4.
    return Problem(posterior, (x, y), true, rows, batch, step_size=0.5 * math.sqrt(batch) / rows)


def logistic_likelihood(w: Float[Array, " d"], row: tuple[Array, Array]) -> Float[Array, ""]:
    """Return log sigmoid(y x.w), where y is 1 or -1."""
    x, y = row
    return jax.nn.log_sigmoid(y * (x @ w))


def _network_likelihood(layers: list[dict[str, Array]], batch: tuple[Array, Array]) -> Float[Array, " n"]:
    h, y = batch
    for layer in layers[:-1]:
        h = jax.nn.relu(h @ layer["w"] + layer["b"][None])
    logits = h @ layers[-1]["w"] + layers[-1]["b"][None]
    return jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1)[:, 0]


def _normal_prior(params: PyTree) -> Float[Array, ""]:
    return sum((-0.5 * jnp.sum(x**2) for x in jax.tree.leaves(params)), start=jnp.zeros(()))
