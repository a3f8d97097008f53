"""The likelihoods and priors of the regressions.

Priors are on the coefficients of standardised columns: weak, and independent of the units.
"""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from isotherm.errors import must
from isotherm.tables.standardized import Standardized

MODELS = ("linear", "student-t", "logistic", "softmax", "poisson", "negative-binomial")
COUNTS, CLASSES = ("poisson", "negative-binomial"), ("logistic", "softmax")
SCALES = {"linear": "sigma", "student-t": "sigma", "negative-binomial": "dispersion"}
_LARGE = 20.0  # 1/dispersion above which Stirling's series is exact in 32 bits

Params = dict[str, Array]
Rows = dict[str, Array]


@dataclasses.dataclass(frozen=True)
class Prior:
    """The scales of the priors, for standardised columns and, if it is continuous, a standardised target.

    - `coefficients`, `intercept`: N(0, scale^2). For counts, the intercept is relative to the log of the mean rate.
    - `sigma`: exponential with this mean (`linear`, `student-t`).
    - `dispersion`: its square root is half-normal with this scale (`negative-binomial`).
    - `degrees_of_freedom`: of `student-t`, fixed.
    """

    coefficients: int | float = 2.5
    intercept: int | float = 5.0
    sigma: int | float = 1.0
    dispersion: int | float = 1.0
    degrees_of_freedom: int | float = 4.0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise must(field.name, "a positive number", value)

    def describe(self, model: str, *, standardize: bool) -> dict[str, str]:
        """Return the prior of each parameter of a model, in words."""
        per, unit = (
            ("sd of the column, or per difference between the values of a binary column", "sd of the target")
            if standardize
            else ("unit of the column", "units")
        )
        origin = "with all columns at their means" if standardize else "with all columns at zero"
        around = "around the log of the mean rate" if model in COUNTS else "around zero"
        if model in SCALES and SCALES[model] == "sigma" and standardize:
            around = "around the mean of the target"
        priors = {
            "coefficients": f"normal, sd {self.coefficients:g} per {per}",
            "intercept": f"normal, sd {self.intercept:g}, {around}, {origin}",
        }
        if SCALES.get(model) == "sigma":
            priors["sigma"] = f"exponential, mean {self.sigma:g} {unit}"
        if SCALES.get(model) == "dispersion":
            priors["dispersion"] = f"its square root is half-normal, sd {self.dispersion:g}"
        return priors


class Likelihood(eqx.Module):
    """The log-likelihood log p(y|x) of each row, in the units of the target."""

    standard: Standardized
    model: str = eqx.field(static=True)
    freedom: int | float = eqx.field(static=True)

    def __call__(self, params: Params, rows: Rows) -> Float[Array, " n"]:
        """Return the log-likelihood of each row of a batch."""
        eta = self._predictor(params, rows)
        if self.model == "softmax":
            value = jnp.take_along_axis(jax.nn.log_softmax(eta), rows["y"][:, None], axis=1)[:, 0]
        else:
            value = self.log_density(eta, rows["y"], params)
        return value * rows["weight"] if "weight" in rows else value

    def expected(self, params: Params, rows: Rows) -> Float[Array, "n ..."]:
        """Return the expected response of each row (for a Student t, its location), or class probabilities.

        With two classes this is the probability of the second, with more it is those of all classes, (n, C).
        The target is not standardised: its unit is 1.
        """
        return self.response(self._predictor(params, rows))

    def response(self, eta: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
        """Return what `expected` does, from the linear predictor; for a softmax, from the scores of all classes."""
        if self.model == "softmax":
            return jax.nn.softmax(eta)
        if self.model == "logistic":
            return jax.nn.sigmoid(eta)
        return jnp.exp(eta) if self.model in COUNTS else eta

    def _predictor(self, params: Params, rows: Rows) -> Float[Array, "n ..."]:
        """Return the linear predictor of each row, (n,), or for a softmax the scores of all classes, (n, C)."""
        b = self.standard.inv(params["coefficients"])
        eta = rows["x"] @ b[..., 1:].T
        if self.model == "softmax":
            scores = eta + b[None, :, 0]
            return jnp.concatenate([jnp.zeros_like(scores[:, :1]), scores], axis=1)
        eta = eta + b[0]
        if self.model in COUNTS:
            eta = eta + self.standard.origin
        return eta + rows["offset"] if "offset" in rows else eta

    def log_density(self, eta: Array, y: Array, params: Params) -> Array:
        """Return log p(y|eta), not for a softmax. Arrays of any shape are broadcast: rows by draws, say."""
        if self.model == "logistic":
            return jax.nn.log_sigmoid((2 * y - 1) * eta)
        if self.model == "poisson":
            return y * eta - jnp.exp(eta) - gammaln(y + 1)
        if self.model == "negative-binomial":
            return _negative_binomial(eta, y, 1 / params["dispersion"])
        z, log_sigma = (y - eta) * self.standard.unit / params["sigma"], jnp.log(params["sigma"])
        if self.model == "linear":
            return -0.5 * z**2 - log_sigma - 0.5 * math.log(2 * math.pi)
        k = self.freedom
        constant = math.lgamma((k + 1) / 2) - math.lgamma(k / 2) - 0.5 * math.log(k * math.pi)
        return constant - log_sigma - (k + 1) / 2 * jnp.log1p(z**2 / k)


class LogPrior(eqx.Module):
    """The log-prior log pi(theta), up to a constant."""

    standard: Standardized
    prior: Prior = eqx.field(static=True)

    def __call__(self, params: Params) -> Float[Array, ""]:
        """Return the log-prior at one position."""
        b = self.standard.inv(params["coefficients"])
        value = -0.5 * jnp.sum((b[..., 1:] / self.prior.coefficients) ** 2)
        value -= 0.5 * jnp.sum((b[..., 0] / self.prior.intercept) ** 2)
        if "sigma" in params:
            value -= params["sigma"] / (self.standard.unit * self.prior.sigma)
        if "dispersion" in params:
            alpha = params["dispersion"]
            value -= 0.5 * alpha / self.prior.dispersion**2 + 0.5 * jnp.log(alpha)
        return value


def _negative_binomial(eta: Array, y: Array, r: Array) -> Array:
    """Return the log-density with mean exp(eta) and variance mean + mean^2 / r.

    It avoids the cancellation of log-gammas at large r.
    """
    small, large = jnp.minimum(r, _LARGE), jnp.maximum(r, _LARGE)
    by_gamma = gammaln(y + small) - gammaln(small) - y * jnp.log(small)
    series = lambda z: 1 / (12 * z) - 1 / (360 * z**3)
    by_series = (y + large - 0.5) * jnp.log1p(y / large) - y + series(y + large) - series(large)
    ratio = jnp.where(r < _LARGE, by_gamma, by_series)  # log Gamma(y + r) / (Gamma(r) r^y)
    return ratio - gammaln(y + 1) + y * eta - (y + r) * jnp.log1p(jnp.exp(eta) / r)
