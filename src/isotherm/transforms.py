"""Constrained parameters: bijections from all of R^n, in which chains move, to where a parameter lives.

A transform is anything with NumPyro's methods: `transform(x)`, `transform._inverse(y)` or `transform.inv(y)`, and
`transform.log_abs_det_jacobian(x, y)`. The four here need no other library.
"""

from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from isotherm import tree
from isotherm.errors import must


class Transform(Protocol):
    """What `Posterior(transforms=...)` takes for a leaf."""

    def __call__(self, x: Array) -> Array:
        """The parameter at x."""

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """log |dy/dx|, for each element or for each vector."""


class Positive(eqx.Module):
    """y = exp(x) > 0, each element."""

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """The parameter at x."""
        return jnp.exp(x)

    def inv(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """x."""
        return jnp.log(y)

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """x itself."""
        del y
        return x


class Bounded(eqx.Module):
    """low < y < high, each element: y = low + (high - low) sigmoid(x)."""

    low: float
    high: float

    def __check_init__(self) -> None:
        if not self.low < self.high:
            raise must("high", f"above low = {self.low}", self.high)

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """The parameter at x."""
        return self.low + (self.high - self.low) * jax.nn.sigmoid(x)

    def inv(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """x."""
        return jnp.log(y - self.low) - jnp.log(self.high - y)

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """Each element."""
        del y
        return jnp.log(self.high - self.low) - jax.nn.softplus(x) - jax.nn.softplus(-x)


class Ordered(eqx.Module):
    """y_1 < y_2 < ... along the last axis: the first is free, each difference is exp(x_i)."""

    def __call__(self, x: Float[Array, "... n"]) -> Float[Array, "... n"]:
        """The parameter at x."""
        return jnp.cumsum(jnp.concatenate([x[..., :1], jnp.exp(x[..., 1:])], axis=-1), axis=-1)

    def inv(self, y: Float[Array, "... n"]) -> Float[Array, "... n"]:
        """x."""
        return jnp.concatenate([y[..., :1], jnp.log(jnp.diff(y, axis=-1))], axis=-1)

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """Each vector."""
        del y
        return jnp.sum(x[..., 1:], axis=-1)


class Simplex(eqx.Module):
    """y_i > 0 with sum 1 along the last axis, from one number fewer, by breaking a stick."""

    def __call__(self, x: Float[Array, "... n"]) -> Float[Array, "... m"]:
        """The parameter at x."""
        share = jax.nn.sigmoid(x - _even(x))
        rest = jnp.cumprod(jax.nn.sigmoid(_even(x) - x), axis=-1)
        one = jnp.ones_like(x[..., :1])
        return jnp.concatenate([share, one], axis=-1) * jnp.concatenate([one, rest], axis=-1)

    def inv(self, y: Float[Array, "... m"]) -> Float[Array, "... n"]:
        """x."""
        rest = jnp.flip(jnp.cumsum(jnp.flip(y, axis=-1), axis=-1), axis=-1)[..., 1:]
        x = jnp.log(y[..., :-1]) - jnp.log(rest)
        return x + _even(x)

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """Each vector: the share of a break times what was left before it."""
        shifted = x - _even(x)
        inner = -jax.nn.softplus(shifted) - jax.nn.softplus(-shifted)
        left = jnp.cumsum(-jax.nn.softplus(shifted), axis=-1)
        before = jnp.concatenate([jnp.zeros_like(left[..., :1]), left[..., :-1]], axis=-1)
        del y
        return jnp.sum(inner + before, axis=-1)


def _even(x: Array) -> Array:
    """So that x = 0 is the middle of the simplex."""
    return jnp.log(jnp.arange(x.shape[-1], 0, -1, dtype=x.dtype)).reshape((1,) * (x.ndim - 1) + (-1,))


class Constraint(eqx.Module):
    """A pytree of transforms, `None` where a leaf or a whole branch is free, over one of parameters."""

    transforms: PyTree

    def constrained(self, free: PyTree) -> PyTree:
        """The parameters."""
        return self._map(lambda t, x: t(x), free)

    def free(self, params: PyTree) -> PyTree:
        """What chains move, from parameters inside their support."""
        return self._map(
            lambda t, y: t.inv(y) if hasattr(t, "inv") and callable(t.inv) else t._inverse(y), params
        )

    def named(self) -> list[tuple[str, Any]]:
        """Transforms by the name of their leaf or branch, `None` where it is free."""
        leaves = jax.tree_util.tree_leaves_with_path(self.transforms, is_leaf=_is_transform)
        return [(tree.name_of(path), t) for path, t in leaves]

    def log_volume(self, free: PyTree) -> Float[Array, ""]:
        """log |d params / d free|, summed over all leaves."""
        parts = self._map(lambda t, x: jnp.sum(t.log_abs_det_jacobian(x, t(x))), free, other=jnp.zeros(()))
        return sum(jax.tree.leaves(parts), start=jnp.zeros(()))

    def _map(self, f: Any, params: PyTree, other: Array | None = None) -> PyTree:
        keep = lambda x: x if other is None else other

        def one(t: Any, x: PyTree) -> PyTree:
            return jax.tree.map(keep if t is None else lambda leaf: f(t, leaf), x)

        return jax.tree.map(one, self.transforms, params, is_leaf=_is_transform)


def _is_transform(x: Any) -> bool:
    return x is None or hasattr(x, "log_abs_det_jacobian")


class OutsideSupportError(ValueError):
    """Parameters outside the support of their transforms."""


def check_support(constraint: Constraint, params: PyTree) -> None:
    """Refuse a start outside the support, by the name of its leaf."""
    free = constraint.free(params)
    leaves = (jax.tree.leaves(x) for x in (free, constraint.constrained(free)))
    for (name, x), f, again in zip(tree.named_leaves(params), *leaves, strict=True):
        near = jnp.abs(x - again) <= 1e-2 * jnp.max(jnp.abs(x), initial=0.0)
        if not bool(jnp.all(jnp.isfinite(f)) & jnp.all(near)):
            label = f"init.{name}" if name else "init"
            rule, repair = "inside the support of its transform", "Start inside it, not on its boundary."
            raise must(label, rule, x, repair, error=OutsideSupportError)
