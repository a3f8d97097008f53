"""The effects of a regression in words and numbers."""

import math
from collections.abc import Iterator, Mapping

from isotherm.judging.summary import fixed
from isotherm.reporting import page
from isotherm.reporting.page import Html
from isotherm.tables.coefficients import Effect
from isotherm.tables.coefficient_names import is_alone, is_interaction, level_of
from isotherm.tables.fitted import Fitted

_LISTED = 60


def effect_summary(model: Fitted, found: list[Effect], pictures: Mapping[str, bytes]) -> Iterator[Html]:
    """Yield the largest effect in a sentence, how many are clear, and the figure."""
    kind = model.family.effect.ratio
    clear = sum(effect.clear for effect in found)
    yield page.paragraph(page.prose(_largest(model, found)))
    yield page.paragraph(
        f"The 90 % intervals of {clear:,} of {len(found):,} effects exclude “no effect”. An effect is that of one "
        "column while the others stay as they are. It is a cause only if nothing else explains it."
    )
    if "effects" in pictures:
        caption = (
            f"Posterior means and 90 % intervals, the largest effect first. The line is no effect"
            f"{'' if kind is None else ', a ratio of 1'}; pale intervals include it."
        )
        alt = "Effects of the columns with their intervals, sorted by size"
        yield page.figure(pictures["effects"], alt=alt, caption=caption, kind="narrow")


def _largest(model: Fitted, found: list[Effect]) -> str:
    """Return a sentence on the largest effect: of a standard deviation or, for a category, of another level.

    Interactions, and columns such as those of a polynomial, mean little alone. They are passed over if there are
    others.
    """
    names = [effect.name.rpartition(": ")[2] if model.family.per_class else effect.name for effect in found]
    alone = [i for i, name in enumerate(names) if is_alone(name, model)]
    which = alone[0] if alone else 0
    effect, column = found[which], names[which]
    group = effect.name.rpartition(": ")[0] if model.family.per_class else ""
    level = level_of(column, model)
    if level is not None:
        step = f"`{level.column}` = `{level.name}` instead of {level.reference}"
    else:
        effect = effect.per_sd()
        step = f"One {'standard deviation' if model.column_sd else 'unit'} more of `{column}`"
    first, last = (model.classes[0], model.classes[-1]) if model.classes else ("", "")
    words = model.family.effect.sentence
    what = words.format(target=model.target, first=first, last=last, group=group)
    value, interval = _cells(effect, model.family.effect.ratio)
    size = "the largest effect" if which == 0 else "the largest effect of a column alone"
    text = f"{step} {what} {value} (90 % interval {interval}): {size}."
    others = [name for name in names if is_interaction(name, model) and column in name.split(":")]
    if not others:
        return text
    return f"{text} The column takes part in an interaction, `{others[0]}`, so that its effect differs between rows."


def effect_table(model: Fitted, found: list[Effect]) -> Iterator[Html]:
    """Yield a table of the effects per unit and per standard deviation."""
    kind, known = model.family.effect.ratio, bool(model.column_sd)
    value = "effect" if kind is None else kind
    header = ["column", f"{value} per unit", "90 % interval"]
    header += [f"{value} per sd", "90 % interval", "sd of the column"] if known else []
    rows = []
    for effect in found[:_LISTED]:
        cells = [effect.name, *_cells(effect, kind)]
        cells += [*_cells(effect.per_sd(), kind), f"{effect.column_sd:.3g}"] if known else []
        rows.append(cells)
    more = f", the {_LISTED} largest of {len(found):,}" if len(found) > _LISTED else ""
    caption = f"Effects per unit{' and per standard deviation' if known else ''} of a column{more}"
    yield page.numbers(header, rows, caption=caption)
    if model.levels:
        references = ", ".join(f"`{name}` = `{levels[0]}`" for name, levels in model.levels.items())
        yield page.paragraph(page.prose(f"Levels of a category are compared with the first: {references}."))


def _cells(effect: Effect, kind: str | None) -> tuple[str, str]:
    """Return the effect and its interval as text."""
    if kind is not None:
        return _ratio(effect)
    return fixed(effect.mean, effect.sd), f"{fixed(effect.low, effect.sd)} to {fixed(effect.high, effect.sd)}"


def _ratio(effect: Effect) -> tuple[str, str]:
    """Return exp of an effect and of its interval as text."""
    exp = lambda x: math.exp(x) if x < 700 else math.inf
    sd = exp(effect.mean) * effect.sd
    return fixed(exp(effect.mean), sd), f"{fixed(exp(effect.low), sd)} to {fixed(exp(effect.high), sd)}"
