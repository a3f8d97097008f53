"""The part of the report on effects of groups and smooth curves."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from isotherm.plots.along import group_levels, smooth
from isotherm.plots.scales import draw_scales
from isotherm.reporting import page
from isotherm.reporting.marginal import curve_sentence, scale_sentence
from isotherm.reporting.page import Html, Section
from isotherm.tables.fitted import fitted
from isotherm.tables.marginal.contrasts import Estimate, estimate
from isotherm.tables.marginal.curves import SmoothCurve, curve
from isotherm.tables.marginal.levels import LevelEffects, group_effects
from isotherm.tables.marginal.means import some_draws
from isotherm.tables.terms import GroupEffects, Smooth

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from isotherm.draws import Draws

_MOST = 8  # figures of groups, and of curves
_INTERVAL = 0.9


def term_figures(draws: "Draws") -> "dict[str, Figure]":
    """Return the figures of groups and curves by name; none for a model without them."""
    found = {}
    if shown := scales(draws):
        found["scales"] = draw_scales(shown)
    found |= {name: group_levels(levels) for name, levels in _levels(draws).items()}
    return found | {name: smooth(part) for name, part in _curves(draws).items()}


def term_sections(draws: "Draws", pictures: Mapping[str, bytes]) -> list[Section]:
    """Return the sections on groups and curves; none for a model without them."""
    sections = []
    if any(isinstance(term, GroupEffects) for term in fitted(draws).terms):
        sections.append(Section("Groups", list(_groups(draws, pictures))))
    if curves := _curves(draws):
        parts = []
        for name, part in curves.items():
            parts.append(page.paragraph(page.prose(f"`s({part.column})`: {curve_sentence(part)}")))
            caption = "The curve on the linear predictor with its 90 % band; its mean over the rows is zero."
            parts += _picture(pictures, name, f"The curve of {part.column}", caption)
        sections.append(Section("Curves", parts))
    return sections


def scales(draws: "Draws") -> dict[str, Estimate]:
    """Return the sds of effects of groups, and of curves around straight lines, by name."""
    params, found = some_draws(draws), {}
    for term in fitted(draws).terms:
        sd = params[term.names[1]]
        if isinstance(term, Smooth):
            found[f"s({term.name})"] = estimate(sd, _INTERVAL)
            continue
        for k, name in enumerate(term.terms):
            found[f"{name} by {term.name}"] = estimate(sd[:, k], _INTERVAL)
    return found


def correlations(draws: "Draws") -> dict[str, Estimate]:
    """Return the correlations of the effects of a level, by name."""
    params, found = some_draws(draws), {}
    for term in fitted(draws).terms:
        if isinstance(term, GroupEffects) and (name := term.names[2]) is not None:
            (labels,) = draws.labels[name]
            for k, label in enumerate(labels):
                pair = label.removeprefix(f"{name}[").removesuffix("]")
                found[f"correlation of {pair} by {term.name}"] = estimate(params[name][:, k], _INTERVAL)
    return found


def _groups(draws: "Draws", pictures: Mapping[str, bytes]) -> Iterator[Html]:
    yield page.paragraph(
        "Effects of the levels of a group are on the linear predictor and relative to the average level. They are "
        "shrunk towards it: the more, the fewer rows a level has and the more alike the levels are."
    )
    caption = "How much levels differ: posterior means of standard deviations with 90 % intervals."
    yield from _picture(pictures, "scales", "Standard deviations of effects of groups", caption)
    known = {**scales(draws), **correlations(draws)}
    rows = [[name, *x.cells()] for name, x in known.items()]
    caption = "Standard deviations between levels, and of curves around straight lines, and correlations"
    yield page.numbers(["", "mean", "90 % interval"], rows, caption=caption)
    for name, part in _levels(draws).items():
        yield page.paragraph(page.prose(f"`{part.term}` by `{part.group}`: {scale_sentence(part)}"))
        caption = "Sorted effects with 90 % intervals; pale intervals include zero."
        yield from _picture(pictures, name, f"Effects of the levels of {part.group}, sorted", caption)


def _levels(draws: "Draws") -> dict[str, LevelEffects]:
    """Return the effects of the first groups, by the names of their figures."""
    terms = [term for term in fitted(draws).terms if isinstance(term, GroupEffects)]
    pairs = [(term.name, name) for term in terms for name in term.terms][:_MOST]
    return {
        _slug(f"group_{i + 1}_{group}_{name}"): group_effects(draws, group, term=name)
        for i, (group, name) in enumerate(pairs)
    }


def _curves(draws: "Draws") -> dict[str, SmoothCurve]:
    smooths = [term.name for term in fitted(draws).terms if isinstance(term, Smooth)][:_MOST]
    return {_slug(f"curve_{i + 1}_{name}"): curve(draws, name) for i, name in enumerate(smooths)}


def _slug(text: str) -> str:
    """Return the name of a file."""
    return re.sub(r"\W+", "_", text)[:60].strip("_").lower()


def _picture(pictures: Mapping[str, bytes], name: str, alt: str, caption: str) -> list[Html]:
    return [page.figure(pictures[name], alt=alt, caption=caption, kind="narrow")] if name in pictures else []
