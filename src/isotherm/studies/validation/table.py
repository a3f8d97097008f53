"""Run the rows of the validation table in parallel, and write them as plain JSON."""

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from isotherm.studies.validation.cases import CASES, QUICK, Case, cases_of
from isotherm.studies.validation.measure import Quantity
from isotherm.studies.validation.verdict import TOLERANCE, Row, evaluate
from isotherm.studies.workers import LostWorkerError, side_by_side

CHAINS = 128
RELAXATIONS = {True: 6_500.0, False: 12_000.0}  # of the slowest direction, over all chains; by `quick`


def cases(*, quick: bool, sampler: str | None = None) -> list[Case]:
    """Return the rows of the quick or of the full table, or those for a user's sampler, `file.py:function`."""
    if sampler is not None:
        return cases_of(sampler, quick=quick)
    return QUICK if quick else CASES


def run_table(chosen: Sequence[Case], *, quick: bool, seed: int, done: Callable[[Row], None]) -> list[Row]:
    """Return the rows in order. They run in parallel, one per core; `done` is called with each as it ends.

    A row that raises an exception fails. Ctrl-C stops all rows. On a CPU each row runs in a separate process, so a
    script must call this function under `if __name__ == "__main__":`.
    """
    rows: dict[int, Row] = {}
    for i, row in side_by_side(run_row, [(case, quick, seed) for case in chosen]):
        rows[i] = _failed(chosen[i], str(row)) if isinstance(row, LostWorkerError) else row
        done(rows[i])
    return [rows[i] for i in range(len(chosen))]


def run_row(case: Case, quick: bool, seed: int) -> Row:
    """Return one row, which fails if it raises. Its seed depends on its name alone, not on the other rows."""
    row_seed = zlib.crc32(f"{seed} {case.name}".encode())
    try:
        return evaluate(case, relaxations=RELAXATIONS[quick], chains=CHAINS, seed=row_seed)
    except Exception as error:
        return _failed(case, f"{type(error).__name__}: {error}")


def _failed(case: Case, reason: str) -> Row:
    return Row(case.name, case.target, case.method, {}, reason=reason)


def to_json(row: Row) -> dict[str, Any]:
    """Return a row as plain numbers and text."""
    return {
        "name": row.name,
        "target": row.target,
        "method": row.method,
        **row.settings,
        "verdict": row.verdict,
        "reason": row.reason,
        "quantities": {q.name: _quantity(q, row.allowed[q.name]) for q in row.quantities},
        "seconds": round(row.seconds, 1),
    }


def _quantity(q: Quantity, allowed: np.ndarray) -> dict[str, Any]:
    columns = {"value": q.value, "error": q.error, "predicted": q.predicted, "allowed": allowed}
    return {"right": float(q.right[0])} | {k: np.round(v, 5).tolist() for k, v in columns.items()}


def summarise(rows: Sequence[Row]) -> str:
    """Return a sentence that counts the verdicts and names the rows that do not pass."""
    count = {v: sum(r.verdict == v for r in rows) for v in ("holds", "known limit", "unresolved", "fails")}
    text = (
        f"Of {len(rows)} rows, {count['holds']} hold: they agree with a prediction within {TOLERANCE:.0%} of the "
        f"exact value; {count['known limit']} show a known limit of the predicted size"
    )
    bad = [r.name for r in rows if not r.passes]
    if not bad:
        return text + "; none fail."
    return f"{text}; {count['fails']} fail, {count['unresolved']} are unresolved: {'; '.join(bad)}."
