"""Effects of groups as deviations from their prior mean, whatever the model calls them.

Chains move b_g, which has the prior N(0, S). A leaf of the parameters may be m + b_g, with the prior N(m, S): the
centred form. Or it is K^-1 b_g with S = K K', which is standard normal: the non-centred form. The model's parameters
are what draws hold.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from isotherm import tree
from isotherm.groups import Group, Groups
from isotherm.readable import Readable
from isotherm.transforms import Constraint, correlation_factor


def prior_factor(
    params: dict[str, Array], scale: str, correlations: str | None, size: int
) -> Float[Array, "q q"]:
    """Return the Cholesky factor of the prior covariance of the effects of a level."""
    sd = jnp.broadcast_to(jnp.ravel(params[scale]), (size,))
    if correlations is None:
        return jnp.diag(sd)
    given = params[correlations]
    return sd[:, None] * (given if given.ndim == 2 else correlation_factor(given, size))


class Deviations(Readable, eqx.Module):
    """A constraint under which chains move the deviations of effects; used in place of a `Constraint`."""

    constraint: Constraint
    groups: Groups = eqx.field(static=True)

    def constrained(self, free: PyTree) -> PyTree:
        """The parameters from the coordinates of the chains."""
        params = self.constraint.constrained(free)
        return self._changed(params, _parameter)

    def free(self, params: PyTree) -> PyTree:
        """The coordinates of the chains from parameters that are inside their support."""
        return self.constraint.free(self._changed(params, _deviation))

    def named(self) -> list[tuple[str, Any]]:
        """Transforms with the name of their leaf or branch; `None` if it is unconstrained."""
        return self.constraint.named()

    def log_volume(self, free: PyTree) -> Float[Array, ""]:
        """log |det d params / d free|."""
        named = dict(tree.named_leaves(self.constraint.constrained(free)))
        volume = self.constraint.log_volume(free)
        for name, group in self.groups:
            if group.standardized:
                x = named[name]
                diagonal = jnp.diagonal(_factor(named, group, _width(x)))
                volume = volume - len(x) * jnp.sum(jnp.log(jnp.abs(diagonal)))
        return volume

    def misfit(self, params: PyTree) -> str:
        """How the keys of two dictionaries differ, in words; empty if they do not, or if there are none."""
        return self.constraint.misfit(params)

    def _changed(self, params: PyTree, change: Any) -> PyTree:
        named = dict(tree.named_leaves(params))
        for name, group in self.groups:
            if not {name, *group.parameters.values()} <= set(named):
                continue  # the warm-up says which name is wrong
            x = named[name]
            named[name] = change(named, group, x.reshape(x.shape[0], -1)).reshape(x.shape)
        return jax.tree.unflatten(jax.tree.structure(params), list(named.values()))


def deviations(constraint: Constraint | None, groups: Groups) -> Constraint | Deviations | None:
    """Return the constraint, with effects as deviations from their prior mean if some leaves are not that already."""
    moved = tuple((name, group) for name, group in groups if group.moved)
    return Deviations(constraint or Constraint(None), moved) if moved else constraint


def _width(x: Array) -> int:
    return int(np.prod(x.shape[1:], dtype=int))


def _factor(named: dict[str, Array], group: Group, width: int) -> Float[Array, "q q"]:
    assert group.scale is not None
    return prior_factor(named, group.scale, group.correlations, width)


def _location(named: dict[str, Array], group: Group) -> Array | float:
    return jnp.ravel(named[group.location])[None] if isinstance(group.location, str) else group.location


def _parameter(named: dict[str, Array], group: Group, b: Float[Array, "G q"]) -> Float[Array, "G q"]:
    """Return what the model calls the effects."""
    if not group.standardized:
        return _location(named, group) + b
    K = _factor(named, group, b.shape[1])
    return b / jnp.diagonal(K) if group.correlations is None else jnp.linalg.solve(K, b.T).T


def _deviation(named: dict[str, Array], group: Group, x: Float[Array, "G q"]) -> Float[Array, "G q"]:
    """Return the deviations."""
    if not group.standardized:
        return x - _location(named, group)
    K = _factor(named, group, x.shape[1])
    return x * jnp.diagonal(K) if group.correlations is None else x @ K.T
