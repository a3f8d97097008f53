"""What `isotherm effects` shows of a run: tables, figures and a page."""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isotherm.plots.along import effects_along, group_levels, smooth
from isotherm.plots.style import to_png
from isotherm.progress import Progress
from isotherm.reporting import page
from isotherm.reporting.page import Html, Section
from isotherm.storage import write_text
from isotherm.tables.fitted import Fitted, fitted
from isotherm.tables.marginal.along import Effects
from isotherm.tables.marginal.along import effects as effects_of
from isotherm.tables.marginal.contrasts import Estimate, contrast_name
from isotherm.tables.marginal.curves import SmoothCurve, curve
from isotherm.tables.marginal.given import some_rows
from isotherm.tables.marginal.grid import known_levels
from isotherm.tables.marginal.levels import LevelEffects, group_effects
from isotherm.tables.marginal.slopes import Slopes, number_columns, slopes
from isotherm.tables.terms import GroupEffects, Smooth

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from isotherm.draws import Draws
    from isotherm.tables.table import Table

_MOST_COLUMNS, _MOST_LEVELS, _LISTED = 12, 50, 40
Part = Effects | LevelEffects | SmoothCurve | Slopes


@dataclasses.dataclass(frozen=True)
class Shown:
    """What is shown of a run."""

    along: tuple[Effects, ...]
    slopes: Slopes | None
    groups: tuple[LevelEffects, ...]
    curves: tuple[SmoothCurve, ...]

    @property
    def parts(self) -> list[Part]:
        """All tables in order."""
        return [*self.along, *([] if self.slopes is None else [self.slopes]), *self.groups, *self.curves]

    @staticmethod
    def of(
        draws: "Draws",
        table: "Table",
        *,
        columns: Sequence[str],
        groups: Sequence[str],
        compare: Sequence[tuple[str, str]],
        others: str,
        interval: float,
        rows: int | None,
        seed: int,
        progress: bool,
    ) -> "Shown":
        """Return what is asked for: without columns and groups, the first columns, all groups and all curves."""
        model, is_all = fitted(draws), not columns and not groups
        given = some_rows(model, table, rows, seed)
        levels, special = known_levels(model), model.special(with_target=False).values()
        if is_all:
            one = [name for name, x in given.columns.items() if x.ndim == 1 and name not in special]
            columns = [name for name in one if len(levels.get(name, ())) <= _MOST_LEVELS][:_MOST_COLUMNS]
        numbers = [name for name in columns if name in number_columns(model, given)]
        numbers = [name for name in numbers if given.columns[name].min() < given.columns[name].max()]
        with Progress("predictions along columns", len(columns), show=progress) as bar:
            along = []
            for name in columns:
                pairs = [(_value(model, name, a), _value(model, name, b)) for a, b in compare] or None
                more = {"others": others, "compare": pairs, "interval": interval, "rows": rows, "seed": seed}
                along += [effects_of(draws, table, name, of=of, **more) for of in _parameters(model, name)]
                bar.advance(1)
        sloped = slopes(draws, table, numbers, interval=interval, rows=rows, seed=seed) if numbers else None
        terms = [x for x in model.terms if isinstance(x, GroupEffects)]
        names = [term.name for term in terms] if is_all else groups
        effects = [
            group_effects(draws, name, term=term, interval=interval)
            for name in names
            for term in next((x.terms for x in terms if x.name == name), (None,))
        ]
        smooths = [x.name for x in model.terms if isinstance(x, Smooth) and (is_all or x.name in columns)]
        curves = [curve(draws, name, interval=interval) for name in smooths]
        return Shown(tuple(along), sloped, tuple(effects), tuple(curves))


def write_shown(folder: Path, shown: Shown) -> list[Path]:
    """Write a CSV file and a figure for each table, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written, taken = [], set()
    for part in shown.parts:
        name = _file_name(part, taken)
        path = folder / f"{name}.csv"
        write_text(path, part.to_pandas().to_csv(index=False, lineterminator="\n"))
        written.append(path)
        figure = figure_of(part)
        if figure is not None:
            image = folder / f"{name}.png"
            image.write_bytes(to_png(figure))
            written.append(image)
    return written


def figure_of(part: Part) -> "Figure | None":
    """Return the figure of a table; `None` for one that has none."""
    if isinstance(part, Effects):
        return effects_along(part)
    if isinstance(part, LevelEffects):
        return group_levels(part)
    return smooth(part) if isinstance(part, SmoothCurve) else None


def effects_page(path: Path, title: str, shown: Shown) -> Path:
    """Write all tables and figures on one page, and return its path."""
    sections = []
    for part in shown.parts:
        heading, parts = _title(part), list(_content(part))
        figure = figure_of(part)
        if figure is not None:
            picture = page.figure(to_png(figure), alt=heading, caption=_caption(part), kind="narrow")
            parts.insert(0, picture)
        sections.append(Section(heading, parts))
    lead = (
        "What the model predicts if only one column changes. It is an effect of that column only if nothing else "
        "explains it."
    )
    write_text(path, page.page(f"Effects: {title}", lead, sections))
    return path


def record_of(shown: Shown) -> dict[str, Any]:
    """Return all tables as plain values."""
    frame = lambda part: part.to_pandas().to_dict("list")
    contrasts = lambda x: [dataclasses.asdict(c) for c in x.contrasts]
    return {
        "along": {
            _key(x): frame(x) | {"response": x.response, "contrasts": contrasts(x)} for x in shown.along
        },
        "slopes": None if shown.slopes is None else frame(shown.slopes),
        "groups": {f"{x.term} by {x.group}": frame(x) for x in shown.groups},
        "curves": {x.column: frame(x) for x in shown.curves},
    }


def _parameters(model: Fitted, column: str) -> list[str | None]:
    """Return what depends on a column: expected responses, as `None`, and parameters with a formula of their own."""
    own = (
        [name for name, design in model.designs.items() if column in design.features] if model.formula else []
    )
    is_main = not model.formula or column in model.made_design.features
    return [*([None] if is_main or not own else []), *own]


def _key(part: Effects) -> str:
    """Return the name of a table in the JSON object."""
    return part.column if part.of is None else f"{part.column}, {part.of}"


def _value(model: Fitted, column: str, text: str) -> Any:
    """Return a value of a column that the command line names."""
    if column in known_levels(model):
        return text
    try:
        return float(text)
    except ValueError:
        return text


def _file_name(part: Part, taken: set[str]) -> str:
    """Return a name of letters, digits and underscores that no other file has."""
    if isinstance(part, Effects):
        text = f"along_{part.column}" if part.of is None else f"along_{part.column}_{part.of}"
    elif isinstance(part, LevelEffects):
        text = f"group_{part.group}" if part.term == "Intercept" else f"group_{part.group}_{part.term}"
    else:
        text = f"curve_{part.column}" if isinstance(part, SmoothCurve) else "slopes"
    base = re.sub(r"[^\w.-]+", "_", text)[:80]
    name, number = base, 2
    while name.lower() in taken:
        name, number = f"{base}_{number}", number + 1
    taken.add(name.lower())
    return name


def _title(part: Part) -> str:
    if isinstance(part, Effects):
        return f"Along {_key(part)}"
    if isinstance(part, Slopes):
        return "Slopes"
    if isinstance(part, LevelEffects):
        return f"{part.term} by {part.group}"
    return f"The curve of {part.column}"


def _caption(part: Part) -> str:
    percent = f"{100 * part.interval:g} %"
    if isinstance(part, Effects):
        return f"The {part.response} along {part.column}: {part.how}. {percent} intervals."
    if isinstance(part, LevelEffects):
        return f"Effects on the linear predictor with {percent} intervals; pale intervals include zero."
    return f"The curve on the linear predictor with its {percent} band; its mean over the rows is zero."


def _content(part: Part) -> Iterator[Html]:
    """Yield sentences and a table."""
    percent = f"{100 * part.interval:g} %"
    if isinstance(part, Effects):
        frame = part.to_pandas()
        rows = [[_cell(x) for x in row] for row in frame.itertuples(index=False)]
        yield page.numbers(
            [*frame.columns[:-2], f"{percent} from", "to"], rows, caption=f"The {part.response}"
        )
        if part.contrasts:
            cells = lambda x: ("", "") if x is None else x.cells()
            rows = [[contrast_name(x), *x.difference.cells(), *cells(x.ratio)] for x in part.contrasts]
            yield page.numbers(
                ["compared", "difference", percent, "ratio", percent], rows, caption="Compared"
            )
    elif isinstance(part, Slopes):
        rows = [
            [f"{x.of}: {x.column}" if x.of else x.column, *x.per_unit.cells(), f"{x.column_sd:.3g}"]
            for x in part.slopes
        ]
        header = ["column", "per unit", percent, "sd of the column"]
        yield page.numbers(
            header, rows, caption=f"Change of the {part.response} per unit, averaged over rows"
        )
    elif isinstance(part, LevelEffects):
        yield page.paragraph(scale_sentence(part))
        half = _LISTED // 2
        rows = [[part.levels[i], *_level_cells(part, i)] for i in part.extremes(half).tolist()]
        more = f", the {len(rows)} most extreme of {len(part):,}" if len(rows) < len(part) else ""
        header = [part.group, "effect", percent, "rows"]
        yield page.numbers(header, rows, caption=f"Effects of the levels{more}")
    else:
        yield page.paragraph(curve_sentence(part))


def scale_sentence(part: LevelEffects) -> str:
    """Return how much levels differ, and how many are clear."""
    mean, between = part.scale.cells()
    return (
        f"The effects of the {len(part):,} levels have a standard deviation of {mean} ({100 * part.interval:g} % "
        f"interval {between}) between them. {int(part.clear.sum()):,} of their intervals exclude zero, the average."
    )


def curve_sentence(part: SmoothCurve) -> str:
    """Return how far the curve is from a straight line."""
    mean, between = part.scale.cells()
    return (
        f"The standard deviation of the curve around a straight line is {mean} ({100 * part.interval:g} % interval "
        f"{between}): near zero, a straight line would do."
    )


def _level_cells(part: LevelEffects, i: int) -> list[str]:
    found = Estimate(float(part.mean[i]), float(part.low[i]), float(part.high[i]))
    return [*found.cells(), f"{part.rows[i]:,}"]


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.5g}"
