"""Two small modules with members of every kind that is not sampled, and how their tests run."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import isotherm as iso

X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
SMALL = {
    "sampler": iso.CCAdL(0.01, 1.0, iso.Diagonal(), scheme="symmetric"),
    "batch_size": 4,
    "progress": False,
}


@pytest.fixture(autouse=True)
def small_programs(request):
    if "slow" not in request.keywords:
        request.getfixturevalue("quick_compilation")


@pytest.fixture(autouse=True)
def lenient_ranks():
    """The layers of both libraries add a bias of one axis to rows."""
    with jax.numpy_rank_promotion("allow"):
        yield


class Perceptron(eqx.Module):
    """A module with members that are not sampled: a function, a count, a number, dropout."""

    layers: list
    dropout: eqx.nn.Dropout
    count: jax.Array
    shift: float

    def __init__(self):
        keys = jax.random.split(jax.random.key(0), 2)
        self.layers = [eqx.nn.Linear(3, 4, key=keys[0]), jax.nn.tanh, eqx.nn.Linear(4, 2, key=keys[1])]
        self.dropout = eqx.nn.Dropout(0.5)
        self.count = jnp.asarray(3)
        self.shift = 1.0

    def __call__(self, x):
        return self.layers[2](self.dropout(self.layers[1](self.layers[0](x)))) + self.shift


class Block(nnx.Module):
    """A module with members that are not sampled: batch statistics, random state, a variable, an integer."""

    def __init__(self):
        rngs = nnx.Rngs(0)
        self.layers = nnx.List([nnx.Linear(3, 4, rngs=rngs), nnx.Linear(4, 2, rngs=rngs)])
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.shift = nnx.Variable(jnp.ones(2))
        self.count = nnx.Param(jnp.asarray(3))

    def __call__(self, x):
        return self.layers[1](self.dropout(self.norm(self.layers[0](x)))) + self.shift[...]
