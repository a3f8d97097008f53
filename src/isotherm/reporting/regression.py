"""What the report of a regression answers first: effects, rows, fit, and columns that depend on each other."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from isotherm.judging.summary import Summary
from isotherm.plots.effects import draw_effects
from isotherm.plots.reliability import calibration
from isotherm.reporting import page
from isotherm.reporting.effects import effect_summary, effect_table
from isotherm.reporting.fit import dependence, description, rows_used, stored_fit
from isotherm.reporting.groups import term_figures, term_sections
from isotherm.reporting.page import Section
from isotherm.scores import Calibration
from isotherm.tables.coefficients import effects, is_regression
from isotherm.tables.fit import Curve, fit_of
from isotherm.tables.fitted import Fitted, fitted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from isotherm.draws import Draws

_DRAWN = 20  # effects in the figure


def with_fit(draws: "Draws") -> "Draws":
    """Return the draws with how well their regression describes its data, if they are from one and hold its rows."""
    if draws.about.fit:
        return draws
    fit = fit_of(draws)
    if fit is None:
        return draws
    return dataclasses.replace(draws, about=dataclasses.replace(draws.about, fit=dataclasses.asdict(fit)))


def figures(draws: "Draws", summary: Summary) -> "dict[str, Figure]":
    """Return the figures of a regression by name; none for other draws."""
    if not is_regression(draws) or not summary.rows:
        return {}
    model, found = fitted(draws), effects(draws, summary)
    per = "standard deviation" if model.column_sd else "unit"
    ratio = model.family.effect.ratio
    label = f"{f'change of {model.target}' if ratio is None else ratio} per {per} of the column"
    shown = [effect.per_sd() for effect in found[:_DRAWN]]
    drawn = {"effects": draw_effects(shown, len(found), label, ratio=ratio is not None)} if shown else {}
    drawn |= term_figures(draws)
    fit = stored_fit(draws)
    if fit is not None and fit.curve is not None:
        drawn["calibration"] = calibration(_curve(model, fit.curve))
    return drawn


def answers(draws: "Draws", summary: Summary, pictures: Mapping[str, bytes]) -> list[Section]:
    """Return the sections of a regression; none for other draws."""
    if not is_regression(draws) or not summary.rows:
        return []
    model, found = fitted(draws), effects(draws, summary)
    return [
        *([Section("Effects", list(effect_summary(model, found, pictures)))] if found else []),
        *term_sections(draws, pictures),
        Section("Rows", [page.paragraph(text) for text in rows_used(model, draws.record.num_data)]),
        Section("How well the model describes the data", list(description(draws, model, pictures))),
        Section("Columns that depend on each other", [page.paragraph(page.prose(dependence(draws)))]),
        *([Section("Effects in numbers", list(effect_table(model, found)))] if found else []),
    ]


def _curve(model: Fitted, curve: Curve) -> Calibration:
    """Return the calibration curve with the name of the class."""
    found = curve.as_scores()
    if len(model.classes) != 2:
        return found
    named = f"probability that {model.target} is {model.classes[1]}"
    return dataclasses.replace(found, predicted_as=named)
