"""The terms that formulaic reads, and the factors that they are made of."""

from typing import Any

from isotherm.errors import missing_extra
from isotherm.tables.formulas.evaluate import Expression
from isotherm.tables.formulas.expressions import column_expression, expression
from isotherm.tables.formulas.scan import keyword_hint, wrong


def terms(fixed: str, formula: str) -> list[tuple[Expression, ...]]:
    """Return the factors of each term that formulaic finds; none for the intercept. Raises if one is not allowed."""
    found = []
    for term in formulaic_terms(fixed, formula):
        factors = [
            column_expression(x.expr) if x.eval_method.value == "lookup" else expression(x.expr, formula)
            for x in term.factors
            if x.eval_method.value != "literal"
        ]
        found.append(tuple(factors))
    return found


def formulaic_terms(fixed: str, formula: str) -> Any:
    """Return the terms as formulaic reads them."""
    try:
        import formulaic
    except ImportError as error:
        raise missing_extra("formula", "formulas") from error
    try:
        return formulaic.Formula(fixed)  # pyrefly: ignore
    except Exception as error:  # of its parser, which also raises those of Python's
        reason = (str(error) or type(error).__name__).split("\n", 1)[0].removesuffix(".")
        hint = keyword_hint(fixed) or f"{reason.replace('insuffient', 'too few')}."
        raise wrong(formula, "one whose terms are joined by + - * : /", hint) from error
