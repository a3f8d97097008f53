"""From rows and a target to draws: the columns that vary, their names, and a regression on them."""

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import isotherm.sampling.sample as sampling
from isotherm.draws import Draws
from isotherm.draws.record import About
from isotherm.errors import IsothermWarning, must
from isotherm.prediction.blocks import chosen
from isotherm.tables.checks import is_missing
from isotherm.tables.families.base import Family
from isotherm.tables.families.prior import Prior
from isotherm.tables.regressions import regression
from isotherm.text import visible

_SHOWN = 5


@dataclasses.dataclass(frozen=True)
class Settings:
    """What an estimator was given: columns with a role by the name of the role, and the length of the run."""

    family: str | Family
    roles: Mapping[str, str]
    categorical: Sequence[str]
    quantile: float | None
    standardize: bool
    prior: Prior | Mapping[str, Any] | None
    num_draws: int
    num_chains: int
    seed: int
    progress: bool


@dataclasses.dataclass(frozen=True, eq=False)
class Fit:
    """Draws of a regression, and the columns without a coefficient because they do not vary."""

    draws: Draws
    constant: tuple[str, ...]


def fit(
    columns: Mapping[str, np.ndarray], y: np.ndarray, weights: np.ndarray | None, settings: Settings
) -> Fit:
    """Return draws of the regression of `y` on the columns that vary. Rows of weight zero are left out."""
    if weights is not None and not weights.all():
        kept = weights > 0
        columns, y, weights = {name: x[kept] for name, x in columns.items()}, y[kept], weights[kept]
    target = unused("y", columns)
    table, roles = {**columns, target: y}, dict(settings.roles)
    if weights is not None and not (weights == 1).all():
        roles["weights"] = unused("sample_weight", table)
        table[roles["weights"]] = weights
    features = [name for name in columns if name not in roles.values()]
    constant = tuple(name for name in features if is_constant(columns[name]))
    if len(constant) == len(features):
        raise must(
            "X", "a table with a column that varies", f"{len(y)} equal rows of {len(features)} feature(s)"
        )
    if constant:
        _warn_of(constant)
    prior = settings.prior
    made = regression(
        settings.family,
        table,
        target,
        [name for name in features if name not in constant],
        categorical=[name for name in settings.categorical if name not in constant],
        quantile=settings.quantile,
        standardize=settings.standardize,
        prior=prior if prior is None or isinstance(prior, Prior) else Prior.of(prior),
        **roles,  # pyrefly: ignore
    )
    draws = sampling.sample(
        *made,
        num_draws=settings.num_draws,
        num_chains=settings.num_chains,
        seed=settings.seed,
        progress=settings.progress,
    )
    chosen(draws)  # raises if no chain came to its end
    name = made.description["model"]
    source = {"rows": len(y), "columns": len(columns)}
    about = About(f"{name[0].upper()}{name[1:]} regression", made.description, source)
    return Fit(dataclasses.replace(draws, labels=made.labels, about=about), constant)


def is_constant(values: np.ndarray) -> bool:
    """Return whether a column has the same value in all rows. One with missing values is left to the checks."""
    if is_missing(values).any():
        return False
    return bool((values == values[0]).all())


def unused(name: str, taken: Mapping[str, Any]) -> str:
    """Return the name, with as many underscores after it as tell it from those that are taken."""
    while name in taken:
        name += "_"
    return name


def _warn_of(constant: Sequence[str]) -> None:
    shown = ", ".join(f"`{visible(name)}`" for name in constant[:_SHOWN])
    more = f" and {len(constant) - _SHOWN} more" if len(constant) > _SHOWN else ""
    warnings.warn(
        f"these columns of `X` have the same value in all rows, and get the coefficient 0: {shown}{more}.",
        IsothermWarning,
        stacklevel=5,
    )
