"""The regression behind a set of draws."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from isotherm.errors import must
from isotherm.tables.assembled import standard_of, terms_of
from isotherm.tables.csv_file import CsvFormat
from isotherm.tables.families.base import Family
from isotherm.tables.families.prior import Prior
from isotherm.tables.families.registry import family_of
from isotherm.tables.families.roles import ALWAYS, ROLES, WITH_TARGET
from isotherm.tables.formulas.design import FormulaDesign
from isotherm.tables.reading import Reading
from isotherm.tables.terms import Predictor, Term
from isotherm.typed_json import typed

if TYPE_CHECKING:
    from isotherm.draws import Draws


@dataclasses.dataclass(frozen=True)
class Fitted:
    """A regression as `draws.about.model` records it.

    - `names`: the names of the coefficients, without the intercept, and `has_intercept`, whether there is one.
    - `formula`: the formulas of the linear predictor and of parameters that depend on the row; none if the model was
      given by its features. `design` and `predictors` say how these make numbers of columns.
    - `levels`: the levels of each categorical feature, in order; the first is the reference level.
    - `classes`: the classes of the target, in order; with two, the model gives the probability of the second.
    - `class_counts`: the number of rows of each class.
    - `column_sd`: the standard deviations of the columns in `names`.
    - `settings`: the fields of the family.
    - `reading`: how text and dates are read as numbers.
    - `csv`: how CSV files are read.
    """

    model: str
    target: str
    features: tuple[str, ...]
    levels: dict[str, list[str]]
    names: tuple[str, ...]
    classes: tuple[str, ...] = ()
    class_counts: tuple[int, ...] = ()
    column_sd: tuple[float, ...] = ()
    rows_dropped: int = 0
    exposure: str | None = None
    offset: str | None = None
    trials: str | None = None
    censored: str | None = None
    settings: dict[str, float] = dataclasses.field(default_factory=dict)
    has_intercept: bool = True
    formula: tuple[str, ...] = ()
    design: dict[str, Any] = dataclasses.field(default_factory=dict)
    predictors: dict[str, Any] = dataclasses.field(default_factory=dict)
    reading: Reading = dataclasses.field(default_factory=Reading)
    csv: CsvFormat = dataclasses.field(default_factory=CsvFormat)

    @functools.cached_property
    def family(self) -> Family:
        """The family of the model."""
        return family_of(self.model, self.settings)

    @functools.cached_property
    def made_design(self) -> FormulaDesign:
        """The design of a formula."""
        return FormulaDesign.from_record(self.design)

    @functools.cached_property
    def designs(self) -> dict[str, FormulaDesign]:
        """The designs of the parameters that depend on the row."""
        return {name: FormulaDesign.from_record(record) for name, record in self.predictors.items()}

    @functools.cached_property
    def terms(self) -> tuple[Term, ...]:
        """The effects of groups and the smooths. The scales of their priors are not those of the fit."""
        return terms_of(self.made_design, Prior(), standardize=False) if self.formula else ()

    @functools.cached_property
    def made_predictors(self) -> tuple[Predictor, ...]:
        """The parameters that depend on the row."""
        transforms = {x.name: x.transform for x in self.family.auxiliaries}
        return tuple(
            Predictor(name, standard_of(design, 0.0, 1.0), transforms[name])
            for name, design in self.designs.items()
        )

    def special(self, *, with_target: bool) -> dict[str, str]:
        """Return the further columns that new rows need, by role, if they have the target or if they do not."""
        needed = (ALWAYS, WITH_TARGET) if with_target else (ALWAYS,)
        roles = [role for role in ROLES if ROLES[role].needed in needed]
        return {role: name for role in roles if (name := getattr(self, role)) is not None}


def fitted(draws: "Draws") -> Fitted:
    """Return the regression that the draws are from; refuse draws from anything else."""
    record = draws.about.model
    if "model" in record and "levels" not in record:
        rule = "from a run that recorded the levels of its categories"
        raise must("draws", rule, record["model"], "Earlier versions did not record them: sample again.")
    if "model" not in record:
        raise must(
            "draws",
            "from a regression that `isotherm sample` knows by name",
            record.get("function"),
            "For your own model, write what it predicts as a function of parameters and rows, and name it by "
            "`isotherm predict --function`, or call `iso.predict(draws, function, rows)` in Python.",
        )
    return fitted_from(record, draws.labels)


def fitted_from(record: Mapping[str, Any], labels: Mapping[str, list[list[str]]]) -> Fitted:
    """Return the regression with this description and these labels."""
    fields = {name.replace(" ", "_"): value for name, value in record.items()}
    names = labels["coefficients"][-1]
    fields["has_intercept"] = names[:1] == ["intercept"]
    fields["names"] = names[1:] if fields["has_intercept"] else names
    if isinstance(model := fields["model"], str):
        settings = [field.name for field in dataclasses.fields(family_of(model))]
        fields["settings"] = {name: fields[name] for name in settings if name in fields}
    return typed(Fitted, fields, "about.model", skip_unknown=True)
