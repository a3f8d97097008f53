"""Equinox modules as posteriors."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from isotherm import tree
from isotherm.errors import must
from isotherm.interop.networks import Network, Params, Parts, call, fan_in, network
from isotherm.interop.priors import Prior


def posterior(
    module: PyTree,
    likelihood: str | Callable[..., Array],
    *,
    prior: Prior = 1.0,
    scale: float | int | None = None,
    extra: Mapping[str, Any] | None = None,
    trainable: PyTree = eqx.is_inexact_array,
    forward: Callable[[Any, PyTree], Array] | None = None,
) -> Network:
    """The posterior over the trainable parameters of a module that takes one example, as Equinox's do.

    The module is put in inference mode: a likelihood must be a function of the parameters and one row, and dropout
    would make it random, batch statistics a matter of the other rows.

    **Arguments:**

    - `likelihood`: of y given the outputs. `"gaussian"`, of unknown scale unless `scale` is given; `"categorical"`:
      outputs are logits and y counts classes from 0; `"bernoulli"`: the output is a logit and y is 0 or 1;
      `"poisson"`: the output is the log of the rate; or a function `(outputs, y) -> one value per row` of a batch.
    - `prior`: independent normals. A number multiplies the default scale of weights, 1/sqrt(fan-in); all else has
      the scale 1. A mapping such as `{"layers.0": 0.1, "layers.1.bias": 2.0}` gives scales by the beginnings of
      names, and leaves others at their default. A function `params -> log-density` takes the place of all that.
    - `extra`: start of parameters that the function `likelihood` then takes as a third argument, a dict.
    - `trainable`: filter as for `eqx.partition`. What it leaves out stays as it is.
    - `forward`: `(module, x) -> outputs` for one example, where that is not `module(x)`.
    """
    module = eqx.nn.inference_mode(module)
    if forward is None:
        _check_callable(module)
    chosen, rest = eqx.partition(module, trainable)
    names = tuple(name for name, _ in tree.named_leaves(chosen))
    leaves, structure = jax.tree.flatten(chosen)
    parts = _Equinox(rest, names, structure, call if forward is None else forward)
    params = {name: jnp.asarray(leaf) for name, leaf in zip(names, leaves, strict=True)}
    return network(parts, params, _fans(module, params), likelihood, prior=prior, scale=scale, extra=extra)


class _Equinox(Parts):
    rest: PyTree
    names: tuple[str, ...] = eqx.field(static=True)
    structure: Any = eqx.field(static=True)
    forward: Callable[[Any, PyTree], Array]

    def module(self, params: Params) -> Any:
        leaves = [jnp.asarray(params[name]) for name in self.names]
        return eqx.combine(jax.tree.unflatten(self.structure, leaves), self.rest)

    def outputs(self, params: Params, x: PyTree) -> Array:
        module = self.module(params)
        return jax.vmap(lambda one: self.forward(module, one))(x)


def _check_callable(module: PyTree) -> None:
    """Refuse what cannot be called with one example alone."""
    if not callable(module):
        raise must("module", "callable where `forward` is not given", type(module).__name__, error=TypeError)
    is_state = lambda x: isinstance(x, eqx.nn.StateIndex)
    if any(is_state(x) for x in jax.tree.leaves(module, is_leaf=is_state)):
        raise must(
            "module",
            "without state where `forward` is not given",
            type(module).__name__,
            "With running statistics that stay: `forward=lambda module, x: module(x, state)[0]`.",
        )


def _fans(module: PyTree, params: Params) -> dict[str, int | None]:
    """Weights are (outputs, inputs, ...); of an embedding one row is taken and nothing is summed."""
    is_embedding = lambda x: isinstance(x, eqx.nn.Embedding)
    rows = {
        f"{name}.weight" if name else "weight"
        for name, x in tree.named_leaves(module, is_leaf=is_embedding)
        if is_embedding(x)
    }
    return {
        name: None if name in rows else fan_in(name, x.shape[1:], axes=x.ndim) for name, x in params.items()
    }
