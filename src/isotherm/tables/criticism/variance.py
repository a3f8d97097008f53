"""R^2: the share of the variance of the target that a regression explains, at every draw."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

from isotherm.draws import Draws
from isotherm.errors import must
from isotherm.printed import Printed
from isotherm.tables.families.normal import StudentT
from isotherm.tables.families.quantile import Quantile
from isotherm.tables.fitted import Fitted, fitted
from isotherm.tables.marginal.along import check_asked
from isotherm.tables.marginal.contrasts import Estimate, estimate
from isotherm.tables.marginal.given import Source, encoded, some_rows
from isotherm.tables.marginal.means import some_draws
from isotherm.tables.replicated import Block, blocks_of, replicated

_ROWS = 20_000
Numbers = dict[str, np.ndarray]
Variance = Callable[[np.ndarray, Numbers, Numbers], np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class RSquared(Printed):
    """The share of variance that is explained: posterior mean, interval, and its value at each draw."""

    mean: float
    low: float
    high: float
    samples: Float[np.ndarray, " draw"]
    interval: float
    num_rows: int

    def _parts(self) -> Iterator[Any]:
        mean, between = Estimate(self.mean, self.low, self.high).cells()
        yield f"R^2 {mean} ({100 * self.interval:g} %: {between}), {self.num_rows:,} rows"


def r_squared(
    draws: Draws, table: Source, *, interval: float = 0.9, rows: int | None = _ROWS, seed: int = 0
) -> RSquared:
    """Return the Bayesian R^2 of Gelman, Goodrich, Gabry and Vehtari (2019).

    At each draw it is V / (V + E), where V is the variance over rows of the expected response, effects of groups
    included, and E the mean over rows of the variance of a new observation under the model. The target of the rows is
    not used. `rows` is how many rows are drawn at random; `None` takes all.
    """
    model = fitted(draws)
    check_asked(interval, seed)
    if model.family.has_probabilities:
        raise must("draws", "of a regression of numbers, counts or two classes", model.family.name)
    given, params = some_rows(model, table, rows, seed), some_draws(draws)
    rng, parts, within = np.random.default_rng(seed), [], []
    for block in blocks_of(model, params, encoded(model, given.columns)):
        parts.append(block.response)
        within.append(residual_variance(model, block, rng))
    response = np.concatenate(parts, axis=1).astype(np.float64)
    explained, rest = response.var(axis=1), np.concatenate(within, axis=1).mean(axis=1)
    samples = explained / (explained + rest)
    found = estimate(samples, interval)
    return RSquared(found.mean, found.low, found.high, samples, interval, len(given))


def residual_variance(model: Fitted, block: Block, rng: np.random.Generator) -> Float[np.ndarray, "draw row"]:
    """Return the variance of a new observation in each row: of a family that is not known here, by one of them."""
    mean = np.asarray(block.response, np.float64)
    aux = {name: np.asarray(x, np.float64) for name, x in block.aux.items()}
    aux = {name: x[:, None] if x.ndim == 1 else x for name, x in aux.items()}
    further = {name: np.asarray(x, np.float64)[None] for name, x in block.further.items()}
    family = model.family
    if isinstance(family, StudentT):
        k = family.degrees_of_freedom
        if k <= 2:
            raise must("degrees_of_freedom", "above 2, where a Student t has a variance", k)
        return np.broadcast_to(aux["sigma"] ** 2 * k / (k - 2), mean.shape)
    if isinstance(family, Quantile):
        q = family.quantile
        of_one = (1 - 2 * q + 2 * q**2) / (q * (1 - q)) ** 2
        return np.broadcast_to(of_one * aux["sigma"] ** 2, mean.shape)
    if family.name in _VARIANCES:
        return np.broadcast_to(_VARIANCES[family.name](mean, aux, further), mean.shape)
    return (replicated(model, block, rng).astype(np.float64) - mean) ** 2


def _of_shares(mean: np.ndarray, aux: Numbers, rows: Numbers) -> np.ndarray:
    del aux, rows
    return mean * (1 - mean)


def _of_zeros(mean: np.ndarray, aux: Numbers, rows: Numbers) -> np.ndarray:
    """Return the variance of counts of which a share is zero: that of the others has `dispersion`, or none."""
    del rows
    share = aux["zero_inflation"]
    return mean + mean**2 * (aux.get("dispersion", 0.0) + share) / (1 - share)


_VARIANCES: dict[str, Variance] = {
    "linear": lambda mean, aux, rows: aux["sigma"] ** 2,
    "logistic": _of_shares,
    "probit": _of_shares,
    "binomial": lambda mean, aux, rows: mean * (1 - mean / rows["trials"]),
    "poisson": lambda mean, aux, rows: mean,
    "negative-binomial": lambda mean, aux, rows: mean + aux["dispersion"] * mean**2,
    "zero-inflated-poisson": _of_zeros,
    "zero-inflated-negative-binomial": _of_zeros,
    "gamma": lambda mean, aux, rows: mean**2 / aux["shape"],
    "beta": lambda mean, aux, rows: mean * (1 - mean) / (1 + aux["precision"]),
    "exponential": lambda mean, aux, rows: mean**2,
    "weibull": lambda mean, aux, rows: (
        mean**2 * np.expm1(gammaln(1 + 2 / aux["shape"]) - 2 * gammaln(1 + 1 / aux["shape"]))
    ),
}
