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
    """The posterior over the trainable parameters of a module that takes one example, as Equinox's modules do.

    The module is put in inference mode, because a likelihood must be a function of the parameters and one row.
    Dropout would make it random, and batch statistics would make it depend on the other rows.

    **Arguments:**

    - `likelihood`: of y given the outputs. `"gaussian"`: the scale is unknown unless `scale` is given;
      `"categorical"`: outputs are logits and y is the index of the class, from 0; `"bernoulli"`: the output is a
      logit and y is 0 or 1; `"poisson"`: the output is the log of the rate; or a function `(outputs, y) -> one value
      per row` of a batch.
    - `prior`: independent normals. A number multiplies the default scale of weights, 1/sqrt(fan-in); all other
      parameters have scale 1. A mapping such as `{"layers.0": 0.1, "layers.1.bias": 2.0}` gives scales by prefix of
      the name; other parameters keep their default. A function `params -> log-density` replaces these normals.
    - `extra`: initial values of additional parameters, a dict, which the function `likelihood` takes as a third
      argument.
    - `trainable`: filter as for `eqx.partition`. What it leaves out stays fixed.
    - `forward`: `(module, x) -> outputs` for one example. The default is `module(x)`.
    """
    module = eqx.nn.inference_mode(module)
    if forward is None:
        _check_callable(module)
    trained, rest = eqx.partition(module, trainable)
    names = tuple(name for name, _ in tree.named_leaves(trained))
    leaves, structure = jax.tree.flatten(trained)
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
    """Raise if the module cannot be called with an example as its only argument."""
    if not callable(module):
        raise must("module", "callable if `forward` is not given", type(module).__name__, error=TypeError)
    is_state = lambda x: isinstance(x, eqx.nn.StateIndex)
    if any(is_state(x) for x in jax.tree.leaves(module, is_leaf=is_state)):
        raise must(
            "module",
            "without state if `forward` is not given",
            type(module).__name__,
            "To keep running statistics fixed: `forward=lambda module, x: module(x, state)[0]`.",
        )


def _fans(module: PyTree, params: Params) -> dict[str, int | None]:
    """The fan-in of each weight, of shape (outputs, inputs, ...); `None` for embeddings, which sum over nothing."""
    is_embedding = lambda x: isinstance(x, eqx.nn.Embedding)
    rows = {
        f"{name}.weight" if name else "weight"
        for name, x in tree.named_leaves(module, is_leaf=is_embedding)
        if is_embedding(x)
    }
    return {
        name: None if name in rows else fan_in(name, x.shape[1:], axes=x.ndim) for name, x in params.items()
    }
