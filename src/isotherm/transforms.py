"""Constrained parameters: bijections from R^n, in which chains move, to the support of a parameter.

A transform is anything with NumPyro's methods: `transform(x)`, `transform._inverse(y)` or `transform.inv(y)`, and
`transform.log_abs_det_jacobian(x, y)`. The four in this module need no other library.
"""

import math
from typing import Any, Protocol, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfc, ndtri
from jaxtyping import Array, Bool, Float, PyTree

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.errors import is_traced, must
from isotherm.numeric import real_scalar
from isotherm.readable import Readable


class Transform(Protocol):
    """The type of a leaf of `Posterior(transforms=...)`."""

    def __call__(self, x: Array) -> Array:
        """The parameter at x."""

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """log |det dy/dx|, for each element or for each vector."""


class Positive(Readable, eqx.Module):
    """y = exp(x) > 0, elementwise."""

    positive = True

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """The parameter at x."""
        return jnp.exp(x)

    def inv(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """The x of a parameter y."""
        return jnp.log(y)

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """log |dy/dx| = x, for each element."""
        del y
        return x


def _as_end(value: Any) -> Any:
    """An end of an interval as a number of Python, if it is a number and known."""
    number = None if isinstance(value, jax.Array) else real_scalar(value)
    return value if number is None else float(number)


class Scale(Readable, eqx.Module):
    """y = -c log(1 - Phi(x)) > 0, elementwise, with Phi the normal distribution: for scales that may be zero.

    If y is exponential with mean c, then x is standard normal. With `Positive` the density of x would fall off slowly
    where y goes to zero, and chains would take long to come back from there.

    **Arguments:**

    - `typical`: c, about the scale of the prior.
    """

    positive = True

    typical: float = eqx.field(default=1.0, converter=_as_end)

    def __check_init__(self) -> None:
        if is_traced(self.typical):
            return
        number = real_scalar(self.typical)
        if number is None or not 0 < float(number) < np.inf:
            raise must("typical` of `Scale", "a positive number", self.typical)

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """The parameter at x."""
        return -self.typical * _log_upper(x)

    def inv(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """The x of a parameter y."""
        return _where_log_upper_is(jnp.asarray(y) / self.typical)

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """log |dy/dx|, for each element."""
        del y
        return jnp.log(self.typical) + _log_hazard(x)


# Compiled functions within compiled functions are traced once; and each would be dozens of programs by itself.
@jax.custom_jvp
@jax.jit
def _log_upper(x: Array) -> Array:
    """Return log(1 - Phi(x)), without cancellation where it is close to zero."""
    half = 0.5 * erfc(jnp.abs(x) * math.sqrt(0.5))
    # Where erfc would underflow, the first terms of its asymptotic series.
    far, square = 12.0 if jnp.finfo(x.dtype).bits <= 32 else 30.0, jnp.square(x)
    z = 1 / jnp.maximum(square, far**2)
    series = jnp.log1p(-z * (1 - 3 * z * (1 - 5 * z * (1 - 7 * z * (1 - 9 * z)))))
    beyond = -0.5 * square + 0.5 * jnp.log(z / (2 * math.pi)) + series
    near = jnp.log(jnp.maximum(half, jnp.finfo(x.dtype).tiny))
    return jnp.where(x < 0, jnp.log1p(-half), jnp.where(x < far, near, beyond))


@cast(Any, _log_upper).defjvp
def _slope_of_log_upper(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (dx,) = primals, tangents
    return _log_upper(x), -jnp.exp(_log_hazard(x)) * dx


def _log_hazard(x: Array) -> Array:
    """Return the log of minus the derivative of `_log_upper`."""
    return -0.5 * x**2 - 0.5 * math.log(2 * math.pi) - _log_upper(x)


@jax.jit
def _where_log_upper_is(y: Array) -> Array:
    """Return the x at which `_log_upper` is -y."""
    # Each form where it does not cancel; the smallest number whose logarithm is finite bounds the second.
    small = ndtri(-jnp.expm1(-jnp.minimum(y, 1.0)))
    tail = jnp.maximum(jnp.exp(-jnp.maximum(y, 1.0)), jnp.finfo(y.dtype).tiny)
    return jnp.where(y < 1, small, -ndtri(tail))


class Bounded(Readable, eqx.Module):
    """low < y < high, elementwise: y = low + (high - low) sigmoid(x)."""

    low: float = eqx.field(converter=_as_end)
    high: float = eqx.field(converter=_as_end)

    def __check_init__(self) -> None:
        if is_traced(self.low) or is_traced(self.high):
            return
        for name, value in (("low", self.low), ("high", self.high)):
            number = real_scalar(value)
            if number is None or not np.isfinite(np.asarray(number)):
                raise must(
                    f"{name}` of `Bounded", "a finite number", value, "Use `iso.Positive()` for (0, inf)."
                )
        if not self.low < self.high:
            raise must("high", f"above low = {self.low}", self.high)

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """The parameter at x."""
        return self.low + (self.high - self.low) * jax.nn.sigmoid(x)

    def inv(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """The x of a parameter y."""
        return jnp.log(y - self.low) - jnp.log(self.high - y)

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """log |dy/dx|, for each element."""
        del y
        return jnp.log(self.high - self.low) - jax.nn.softplus(x) - jax.nn.softplus(-x)


class Ordered(Readable, eqx.Module):
    """y_1 < y_2 < ... along the last axis: y_1 = x_1, and each difference is exp(x_i)."""

    def __call__(self, x: Float[Array, "... n"]) -> Float[Array, "... n"]:
        """The parameter at x."""
        return jnp.cumsum(jnp.concatenate([x[..., :1], jnp.exp(x[..., 1:])], axis=-1), axis=-1)

    def inv(self, y: Float[Array, "... n"]) -> Float[Array, "... n"]:
        """The x of a parameter y."""
        return jnp.concatenate([y[..., :1], jnp.log(jnp.diff(y, axis=-1))], axis=-1)

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """log |det dy/dx|, for each vector."""
        del y
        return jnp.sum(x[..., 1:], axis=-1)


class Simplex(Readable, eqx.Module):
    """y_i > 0 with sum 1 along the last axis, by stick-breaking: x has one element fewer than y."""

    def __call__(self, x: Float[Array, "... n"]) -> Float[Array, "... m"]:
        """The parameter at x."""
        share = jax.nn.sigmoid(x - _even(x))
        rest = jnp.cumprod(jax.nn.sigmoid(_even(x) - x), axis=-1)
        one = jnp.ones_like(x[..., :1])
        return jnp.concatenate([share, one], axis=-1) * jnp.concatenate([one, rest], axis=-1)

    def inv(self, y: Float[Array, "... m"]) -> Float[Array, "... n"]:
        """The x of a parameter y."""
        rest = jnp.flip(jnp.cumsum(jnp.flip(y, axis=-1), axis=-1), axis=-1)[..., 1:]
        x = jnp.log(y[..., :-1]) - jnp.log(rest)
        return x + _even(x)

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """log |det dy/dx|, for each vector: for each break, its share times the stick left before it."""
        shifted = x - _even(x)
        inner = -jax.nn.softplus(shifted) - jax.nn.softplus(-shifted)
        left = jnp.cumsum(-jax.nn.softplus(shifted), axis=-1)
        before = jnp.concatenate([jnp.zeros_like(left[..., :1]), left[..., :-1]], axis=-1)
        del y
        return jnp.sum(inner + before, axis=-1)


class Correlations(Readable, eqx.Module):
    """The correlations of n variables below the diagonal, row by row: r_21, r_31, r_32, ..., as one vector.

    The n (n - 1) / 2 free numbers are the inverse hyperbolic tangents of partial correlations.
    """

    def __call__(self, x: Float[Array, " k"]) -> Float[Array, " k"]:
        """The parameter at x."""
        size, partial = _order(x), jnp.tanh(x)
        factor = _factor_of_partial(partial, size)
        return (factor @ factor.T)[jnp.tril_indices(size, -1)]

    def inv(self, y: Float[Array, " k"]) -> Float[Array, " k"]:
        """The x of a parameter y."""
        size = _order(y)
        factor = correlation_factor(y, size)
        left = jnp.cumsum(factor**2, axis=1) - factor**2  # of a unit row, what earlier columns have taken
        rows, columns = jnp.tril_indices(size, -1)
        return jnp.arctanh(factor[rows, columns] / jnp.sqrt(1 - left[rows, columns]))

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """log |det dy/dx|, for the vector."""
        del y
        size = _order(x)
        columns = np.tril_indices(size, -1)[1]
        # log(1 - tanh^2 x), without cancellation.
        rest = 2 * (math.log(2.0) - x - jax.nn.softplus(-2 * x))
        return jnp.sum(rest * jnp.asarray((size - columns) / 2, x.dtype))


def correlation_factor(correlations: Float[Array, " k"], size: int) -> Float[Array, "n n"]:
    """Return the Cholesky factor of the matrix of these correlations."""
    matrix = jnp.eye(size, dtype=correlations.dtype)
    below = jnp.zeros_like(matrix).at[jnp.tril_indices(size, -1)].set(correlations)
    return jnp.linalg.cholesky(matrix + below + below.T)


def _order(x: Array) -> int:
    return round((1 + math.sqrt(1 + 8 * x.shape[-1])) / 2)


def _factor_of_partial(partial: Float[Array, " k"], size: int) -> Float[Array, "n n"]:
    below = jnp.zeros((size, size), partial.dtype).at[jnp.tril_indices(size, -1)].set(partial)
    left = jnp.concatenate(
        [jnp.ones_like(below[:, :1]), jnp.sqrt(jnp.cumprod(1 - below**2, axis=1))[:, :-1]], axis=1
    )
    return jnp.tril(below * left, -1) + jnp.diag(jnp.diagonal(left))


def _even(x: Array) -> Array:
    """The shift that puts x = 0 at the centre of the simplex."""
    return jnp.log(jnp.arange(x.shape[-1], 0, -1, dtype=x.dtype)).reshape((1,) * (x.ndim - 1) + (-1,))


class Constraint(Readable, eqx.Module):
    """A pytree of transforms for a pytree of parameters; `None` leaves a leaf or a whole branch unconstrained."""

    transforms: PyTree

    def constrained(self, free: PyTree) -> PyTree:
        """The parameters from their unconstrained values."""
        return self._map(lambda t, x: t(x), free)

    def free(self, params: PyTree) -> PyTree:
        """The unconstrained values of parameters that are inside their support."""
        return self._map(
            lambda t, y: t.inv(y) if hasattr(t, "inv") and callable(t.inv) else t._inverse(y), params
        )

    def named(self) -> list[tuple[str, Any]]:
        """Transforms with the name of their leaf or branch; `None` if it is unconstrained."""
        leaves = jax.tree_util.tree_leaves_with_path(self.transforms, is_leaf=_is_transform)
        return [(tree.name_of(path), t) for path, t in leaves]

    def log_volume(self, free: PyTree) -> Float[Array, ""]:
        """log |det d params / d free|, summed over all leaves."""
        parts = self._map(lambda t, x: jnp.sum(t.log_abs_det_jacobian(x, t(x))), free, other=jnp.zeros(()))
        return sum(jax.tree.leaves(parts), start=jnp.zeros(()))

    def misfit(self, params: PyTree) -> str:
        """How the keys of two dictionaries differ, in words; empty if they do not, or if there are none."""
        if not (isinstance(self.transforms, dict) and isinstance(params, dict)):
            return ""
        unknown, missing = (
            ", ".join(f"`{key}`" for key in one if key not in other)
            for one, other in ((self.transforms, params), (params, self.transforms))
        )
        parts = [f"there is no parameter {unknown}"] if unknown else []
        parts += (
            [f"{missing} is missing. Write `None` for a parameter without a transform"] if missing else []
        )
        return "; ".join(parts) + "." if parts else ""

    def _map(self, f: Any, params: PyTree, other: Array | None = None) -> PyTree:
        keep = lambda x: x if other is None else other

        def one(t: Any, x: PyTree) -> PyTree:
            return jax.tree.map(keep if t is None else lambda leaf: f(t, leaf), x)

        return jax.tree.map(one, self.transforms, params, is_leaf=_is_transform)


def _is_transform(x: Any) -> bool:
    return x is None or hasattr(x, "log_abs_det_jacobian")


def check_transforms(transforms: PyTree) -> None:
    """Raise unless the leaves of a pytree are transforms or `None`."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(transforms, is_leaf=_is_transform):
        if leaf is not None and (isinstance(leaf, type) or not _is_transform(leaf) or not callable(leaf)):
            name = tree.name_of(path)
            repair = f"Write `{leaf.__name__}()`." if isinstance(leaf, type) else "Such as `iso.Positive()`."
            label = f"transforms.{name}" if name else "transforms"
            raise must(f"{label}` of `Posterior", "a transform or `None`", leaf, repair, error=TypeError)


class OutsideSupportError(ValueError):
    """Parameters outside the support of their transforms."""


@compile_quickly
def _free(constraint: Any, params: PyTree) -> tuple[PyTree, list[Bool[Array, ""]]]:
    """Return the free values and, by leaf, whether they are finite and give about the same parameters again."""
    free = constraint.free(params)

    def one(x: Array, f: Array, again: Array) -> Array:
        near = jnp.abs(x - again) <= 1e-2 * jnp.max(jnp.abs(x), initial=0.0)
        return jnp.all(jnp.isfinite(f)) & jnp.all(near)

    leaves = zip(*map(jax.tree.leaves, (params, free, constraint.constrained(free))), strict=True)
    return free, [one(*x) for x in leaves]


def checked_free(constraint: Any, params: PyTree, argument: str = "init") -> PyTree[Array]:
    """Return the free values of initial parameters.

    Raises if they are outside their support. The message names the leaf.
    """
    free, inside = _free(constraint, params)
    for (name, x), ok in zip(tree.named_leaves(params), inside, strict=True):
        if not bool(ok):
            label = f"{argument}.{name}" if name else argument
            rule, repair = "inside the support of its transform", "Start inside it, not on its boundary."
            raise must(label, rule, x, repair, error=OutsideSupportError)
    return free
