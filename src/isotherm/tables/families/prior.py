"""The scales of the priors of a regression."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from isotherm.errors import must
from isotherm.tables.families.base import Auxiliary, Family, LocationFamily


@dataclasses.dataclass(frozen=True)
class Prior:
    """The scales of the priors, for standardised columns and, if it is continuous, a standardised target.

    - `coefficients`, `intercept`: N(0, scale^2). For counts, the intercept is relative to the log of the mean rate.
    - `sigma`: exponential with this mean (`linear`, `student-t`).
    - `dispersion`: its square root is half-normal with this scale (`negative-binomial`).
    - `degrees_of_freedom`: of `student-t`, fixed.
    - `groups`: the sd of effects of groups is half-normal with this scale, in sd of the target over sd of the column.
    - `smooths`: the sd of a smooth curve around a straight line is half-normal with this scale, in sd of the target.
    - `predictors`: coefficients of parameters that depend on the row, such as sigma, on the scale of their link.
    - `others`: the scales for parameters of other families by name, where they differ from their defaults.
    """

    coefficients: int | float = 2.5
    intercept: int | float = 5.0
    sigma: int | float = 1.0
    dispersion: int | float = 1.0
    degrees_of_freedom: int | float = 4.0
    groups: int | float = 2.5
    smooths: int | float = 2.5
    predictors: int | float = 1.0
    others: Mapping[str, int | float] = dataclasses.field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        named = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        others = named.pop("others")
        for name, value in {**named, **others}.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise must(name, "a positive number", value)

    @staticmethod
    def of(given: Mapping[str, Any]) -> "Prior":
        """Return the prior with these scales, those of other families among them."""
        names = {field.name for field in dataclasses.fields(Prior)} - {"others"}
        others = {name: value for name, value in given.items() if name not in names}
        return Prior(**{name: value for name, value in given.items() if name in names}, others=others)

    def check(self, family: Family) -> None:
        """Raise if a scale is given for a parameter that the family does not have."""
        names = [x.name for x in family.auxiliaries if x.scale is not None]
        for name in self.others:
            if name not in names:
                rule = f"left out for {family.name}"
                raise must(name, rule, self.others[name], f"Its parameters are {', '.join(names) or 'none'}.")

    def scale(self, auxiliary: Auxiliary) -> int | float | None:
        """Return the scale of the prior of a parameter; `None` if that has none."""
        own = {"sigma": self.sigma, "dispersion": self.dispersion}
        return {auxiliary.name: auxiliary.scale, **own, **self.others}[auxiliary.name]

    def describe(self, family: Family, *, standardize: bool, varying: Sequence[str] = ()) -> dict[str, str]:
        """Return the prior of each parameter of a model, in words. Those that are `varying` depend on the row."""
        per, unit = (
            ("sd of the column, or per difference between the values of a binary column", "sd of the target")
            if standardize
            else ("unit of the column", "units")
        )
        origin = "with all columns at their means" if standardize else "with all columns at zero"
        is_standardized = isinstance(family, LocationFamily) and standardize
        around = "around the mean of the target" if is_standardized else family.link.around
        priors = {
            "coefficients": f"normal, sd {self.coefficients:g} per {per}",
            "intercept": f"normal, sd {self.intercept:g}, {around}, {origin}",
        }
        for auxiliary in family.auxiliaries:
            if auxiliary.name in varying:
                words = f"normal, sd {self.predictors:g} per {per}, on the scale of its link"
                priors[f"{auxiliary.name}_coefficients"] = words
                continue
            scale = self.scale(auxiliary)
            number = "" if scale is None else f"{scale:g}"
            words = f"{number} {unit}" if auxiliary.in_target_units else number
            priors[auxiliary.name] = auxiliary.prior.words.format(scale=words)
        return priors
