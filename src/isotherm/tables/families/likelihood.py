"""The likelihoods and priors of the regressions.

Priors are on the coefficients of standardised columns: weak, and independent of the units.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from isotherm.tables.families.base import Family, LocationFamily, Params, Rows
from isotherm.tables.families.prior import Prior
from isotherm.tables.standardized import Standardized
from isotherm.tables.terms import Predictor, Term


class Likelihood(eqx.Module):
    """The log-likelihood log p(y|x) of each row, in the units of the target.

    `terms` are what the linear predictor has beside its columns, and `predictors` the parameters beside it that
    depend on the row.
    """

    standard: Standardized
    family: Family = eqx.field(static=True)
    terms: tuple[Term, ...] = eqx.field(default=(), static=True)
    predictors: tuple[Predictor, ...] = ()

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
        return self.family.response(eta, self.auxiliaries(params, rows), rows)

    def log_density(self, eta: Array, y: Array, params: Params, rows: Rows) -> Array:
        """Return log p(y|eta). Arrays of any shape are broadcast: rows by draws, say.

        The target may be standardised: eta and y are then in its unit, and parameters in those of the target.
        """
        aux = self.auxiliaries(params, rows)
        if isinstance(self.family, LocationFamily):
            return self.family.residual_log_density((y - eta) * self.standard.unit, aux, rows)
        return self.family.log_density(eta, y, aux, rows)

    def auxiliaries(self, params: Params, rows: Rows) -> Params:
        """Return the parameters beside the linear predictor. `params` may hold those that depend on the row."""
        own = {x.name: x for x in self.predictors}
        return {
            x.name: params[x.name] if x.name in params else own[x.name].values(params, rows)
            for x in self.family.auxiliaries
        }

    def _predictor(self, params: Params, rows: Rows) -> Float[Array, "n ..."]:
        """Return the linear predictor of each row, (n,), or for a softmax the scores of all classes, (n, C)."""
        b = self.standard.inv(params["coefficients"])
        first = 1 if self.standard.has_intercept else 0
        eta = rows["x"] @ b[..., first:].T if "x" in rows else jnp.zeros(_count(rows), b.dtype)
        if self.family.per_class:
            scores = eta + b[None, :, 0] if first else eta
            return jnp.concatenate([jnp.zeros_like(scores[:, :1]), scores], axis=1)
        eta = eta + b[0] if first else eta
        for term in self.terms:
            eta = eta + term.added(params, rows) / self.standard.unit
        if self.family.link.origin is not None:
            eta = eta + self.standard.origin
        return eta + rows["offset"] if "offset" in rows else eta


def _count(rows: Rows) -> int:
    return next(iter(rows.values())).shape[0]


class LogPrior(eqx.Module):
    """The log-prior log pi(theta), up to a constant."""

    standard: Standardized
    family: Family = eqx.field(static=True)
    prior: Prior = eqx.field(static=True)
    terms: tuple[Term, ...] = eqx.field(default=(), static=True)
    predictors: tuple[Predictor, ...] = ()

    def __call__(self, params: Params) -> Float[Array, ""]:
        """Return the log-prior at one position."""
        b = self.standard.inv(params["coefficients"])
        first = 1 if self.standard.has_intercept else 0
        value = -0.5 * jnp.sum((b[..., first:] / self.prior.coefficients) ** 2)
        value -= 0.5 * jnp.sum((b[..., :first] / self.prior.intercept) ** 2)
        for term in self.terms:
            value += term.log_prior(params)
        for predictor in self.predictors:
            value += predictor.log_prior(params, self.prior.predictors)
        for auxiliary in self.family.auxiliaries:
            scale = self.prior.scale(auxiliary)
            if scale is not None and auxiliary.name in params:
                unit = self.standard.unit * scale if auxiliary.in_target_units else scale
                energy = auxiliary.prior.energy(params[auxiliary.name], unit)
                value -= energy if auxiliary.elements is None else jnp.sum(energy)
        return value
