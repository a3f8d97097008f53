"""Run the validation table: rows side by side, results as plain JSON."""

import multiprocessing
import os
import signal
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import jax
import numpy as np

from isotherm.validation.cases import CASES, QUICK, Case
from isotherm.validation.measure import Quantity
from isotherm.validation.verdict import TOLERANCE, Row, evaluate

CHAINS = 128
_CONFIG = ("jax_enable_x64", "jax_platforms", "jax_default_matmul_precision")
RELAXATIONS = {True: 6_500.0, False: 12_000.0}  # of the slowest direction, over all chains; quick or full


def cases(*, quick: bool) -> list[Case]:
    """The rows of the quick or of the full table."""
    return QUICK if quick else CASES


def run_table(chosen: Sequence[Case], *, quick: bool, seed: int, done: Callable[[Row], None]) -> list[Row]:
    """Run rows, as many at a time as there are cores; `done` hears of each as it ends, the list is in order.

    A row that raises is a row that fails. Ctrl-C ends the others. On a CPU rows run in processes of their own, so a
    script calls it under `if __name__ == "__main__":`.
    """
    results: dict[Case, Row] = {}
    for case, row in _side_by_side(chosen, quick, seed):
        results[case] = row
        done(row)
    return [results[case] for case in chosen]


def _side_by_side(chosen: Sequence[Case], quick: bool, seed: int) -> Iterator[tuple[Case, Row]]:
    if jax.default_backend() != "cpu" or len(chosen) == 1:
        for case in chosen:
            yield case, run_row(case, quick, seed)
        return
    # Processes: two programs at once in one process can wait for each other's threads forever (jaxlib 0.10.2).
    workers = ProcessPoolExecutor(
        max_workers=min(os.cpu_count() or 1, 16, len(chosen)),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_prepare,
        initargs=({name: getattr(jax.config, name) for name in _CONFIG},),
    )
    others = set(multiprocessing.active_children())
    try:
        waiting = {workers.submit(run_row, case, quick, seed): case for case in chosen}
        for future in as_completed(waiting):
            case = waiting[future]
            try:
                yield case, future.result()
            except BrokenProcessPool:
                yield case, _failed(case, "a process that ran the table was killed; is there memory enough?")
    except BaseException:
        workers.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        raise
    workers.shutdown()


def run_row(case: Case, quick: bool, seed: int) -> Row:
    """One row, whatever happens. The seed is its own: it gives the same figures alone and in any company."""
    own = zlib.crc32(f"{seed} {case.name}".encode())
    try:
        return evaluate(case, relaxations=RELAXATIONS[quick], chains=CHAINS, seed=own)
    except Exception as error:
        return _failed(case, f"{type(error).__name__}: {error}")


def _failed(case: Case, reason: str) -> Row:
    return Row(case.name, case.target, case.method, {}, reason=reason)


def _prepare(config: dict[str, Any]) -> None:
    """A new process: Ctrl-C is for its parent, and JAX is set as there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name, value in config.items():
        jax.config.update(name, value)


def to_json(row: Row) -> dict[str, Any]:
    """A row as plain numbers and text."""
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
    """The table in a sentence or two."""
    count = {v: sum(r.verdict == v for r in rows) for v in ("holds", "known limit", "unresolved", "fails")}
    text = (
        f"Of {len(rows)} rows {count['holds']} hold: they agree with a prediction within {TOLERANCE:.0%} of right; "
        f"{count['known limit']} show a known limit of the predicted size"
    )
    bad = [r.name for r in rows if not r.passes]
    if not bad:
        return text + "; none fails."
    return f"{text}; {count['fails']} fail, {count['unresolved']} are not resolved: {'; '.join(bad)}."
