"""The likelihoods and priors of the regressions.

Priors are on the coefficients of standardised columns: weak, and independent of the units.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from isotherm.tables.families.base import Family, LocationFamily, Params, Rows
from isotherm.tables.families.prior import Prior
from isotherm.tables.standardized import Standardized


class Likelihood(eqx.Module):
    """The log-likelihood log p(y|x) of each row, in the units of the target."""

    standard: Standardized
    family: Family = eqx.field(static=True)

    def __call__(self, params: Params, rows: dict[str, Array]) -> Float[Array, " n"]:
        """Return the log-likelihood of each row of a batch."""
        value = self.log_density(self._predictor(params, rows), rows["y"], params, rows)
        return value * rows["weight"] if "weight" in rows else value

    def expected(self, params: Params, rows: dict[str, Array]) -> Float[Array, "n ..."]:
        """Return the expected response of each row (for a Student t, its location), or class probabilities.

        With two classes this is the probability of the second, with more it is those of all classes, (n, C).
        The target is not standardised: its unit is 1.
        """
        return self.response(self._predictor(params, rows), params, rows)

    def response(self, eta: Array, params: Params, rows: Rows) -> Array:
        """Return what `expected` does, from the linear predictor; for a softmax, from the scores of all classes."""
        return self.family.response(eta, self._auxiliaries(params), rows)

    def log_density(self, eta: Array, y: Array, params: Params, rows: Rows) -> Array:
        """Return log p(y|eta). Arrays of any shape are broadcast: rows by draws, say.

        The target may be standardised: eta and y are then in its unit, and parameters in those of the target.
        """
        aux = self._auxiliaries(params)
        if isinstance(self.family, LocationFamily):
            return self.family.residual_log_density((y - eta) * self.standard.unit, aux, rows)
        return self.family.log_density(eta, y, aux, rows)

    def _auxiliaries(self, params: Params) -> Params:
        return {x.name: params[x.name] for x in self.family.auxiliaries}

    def _predictor(self, params: Params, rows: Rows) -> Float[Array, "n ..."]:
        """Return the linear predictor of each row, (n,), or for a softmax the scores of all classes, (n, C)."""
        b = self.standard.inv(params["coefficients"])
        eta = rows["x"] @ b[..., 1:].T
        if self.family.per_class:
            scores = eta + b[None, :, 0]
            return jnp.concatenate([jnp.zeros_like(scores[:, :1]), scores], axis=1)
        eta = eta + b[0]
        if self.family.link.origin is not None:
            eta = eta + self.standard.origin
        return eta + rows["offset"] if "offset" in rows else eta


class LogPrior(eqx.Module):
    """The log-prior log pi(theta), up to a constant."""

    standard: Standardized
    family: Family = eqx.field(static=True)
    prior: Prior = eqx.field(static=True)

    def __call__(self, params: Params) -> Float[Array, ""]:
        """Return the log-prior at one position."""
        b = self.standard.inv(params["coefficients"])
        value = -0.5 * jnp.sum((b[..., 1:] / self.prior.coefficients) ** 2)
        value -= 0.5 * jnp.sum((b[..., 0] / self.prior.intercept) ** 2)
        for auxiliary in self.family.auxiliaries:
            scale = self.prior.scale(auxiliary)
            if scale is not None:
                unit = self.standard.unit * scale if auxiliary.in_target_units else scale
                energy = auxiliary.prior.energy(params[auxiliary.name], unit)
                value -= energy if auxiliary.elements is None else jnp.sum(energy)
        return value
