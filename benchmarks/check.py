"""What `isotherm check` costs: its two passes over a table, as ratios to reading the table and to sampling it.

    python benchmarks/check.py [--rows 200000] [--rounds 5]

All parts of a round follow each other in one process, so that other work on the machine slows them alike. Programs
are compiled before the first round. Two tables: one of numbers, and one of which half the columns are text: dates,
amounts with a unit, identifiers and names. Both as CSV and as Parquet.
"""

import argparse
import os
import tempfile
import time
import warnings
from pathlib import Path

# BLAS threads that wait for each other on a shared machine take ten times as long. BLAS reads this on import.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import isotherm as iso
from isotherm.tables.inspection.facts import facts_of
from isotherm.tables.inspection.inspect import inspect
from isotherm.tables.reader import open_table
from isotherm.tables.regressions import regression

_NUMBERS = 16


def numbers(rows, rng):
    """Return columns of numbers."""
    x = rng.normal(size=(rows, _NUMBERS)).round(4)
    frame = pd.DataFrame({f"x{i}": x[:, i] for i in range(_NUMBERS)})
    return frame.assign(y=(x.sum(axis=1) + rng.normal(size=rows)).round(4))


def text(rows, rng):
    """Return columns of which half are text."""
    frame = numbers(rows, rng)[[*(f"x{i}" for i in range(_NUMBERS // 2)), "y"]]
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 1500, rows), "D")
    frame.insert(0, "id", np.arange(rows))
    frame.insert(1, "name", [f"n{i}" for i in rng.permutation(rows)])
    frame.insert(2, "day", days.strftime("%Y-%m-%d"))
    frame.insert(3, "german", days.strftime("%d.%m.%Y"))
    frame.insert(4, "price", [f"${v:,}" for v in rng.integers(900, 90_000, rows)])
    frame.insert(5, "weight", [f"{v / 10} kg" for v in rng.integers(400, 1200, rows)])
    frame.insert(6, "group", rng.choice(list("abcdefgh"), rows))
    frame.insert(7, "copy", 2 * frame["x1"])
    return frame


def read(path):
    """Read all columns once, as the rest of the library does."""
    table = open_table(path)
    return sum(len(next(iter(columns.values()))) for _, columns in table.pieces(list(table.kinds)))


def sample(result):
    """Sample as proposed, with the shortest of the usual runs."""
    proposal = result.proposal
    made = regression(proposal.model, result.path, proposal.target, **proposal.arguments(), progress=False)
    return iso.sample(*made, num_draws=1000, progress=False)


def seconds(f):
    """Return how long a call takes."""
    began = time.perf_counter()
    f()
    return time.perf_counter() - began


def measure(path, rounds):
    """Return, for each round, the seconds of reading, the first pass, the whole check, and sampling."""
    result = inspect(path, "y", progress=False)
    assert result.ok, result.findings
    sample(result)  # compiles
    found = []
    for _ in range(rounds):
        parts = (
            lambda: read(path),
            lambda: facts_of(path, "y", progress=False),
            lambda: inspect(path, "y", progress=False),
            lambda: sample(result),
        )
        found.append([seconds(part) for part in parts])
    return np.array(found)


def middle(ratios):
    """Return median and quartiles."""
    low, median, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    return f"{median:.2g} ({low:.2g} to {high:.2g})"


def main():
    """Print a row per table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore", iso.IsothermWarning)
    print(
        "| table | size | first pass / reading | check / reading | check / sampling |\n|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        for make, about in ((numbers, "numbers"), (text, "half of it text")):
            frame = make(options.rows, np.random.default_rng(0))
            for suffix in ("csv", "parquet"):
                path = str(Path(folder, f"table.{suffix}"))
                frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path, index=False)
                reading, first, whole, sampling = measure(path, options.rounds).T
                ratios = (first / reading, whole / reading, whole / sampling)
                size = f"{options.rows:,} × {frame.shape[1]}, {Path(path).stat().st_size / 1e6:.0f} MB"
                print(f"| {about}, {suffix} | {size} | {' | '.join(map(middle, ratios))} |", flush=True)


if __name__ == "__main__":
    main()
