"""The columns that terms of a formula make of rows, through formulaic, with what its transforms learned frozen."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from isotherm.tables.formulas.evaluate import ELEMENTWISE
from isotherm.tables.formulas.factors import formulaic_terms, terms
from isotherm.tables.formulas.scan import wrong
from isotherm.tables.statistics import level_text

INTERCEPT = "Intercept"


@dataclasses.dataclass(frozen=True)
class Values:
    """Rows in the form that terms take: numbers by column, and codes of the levels of categories by column."""

    numbers: Mapping[str, Float[np.ndarray, " n"]]
    codes: Mapping[str, Int[np.ndarray, " n"]]
    count: int

    def part(self, which: Any) -> "Values":
        """Return some of the rows."""
        return Values(
            {name: x[which] for name, x in self.numbers.items()},
            {name: x[which] for name, x in self.codes.items()},
            len(np.arange(self.count)[which]),
        )


class TermsMatrix:
    """The matrix of some terms of a formula.

    - `names`: of its columns, with `Intercept` first if the terms have one.
    - `levels`: of the categories by column; `as_categories` are the columns that are categories outside of `C()` too.
    - `state`: what transforms such as `poly` learned from the data.
    """

    def __init__(
        self,
        fixed: str,
        formula: str,
        levels: Mapping[str, Sequence[str]],
        as_categories: Sequence[str],
        state: Mapping[str, Any],
    ) -> None:
        self.fixed, self.formula = fixed, formula
        self.levels = {name: list(texts) for name, texts in levels.items()}
        self.as_categories, self.state = tuple(as_categories), dict(state)
        self._terms = formulaic_terms(fixed, formula)
        parts = [part for term in terms(fixed, formula) for part in term]
        self.reads = tuple(dict.fromkeys(name for part in parts for name in part.columns))
        self.names: tuple[str, ...] = ()

    @property
    def has_intercept(self) -> bool:
        """Whether the terms have an intercept."""
        return INTERCEPT in self.names

    @classmethod
    def fit(
        cls,
        fixed: str,
        formula: str,
        levels: Mapping[str, Sequence[str]],
        as_categories: Sequence[str],
        sample: Values,
    ) -> "TermsMatrix":
        """Return the matrix with its transforms fitted to a sample of rows."""
        factors = dict.fromkeys(
            part.text for term in terms(fixed, formula) for part in term if part.arguments
        )
        learning = cls(" + ".join(["0", *factors]), formula, levels, as_categories, {})
        if factors:
            learning._evaluate(sample, learning.state)
        made = cls(fixed, formula, levels, as_categories, decoded(encoded(learning.state)))
        made(sample.part(slice(0, 1)))
        return made

    def record(self) -> dict[str, Any]:
        """Return the matrix as plain JSON values."""
        return {
            "fixed": self.fixed,
            "formula": self.formula,
            "levels": self.levels,
            "as_categories": list(self.as_categories),
            "state": encoded(self.state),
            "names": list(self.names),
        }

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "TermsMatrix":
        """Return the matrix that `record` was made of."""
        given = (record["fixed"], record["formula"], record["levels"], record["as_categories"])
        made = TermsMatrix(*given, decoded(record["state"]))
        made.names = tuple(record["names"])
        return made

    def __call__(self, values: Values) -> Float[np.ndarray, "n F"]:
        """Return the columns for some rows."""
        return self._evaluate(values, decoded(encoded(self.state)))

    def _evaluate(self, values: Values, state: dict[str, Any]) -> Float[np.ndarray, "n F"]:
        import formulaic
        from formulaic.materializers import NAAction

        spec = formulaic.ModelSpec(
            formula=self._terms,
            output="numpy",
            na_action=NAAction.IGNORE,
            transform_state=state,
            materializer="pandas",
        )
        if not self.reads:
            self.names = tuple(name for name in [INTERCEPT] if any(str(term) == "1" for term in self._terms))
            return np.ones((values.count, len(self.names)))
        try:
            with np.errstate(all="ignore"):
                matrix = spec.get_model_matrix(self._frame(values), context=self._context(values))
        except Exception as error:  # of a function of formulaic, about its arguments or the data
            raise self._refused(error) from error
        names = tuple(matrix.model_spec.column_names)  # pyrefly: ignore
        assert self.names in ((), names)
        self.names = names
        return np.asarray(matrix, np.float64)

    def _frame(self, values: Values) -> Any:
        import pandas as pd

        def column(name: str) -> Any:
            if name in self.as_categories or name not in values.numbers:
                return _categorical(values.codes[name], self.levels[name])
            return values.numbers[name]

        return pd.DataFrame({name: column(name) for name in self.reads})

    def _context(self, values: Values) -> dict[str, Any]:
        import pandas as pd
        from formulaic.transforms import C

        def category(data: Any, contrasts: Any = None, *, levels: Any = None) -> Any:
            own = self.levels[data.name]
            coded = _categorical(values.codes[data.name], own)
            if levels is not None:
                levels = [level_text(level) for level in levels]
                if absent := [level for level in own if level not in levels]:
                    found = f"The level {absent[0]!r} of `{data.name}` is not in `levels`."
                    raise wrong(self.formula, "one whose categories have all levels", found)
            base = getattr(contrasts, "base", None)
            if base is not None and base not in own and isinstance(base, int | float | str):
                contrasts = type(contrasts)(base=level_text(base))
            return C(pd.Series(coded, index=data.index, name=data.name), contrasts, levels=levels)

        return {**ELEMENTWISE, "C": category}

    def _refused(self, error: Exception) -> Exception:
        cause = error.__cause__ if error.__cause__ is not None else error
        reason = str(cause).split("\n", 1)[0].removesuffix(".")
        if "`formula` must be" in str(cause):
            return ValueError(str(cause))
        if "extend beyond" in str(cause):
            rule = "one whose splines span the rows"
            return wrong(
                self.formula, rule, "A row is beyond the ends seen at fitting: use cr(x, df=5) or s(x)."
            )
        return wrong(self.formula, "one that the columns can be put in", f"{reason or type(cause).__name__}.")


def _categorical(codes: Int[np.ndarray, " n"], levels: Sequence[str]) -> Any:
    import pandas as pd

    return pd.Categorical.from_codes(codes, levels)  # pyrefly: ignore


def encoded(state: Any) -> Any:
    """Return what transforms learned as plain JSON values, all digits included."""
    if isinstance(state, dict):
        return {"items": [[key, encoded(value)] for key, value in state.items()]}
    if isinstance(state, np.ndarray):
        return {"array": state.astype(np.float64).tolist()}
    if isinstance(state, list | tuple):
        return [encoded(value) for value in state]
    return state.item() if isinstance(state, np.generic) else state


def decoded(state: Any) -> Any:
    """Return what `encoded` was made of."""
    if isinstance(state, dict):
        if "items" in state:
            return {key: decoded(value) for key, value in state["items"]}
        return np.array(state["array"], np.float64)
    return [decoded(value) for value in state] if isinstance(state, list) else state
