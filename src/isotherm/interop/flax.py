"""Flax NNX modules as posteriors."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from isotherm import tree
from isotherm.errors import missing_extra, must
from isotherm.interop.networks import Network, Params, Parts, call, fan_in, network
from isotherm.interop.priors import Prior

try:
    from flax import nnx
except ImportError as error:
    raise missing_extra("iso.interop.flax", "flax") from error


def posterior(
    module: Any,
    likelihood: str | Callable[..., Array],
    *,
    prior: Prior = 1.0,
    scale: float | int | None = None,
    extra: Mapping[str, Any] | None = None,
    trainable: Any = nnx.Param,
    forward: Callable[[Any, PyTree], Array] | None = None,
) -> Network:
    """The posterior over the trainable parameters of a module that takes a batch, as NNX's modules do.

    A copy of the module is put in inference mode, because a likelihood must be a function of the parameters and one
    row. Dropout would make it random, and batch statistics would make it depend on the other rows.

    **Arguments:**

    - `likelihood`, `prior`, `scale`, `extra`: as for `iso.interop.equinox.posterior`.
    - `trainable`: filter as for `nnx.split`. What it leaves out stays fixed, and so do arrays that are not floating.
    - `forward`: `(module, x) -> outputs` for a batch. The default is `module(x)`.
    """
    if not isinstance(module, nnx.Module):
        raise must("module", "an `nnx.Module`", type(module).__name__, error=TypeError)
    if forward is None and not callable(module):
        raise must("module", "callable if `forward` is not given", type(module).__name__, error=TypeError)
    module = nnx.clone(module)
    module.eval()
    graph, trained, rest = nnx.split(module, nnx.All(trainable, _is_floating), ...)
    names = tuple(name.removesuffix(".value") for name, _ in tree.named_leaves(trained))
    leaves, structure = jax.tree.flatten(trained)
    parts = _Flax(graph, rest, names, structure, call if forward is None else forward)
    params = {name: jnp.asarray(leaf) for name, leaf in zip(names, leaves, strict=True)}
    return network(parts, params, _fans(module, params), likelihood, prior=prior, scale=scale, extra=extra)


class _Flax(Parts):
    graph: Any = eqx.field(static=True)
    rest: PyTree
    names: tuple[str, ...] = eqx.field(static=True)
    structure: Any = eqx.field(static=True)
    forward: Callable[[Any, PyTree], Array]

    def module(self, params: Params) -> Any:
        leaves = [jnp.asarray(params[name]) for name in self.names]
        return nnx.merge(self.graph, jax.tree.unflatten(self.structure, leaves), self.rest)

    def outputs(self, params: Params, x: PyTree) -> Array:
        return self.forward(self.module(params), x)


def _is_floating(path: Any, value: Any) -> bool:
    del path
    return all(jnp.issubdtype(jnp.result_type(x), jnp.floating) for x in jax.tree.leaves(value))


def _fans(module: nnx.Module, params: Params) -> dict[str, int | None]:
    """The fan-in of each kernel, of shape (..., inputs, outputs). `LinearGeneral` may have several output axes."""
    fans = {name: fan_in(name, x.shape[:-1], axes=x.ndim) for name, x in params.items()}
    for path, part in nnx.iter_modules(module):
        name = ".".join(map(str, path))
        if isinstance(part, nnx.Embed):
            fans[f"{name}.embedding".lstrip(".")] = None
        elif isinstance(part, nnx.LinearGeneral):
            fans[f"{name}.kernel".lstrip(".")] = math.prod(part.in_features)
    return fans
