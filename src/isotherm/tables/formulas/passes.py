"""The columns of a formula, read once for checks, levels and a sample, and again if its matrix calls for it."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Float

from isotherm.tables.checks import NumberCheck, Rows, as_floats
from isotherm.tables.design import constant
from isotherm.tables.formulas.design import FormulaDesign, full_matrix, matrix_names
from isotherm.tables.formulas.formula import Formula
from isotherm.tables.formulas.groups import Factor, FactorPass, GroupDesign, group_names
from isotherm.tables.formulas.levels import KnownLevels
from isotherm.tables.formulas.limits import check_memory, check_width
from isotherm.tables.formulas.matrix import INTERCEPT, TermsMatrix, Values
from isotherm.tables.formulas.reads import read_by
from isotherm.tables.formulas.sample import RowSample
from isotherm.tables.formulas.smooth import SmoothDesign, fit_spline
from isotherm.tables.formulas.stats import ColumnStats, Summary, indicators, joined_summaries
from isotherm.tables.statistics import Levels
from isotherm.tables.table import Columns, Table

_TILE = 2**20  # numbers of a matrix that are made at once


@dataclasses.dataclass(frozen=True, eq=False)
class _Learned:
    """What the first pass found out: levels, factors, curves, and the matrices with their transforms fitted."""

    categories: dict[str, KnownLevels]
    counts: dict[str, np.ndarray]
    factors: list[tuple[Factor, np.ndarray]]
    matrices: list[TermsMatrix]  # of x, then of each group
    smooths: tuple[SmoothDesign, ...]
    rows: np.ndarray
    sample: Values
    stats: list[ColumnStats]  # of these matrices


class FormulaPass:
    """Reads the columns of a formula, and returns its design.

    `see` takes all rows, some at a time. If `second_pass` is true after that, `see_again` takes all rows once more:
    interactions and transforms that learn from the data have no mean before these are known. Then call `finish`.
    """

    def __init__(self, table: Table, formula: Formula, *, categorical: Sequence[str]) -> None:
        self._table, self.formula = table, formula.with_columns(table.kinds)
        self._reads = read_by(self.formula, table, categorical)
        self._checks = {name: NumberCheck([name], table.kinds[name]) for name in self._reads.numbers}
        self._levels = {name: Levels(name, table.kinds[name]) for name in self._reads.categories}
        self._factors = [FactorPass(term, table) for term in self.formula.groups]
        self._streamed = {name: ColumnStats([name]) for name in [*self._reads.elementwise, *self._lines]}
        self._sample = RowSample([*self._reads.numbers, *self._reads.categories])
        self._made: _Learned | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that are read."""
        return self._reads.all

    def see(self, columns: Columns, rows: Rows) -> None:
        """Read some rows."""
        for name, check in self._checks.items():
            check.see(columns[name], rows)
        for name, levels in self._levels.items():
            levels.see(columns[name], rows)
        for factor in self._factors:
            factor.see(columns, rows)
        numbers = {name: as_floats(columns[name]) for name in self._reads.numbers}
        found = {name: part(numbers) for name, part in self._reads.elementwise.items()}
        found |= {name: numbers[name] for name in self._lines}
        for name, values in found.items():
            self._streamed[name].see(values[:, None], rows)
        ends = {name: part(numbers) for name, part in self._reads.arguments.items()}
        self._sample.see(columns, rows, numbers | ends)

    @property
    def second_pass(self) -> bool:
        """Whether all rows must be read again, by `see_again`. Raises if a column cannot be used."""
        return not self._sample.is_all and any(
            self._first_pass(i) is None for i in range(len(self._learned.matrices))
        )

    def see_again(self, columns: Columns, rows: Rows) -> None:
        """Read some rows again."""
        self._add(self._values(columns, self._learned.categories, len(rows)), rows)

    def finish(self, *, standardize: bool) -> FormulaDesign:
        """Return the design. Raises if a column cannot be used."""
        learned = self._learned
        if self._sample.is_all:
            self._add(learned.sample, learned.rows)
        found = []
        for i, stats in enumerate(learned.stats):
            stats.check()
            first = None if self._sample.is_all else self._first_pass(i)
            found.append(stats.summary() if first is None else first)
        main, matrix = found[0], learned.matrices[0]
        names = matrix_names(matrix, self._lines)
        main.check(names)
        groups = []
        for i, (name, term) in enumerate(
            zip(group_names(self.formula.groups), self.formula.groups, strict=True)
        ):
            terms_matrix, summary = learned.matrices[i + 1], found[i + 1]
            is_one = np.array([x == INTERCEPT for x in terms_matrix.names])
            Summary(*(x[~is_one] for x in vars(summary).values())).check(
                [x for x in terms_matrix.names if x != INTERCEPT]
            )
            sd = np.where(is_one, 1.0, summary.spread)
            groups.append(GroupDesign(name, *learned.factors[i], terms_matrix, sd, term.correlated))
        ones = np.ones(len(names))
        design = FormulaDesign(
            self.columns,
            matrix,
            main.mean if standardize and matrix.has_intercept else 0 * ones,
            main.spread if standardize else ones,
            main.sd,
            self._reads.numbers,
            learned.categories,
            tuple(groups),
            learned.smooths,
        )
        check_memory(self._table, design)
        return design

    def dependence_rows(self, design: FormulaDesign) -> tuple[bool, Iterator[Float[np.ndarray, "n F"]]]:
        """Return whether these are all rows, and rows of the standardised matrix, some at a time."""
        sample, width = self._learned.sample, max(1, len(design.names))
        stride = -(-sample.count // max(2**13, 2**23 // width))
        rows = sample.part(slice(None, None, stride))
        blocks = (
            (x - design.center) / design.scale for _, x in self._tiles(design.matrix, self._lines, rows)
        )
        return self._sample.is_all and stride == 1, blocks

    @property
    def _lines(self) -> list[str]:
        return [smooth.column for smooth in self.formula.smooths]

    @property
    def _learned(self) -> _Learned:
        if self._made is None:
            self._made = self._learn()
        return self._made

    def _learn(self) -> _Learned:
        for check in self._checks.values():
            check.check()
        levels = {name: part.finish() for name, part in self._levels.items()}
        for name, (texts, _, _) in levels.items():
            if len(texts) < 2:
                raise constant(name, texts[0])
        factors = [part.finish() for part in self._factors]
        for part in self._streamed.values():
            part.check()
        categories = {name: KnownLevels(texts) for name, (texts, _, _) in levels.items()}
        texts = {name: known.levels for name, known in categories.items()}
        check_width(self.formula, texts)
        rows, columns = self._sample.finish()
        sample = self._values(columns, categories, len(rows))
        given = (self.formula.text, texts, self._reads.as_categories, sample)
        fixed = [self.formula.fixed, *(group.terms for group in self.formula.groups)]
        matrices = [TermsMatrix.fit(text, *given) for text in fixed]
        smooths = tuple(
            SmoothDesign(term.column, fit_spline(term.column, sample.numbers[term.column], term.size))
            for term in self.formula.smooths
        )
        names = [matrix_names(matrices[0], self._lines), *(matrix.names for matrix in matrices[1:])]
        counts = {name: numbers for name, (_, _, numbers) in levels.items()}
        stats = [ColumnStats(part) for part in names]
        return _Learned(categories, counts, factors, matrices, smooths, rows, sample, stats)

    def _values(self, columns: Columns, categories: Mapping[str, KnownLevels], count: int) -> Values:
        numbers = {name: as_floats(columns[name]) for name in self._reads.numbers}
        return Values(
            numbers, {name: known.codes(columns[name]) for name, known in categories.items()}, count
        )

    def _add(self, values: Values, rows: Rows) -> None:
        """Add rows to the statistics of the matrices."""
        for i, (matrix, stats) in enumerate(zip(self._learned.matrices, self._learned.stats, strict=True)):
            for where, x in self._tiles(matrix, self._lines if i == 0 else None, values):
                stats.see(x, rows[where])

    def _tiles(
        self, matrix: TermsMatrix, lines: Sequence[str] | None, values: Values
    ) -> Iterator[tuple[slice, Float[np.ndarray, "n F"]]]:
        step = max(256, _TILE // max(1, len(matrix.names)))
        for begin in range(0, values.count, step):
            where = slice(begin, begin + step)
            part = values.part(where)
            yield where, matrix(part) if lines is None else full_matrix(matrix, lines, part)

    def _first_pass(self, which: int) -> Summary | None:
        """Return the statistics of a matrix if the first pass has those of each column, else `None`."""
        learned = self._learned
        known = {name: stats.summary() for name, stats in self._streamed.items()}
        for prefix, column in self._reads.indicators.items():
            summary = indicators(learned.counts[column])
            for i, level in enumerate(learned.categories[column].levels):
                one = Summary(*(x[i : i + 1] for x in vars(summary).values()))
                known |= {f"{prefix}[T.{level}]": one, f"{prefix}[{level}]": one}
        names = learned.stats[which].names
        one = Summary(np.ones(1), np.zeros(1), np.ones(1), np.ones(1), np.ones(1, bool))
        known |= {INTERCEPT: one} | {
            f"s({name}).linear": known[name] for name in self._lines if name in known
        }
        return (
            joined_summaries([known[name] for name in names])
            if all(name in known for name in names)
            else None
        )
