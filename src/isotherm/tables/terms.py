"""What a linear predictor has beside its columns: effects of groups, and smooth curves."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from isotherm.deviations import prior_factor
from isotherm.groups import Group
from isotherm.readable import Readable
from isotherm.tables.families.base import Params, Rows
from isotherm.tables.standardized import Standardized
from isotherm.transforms import Correlations, Scale

AnyArrays = Mapping[str, Any]  # of JAX or NumPy
_START = 0.2  # of the scale of its prior: where an sd starts


class Scales(Readable, eqx.Module):
    """The transform of the sds of several effects: `iso.Scale` in units of `typical`."""

    typical: tuple[float, ...] = eqx.field(static=True)

    positive = True

    def __call__(self, x: Float[Array, "*rows q"]) -> Float[Array, "*rows q"]:
        """The sds at x."""
        return self._units(x) * Scale()(x)

    def inv(self, y: Float[Array, "*rows q"]) -> Float[Array, "*rows q"]:
        """The x of the sds y."""
        return Scale().inv(y / self._units(y))

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """log |dy/dx|, for each element."""
        units = self._units(x)
        return jnp.log(units) + Scale().log_abs_det_jacobian(x, y / units)

    def _units(self, like: Array) -> Array:
        return jnp.asarray(self.typical, like.dtype).reshape((1,) * (like.ndim - 1) + (-1,))


@dataclasses.dataclass(frozen=True)
class GroupEffects:
    """Effects of the levels of a factor: b ~ N(0, S) for each level, with S from the sds and correlations.

    - `name`: of the factor, and `size`, the number of its levels.
    - `terms`: what varies between levels: "Intercept", or names of columns.
    - `scales`: of the half-normal priors of the sds. Correlations are uniform (LKJ with parameter 1).
    - `correlated`: whether the effects of a level are correlated.
    """

    name: str
    size: int
    terms: tuple[str, ...]
    scales: tuple[float, ...]
    correlated: bool

    @property
    def names(self) -> tuple[str, str, str | None]:
        """The names of the parameters: effects, their sds, and their correlations if there are any."""
        return f"r_{self.name}", f"sd_{self.name}", f"cor_{self.name}" if self._has_correlations else None

    @property
    def _has_correlations(self) -> bool:
        return self.correlated and len(self.terms) > 1

    @property
    def has_columns(self) -> bool:
        """Whether a row has values by which effects are multiplied."""
        return self.terms != ("Intercept",)

    @property
    def group(self) -> tuple[str, Group]:
        """What `iso.Posterior` is told of the effects."""
        effects, sd, correlations = self.names
        return effects, Group(f"level_{self.name}", scale=sd, correlations=correlations)

    def start(self) -> dict[str, Array]:
        """Return parameters to start from."""
        effects, sd, correlations = self.names
        count = len(self.terms)
        found = {effects: jnp.zeros((self.size, count)), sd: _START * jnp.asarray(self.scales)}
        return found if correlations is None else found | {correlations: jnp.zeros(count * (count - 1) // 2)}

    def transforms(self) -> dict[str, Any]:
        """Return the transforms of the parameters."""
        effects, sd, correlations = self.names
        found = {effects: None, sd: Scales(self.scales)}
        return found if correlations is None else found | {correlations: Correlations()}

    def labels(self, levels: list[str]) -> dict[str, list[list[str]]]:
        """Return names for the elements of the parameters."""
        effects, sd, correlations = self.names
        found = {
            effects: [[f"{effects}[{level}]" for level in levels], list(self.terms)],
            sd: [[f"{sd}[{term}]" for term in self.terms]],
        }
        if correlations is None:
            return found
        below = zip(*np.tril_indices(len(self.terms), -1), strict=True)
        pairs = [f"{correlations}[{self.terms[j]}, {self.terms[i]}]" for i, j in below]
        return found | {correlations: [pairs]}

    def added(self, params: Params, rows: Rows) -> Float[Array, " n"]:
        """Return what the effects add to the linear predictor of each row."""
        own = params[self.names[0]][rows[f"level_{self.name}"]]
        return jnp.sum(own * rows[f"terms_{self.name}"], axis=1) if self.has_columns else own[:, 0]

    def at_draws(self, params: AnyArrays, rows: AnyArrays) -> Float[Array, "n draw"]:
        """Return what the effects add in each row at each draw."""
        own = params[self.names[0]][:, rows[f"level_{self.name}"]]
        return (
            jnp.einsum("dnq,nq->nd", own, rows[f"terms_{self.name}"]) if self.has_columns else own[:, :, 0].T
        )

    def log_prior(self, params: Params) -> Float[Array, ""]:
        """Return the log-density of effects, sds and correlations."""
        effects, sd, correlations = self.names
        scales = jnp.asarray(self.scales, params[sd].dtype)
        value = -0.5 * jnp.sum((params[sd] / scales) ** 2) - self.size * jnp.sum(jnp.log(params[sd]))
        z = (params[effects] / params[sd][None]).T
        if correlations is not None:
            factor = prior_factor({"one": jnp.ones(()), **params}, "one", correlations, len(self.terms))
            z = jax.scipy.linalg.solve_triangular(factor, z, lower=True)
            value -= self.size * jnp.sum(jnp.log(jnp.diagonal(factor)))
        return value - 0.5 * jnp.sum(z**2)

    def describe(self, unit: str) -> dict[str, str]:
        """Return the priors in words."""
        effects, sd, correlations = self.names
        scales = ", ".join(f"{scale:.3g}" for scale in self.scales)
        found = {effects: f"normal around zero, with the sds {sd}"}
        found |= {sd: f"half-normal, sd {scales} ({unit}) for {', '.join(self.terms)}"}
        return found if correlations is None else found | {correlations: "uniform (LKJ with parameter 1)"}


@dataclasses.dataclass(frozen=True)
class Smooth:
    """A smooth curve of a column: the coefficients of its basis beyond the straight line are N(0, sd^2)."""

    name: str
    size: int
    scale: float

    @property
    def names(self) -> tuple[str, str]:
        """The names of the parameters: coefficients, and their sd."""
        return f"s_{self.name}", f"sds_{self.name}"

    @property
    def group(self) -> tuple[str, Group]:
        """What `iso.Posterior` is told of the coefficients."""
        coefficients, sd = self.names
        return coefficients, Group(None, scale=sd)

    def start(self) -> dict[str, Array]:
        """Return parameters to start from."""
        coefficients, sd = self.names
        return {coefficients: jnp.zeros(self.size), sd: jnp.asarray(_START * self.scale)}

    def transforms(self) -> dict[str, Any]:
        """Return the transforms of the parameters."""
        coefficients, sd = self.names
        return {coefficients: None, sd: Scale(self.scale)}

    def labels(self) -> dict[str, list[list[str]]]:
        """Return names for the elements of the parameters."""
        coefficients, _ = self.names
        return {coefficients: [[f"{coefficients}[{i + 1}]" for i in range(self.size)]]}

    def added(self, params: Params, rows: Rows) -> Float[Array, " n"]:
        """Return what the curve adds to the linear predictor of each row, beside the straight line."""
        return rows[f"smooth_{self.name}"] @ params[self.names[0]]

    def at_draws(self, params: AnyArrays, rows: AnyArrays) -> Float[Array, "n draw"]:
        """Return what the curve adds in each row at each draw."""
        return rows[f"smooth_{self.name}"] @ params[self.names[0]].T

    def log_prior(self, params: Params) -> Float[Array, ""]:
        """Return the log-density of coefficients and sd."""
        coefficients, sd = (params[name] for name in self.names)
        value = -0.5 * (sd / self.scale) ** 2 - self.size * jnp.log(sd)
        return value - 0.5 * jnp.sum((coefficients / sd) ** 2)

    def describe(self, unit: str) -> dict[str, str]:
        """Return the priors in words."""
        coefficients, sd = self.names
        return {
            coefficients: f"normal around zero, with the sd {sd}",
            sd: f"half-normal, sd {self.scale:.3g} ({unit})",
        }


Term = GroupEffects | Smooth


class Predictor(eqx.Module):
    """A parameter of the distribution that depends on the row: `transform` of a linear predictor of its own."""

    name: str = eqx.field(static=True)
    standard: Standardized
    transform: Any

    @property
    def coefficients(self) -> str:
        """The name of its coefficients."""
        return f"{self.name}_coefficients"

    @property
    def rows(self) -> str:
        """The name of its columns in the rows."""
        return f"x_{self.name}"

    def values(self, params: Params, rows: Rows) -> Float[Array, " n"]:
        """Return the parameter in each row."""
        slopes, intercept = self.standard.linear(params[self.coefficients])
        return self.transform(rows[self.rows] @ slopes + intercept if self.rows in rows else intercept)

    def at_draws(self, params: AnyArrays, rows: AnyArrays) -> Float[Array, "n draw"]:
        """Return the parameter in each row at each draw."""
        slopes, intercept = self.standard.linear(jnp.asarray(params[self.coefficients]))
        return self.transform(rows[self.rows] @ slopes.T + intercept[None])

    def log_prior(self, params: Params, scale: float) -> Float[Array, ""]:
        """Return the log-density of the coefficients, up to a constant: normal, per sd of a column."""
        return -0.5 * jnp.sum((self.standard.inv(params[self.coefficients]) / scale) ** 2)
