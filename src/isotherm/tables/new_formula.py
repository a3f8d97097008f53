"""The rows of a new table in the form that a regression by a formula takes."""

import zlib
from collections.abc import Mapping

import numpy as np
from jaxtyping import Int

from isotherm.errors import must
from isotherm.tables.checks import Gaps, NumberCheck, Rows, check_column, is_missing
from isotherm.tables.families.roles import ROLES
from isotherm.tables.families.together import TogetherCheck
from isotherm.tables.fitted import Fitted
from isotherm.tables.formulas.computed import ComputedTable
from isotherm.tables.formulas.expressions import expression
from isotherm.tables.formulas.formula import is_expression
from isotherm.tables.formulas.groups import GroupDesign
from isotherm.tables.known_levels import LevelCheck
from isotherm.tables.new_rows import (
    EMPTY,
    OTHER_LEVEL,
    UNSEEN,
    NewRows,
    NewTable,
    added_of,
    filled,
    further_of,
    target_check,
    target_of,
)
from isotherm.tables.statistics import level_text
from isotherm.tables.survey import Complete
from isotherm.tables.table import Columns, Table
from isotherm.tables.terms import GroupEffects

_NEW_GROUP = (
    "Choose what is predicted for such rows by `--unseen sample` (effects drawn from that of the levels), "
    '`--unseen mean` (an effect of zero) or `--unseen missing`, in Python `unseen="sample"`.'
)

_ROUNDING = 1e-6


class NewFormula:
    """Reads the columns of a table that a formula needs: as `NewTable` does.

    Rows with a level of a group that was not seen at fitting are refused, left out with `unseen="missing"`, get an
    effect of zero with `"mean"`, or with `"sample"` one that is drawn from the distribution of the levels, the same
    one for all rows of the level. Other levels of categories are refused, or left out with `"missing"`.
    """

    def __init__(self, model: Fitted, table: Table, *, missing: str, unseen: str) -> None:
        self._model, self._refuses, self._unseen = model, missing == "refuse", unseen
        self._has_target = model.target in table.kinds
        special = model.special(with_target=self._has_target)
        designs = [model.made_design, *model.designs.values()]
        features = list(dict.fromkeys(name for design in designs for name in design.features))
        for role, name in [*(("features", name) for name in features), *special.items()]:
            check_column(role, name, table.kinds)
        self._used = list(dict.fromkeys([*features, *special.values()]))
        self.names = [*self._used, *([model.target] if self._has_target else [])] or list(table.kinds)[:1]
        self._gaps, self._complete = {name: Gaps(name) for name in self._used}, Complete(self._used)
        self._checks: list[tuple[str, NumberCheck | LevelCheck]] = []
        for design in designs:
            for name in design.numbers:
                self._checks.append((name, NumberCheck([name], table.kinds[name])))
            if unseen in ("error", "sample"):
                levels = design.levels.items()
                self._checks += [(name, LevelCheck(name, known, OTHER_LEVEL)) for name, known in levels]
        for role, name in special.items():
            self._checks.append((name, NumberCheck([name], table.kinds[name], ROLES[role].rule)))
        self._together: TogetherCheck | None = None
        if self._has_target:
            self._checks.append((model.target, target_check(model, table.kinds[model.target])))
            self._together = TogetherCheck(model.family, model.target, special)
        self._new = {x.name: _NewLevels(x, shared=unseen == "mean") for x in model.made_design.groups}

    def see(self, columns: Columns, rows: Rows) -> None:
        """Check some rows."""
        self._complete.see(columns)
        for name, gaps in self._gaps.items():
            gaps.see(is_missing(columns[name]), rows)
        for name, check in self._checks:
            if isinstance(check, NumberCheck) and check.is_number:
                check.see(filled(columns[name]), rows, ~is_missing(columns[name]))
            else:
                check.see(columns[name], rows)
        if self._together is not None:
            self._together.see(columns, rows)
        for new in self._new.values():
            new.see(columns, rows)

    def finish(self) -> None:
        """Raise if a row cannot be used."""
        for gaps in self._gaps.values():
            if self._refuses and gaps.count:
                raise ValueError(gaps.sentence(EMPTY))
        self._complete.check()
        for _, check in self._checks:
            check.check()
        if self._together is not None:
            self._together.check()
        if self._unseen == "error":
            for new in self._new.values():
                new.check()

    def rows(self, columns: Columns, numbers: Rows) -> NewRows:
        """Return some rows in the form that the model takes. All rows were checked before."""
        model, design = self._model, self._model.made_design
        gaps = [is_missing(columns[name]) for name in self._used]
        complete = ~np.any(gaps, axis=0) if gaps else np.ones(len(numbers), bool)
        unknown: dict[str, np.ndarray] = {}
        for part in (design, *model.designs.values()):
            found = part.unseen(columns)
            unknown |= {name: x & complete for name, x in (found.levels | found.groups).items()}
        unseen = {name: numbers[x] for name, x in unknown.items() if x.any()}
        if self._unseen == "missing" and unseen:
            complete &= ~np.any(list(unknown.values()), axis=0)
        kept = {name: columns[name][complete] for name in self.names}
        count = int(complete.sum())
        out = {name: np.empty((count, *x.shape), x.dtype) for name, x in design.row.items()}
        policy = "mean" if self._unseen == "mean" else "refuse"
        design.encode(kept, out, unseen=policy)
        x = out.pop("x") * np.asarray(design.scale, np.float32)
        new_levels = {}
        for group in design.groups:
            name, codes = group.name, out[f"level_{group.name}"]
            new_levels[name], out[f"level_{name}"] = self._new[name].numbered(kept, codes)
        for name, other in model.designs.items():
            own = np.empty((count, *other.row["x"].shape), np.float32)
            other.encode(kept, {"x": own}, unseen=policy)
            out[f"x_{name}"] = own
        return NewRows(
            complete,
            numbers[complete],
            x,
            np.asarray(design.center) if design.has_intercept else np.zeros(len(design.center)),
            added_of(model, kept),
            target_of(model, kept) if self._has_target else None,
            unseen,
            further_of(model, kept, with_target=self._has_target),
            out,
            new_levels,
        )


class _NewLevels:
    """The levels of one group that were not seen at fitting. They share one effect, or have one each."""

    def __init__(self, group: GroupDesign, *, shared: bool) -> None:
        self._group, self._shared = group, shared
        self._gaps, self._example = Gaps(group.name), ""

    def see(self, columns: Columns, rows: Rows) -> None:
        """Take note of levels that are not known."""
        missing = np.any([is_missing(columns[name]) for name in self._group.factor.columns], axis=0)
        unknown = (self._group.codes(columns) < 0) & ~missing
        if unknown.any() and self._gaps.count == 0:
            self._example = self._texts(columns, np.flatnonzero(unknown)[:1])[0]
        self._gaps.see(unknown, rows)

    def check(self) -> None:
        """Raise if a level was not known."""
        gaps = self._gaps
        if gaps.count:
            where = f"It is in row {gaps.first + 1} ({gaps.count} of {gaps.rows} rows have new levels)."
            rule = f"one of the {len(self._group.levels):,} levels that the model knows"
            raise must(self._group.name, rule, self._example, f"{where} {_NEW_GROUP}")

    def numbered(
        self, columns: Columns, codes: Int[np.ndarray, " n"]
    ) -> tuple[list[str], Int[np.ndarray, " n"]]:
        """Return the new levels among these rows, and the codes with numbers for them after the known ones."""
        new = np.flatnonzero(codes < 0)
        if len(new) == 0:
            return [], codes.astype(np.int32)
        texts = [""] * len(new) if self._shared else self._texts(columns, new)
        levels = sorted(set(texts))
        number = {level: i for i, level in enumerate(levels)}
        codes = codes.astype(np.int32)
        codes[new] = [len(self._group.levels) + number[text] for text in texts]
        return levels, codes

    def _texts(self, columns: Columns, index: Int[np.ndarray, " k"]) -> list[str]:
        parts = [[level_text(value) for value in columns[name][index]] for name in self._group.factor.columns]
        return [":".join(x) for x in zip(*parts, strict=True)]


AnyNewTable = NewTable | NewFormula


def new_table(model: Fitted, table: Table, *, missing: str, unseen: str) -> AnyNewTable:
    """Return the reader of the rows of a new table."""
    if unseen not in UNSEEN:
        raise must("unseen", '"error", "missing", "mean" or "sample"', unseen)
    if missing not in ("refuse", "empty"):
        raise must("missing", '"refuse" or "empty"', missing)
    if not model.formula:
        return NewTable(model, table, missing=missing, unseen=unseen)
    return NewFormula(model, table, missing=missing, unseen=unseen)


def computed(table: Table, model: Fitted) -> Table:
    """Return the table with a column for each expression that stands for a column of the model.

    The target is left out if the table does not have its columns.
    """
    if not model.formula:
        return table
    needed = list(model.special(with_target=False).values())
    roles = [model.target, *model.special(with_target=True).values()]
    texts = [x for x in roles if is_expression(x, table.kinds) and f"`{x}`" not in model.formula[0]]
    made = {x: expression(x, model.formula[0]) for x in texts}
    found = {x: e for x, e in made.items() if x in needed or all(name in table.kinds for name in e.columns)}
    return ComputedTable(table, found) if found else table


def with_new_levels(
    params: dict[str, np.ndarray], model: Fitted, rows: NewRows, seed: int
) -> dict[str, np.ndarray]:
    """Return parameters with effects of the levels that were not seen: zero, or drawn from that of the levels."""
    terms = {term.name: term for term in model.terms if isinstance(term, GroupEffects)}
    for name, levels in rows.new_levels.items():
        if levels:
            effects = terms[name].names[0]
            new = [_effects(terms[name], params, name, level, seed) for level in levels]
            params = {**params, effects: np.concatenate([params[effects], np.stack(new, axis=1)], axis=1)}
    return params


def _effects(
    term: GroupEffects, params: Mapping[str, np.ndarray], name: str, level: str, seed: int
) -> np.ndarray:
    """Return the effects of a new level at each draw, which depend on the name of the level alone."""
    effects, sd, correlations = term.names
    if not level:
        return np.zeros_like(params[effects][:, 0])
    rng = np.random.default_rng([seed, zlib.crc32(f"{name} {level}".encode())])
    z = rng.standard_normal(params[sd].shape)
    if correlations is not None:
        q = len(term.terms)
        matrix = np.broadcast_to(np.eye(q), (len(z), q, q)).copy()
        down, across = np.tril_indices(q, -1)
        matrix[:, down, across] = matrix[:, across, down] = params[correlations]
        factor = np.linalg.cholesky(matrix + _ROUNDING * np.eye(q))  # draws of 32 bits may be singular
        z = np.einsum("dij,dj->di", factor, z)
    return (params[sd] * z).astype(params[effects].dtype)
