"""A small table with columns of all kinds, and the designs of formulas on it."""

import numpy as np

from isotherm.tables.formulas.parse import parse
from isotherm.tables.formulas.passes import FormulaPass
from isotherm.tables.table import MemoryTable

N = 1009  # a prime, so that no chunk length divides it
RNG = np.random.default_rng(0)
COLUMNS = {
    "y": RNG.normal(size=N),
    "age": RNG.normal(50, 12, N),
    "km": RNG.gamma(2, 3, N).astype(np.float32),
    "visits": RNG.integers(0, 4, N),
    "flag": RNG.random(N) < 0.3,
    "sex": RNG.choice(["f", "m", "other"], N).astype(object),
    "the town": RNG.choice(["east", "west"], N).astype(object),
    "class": RNG.normal(size=N),
    "region": RNG.choice([f"r{i:02d}" for i in range(40)], N).astype(object),
    "broker": RNG.integers(0, 9, N),
}


def seen(text, columns=COLUMNS, *, length=N, categorical=()):
    """Return a pass over the columns in chunks of this length, twice if it asks for that."""
    table = MemoryTable(columns)
    made = FormulaPass(table, parse(text), categorical=categorical)
    for rows, part in table.chunks(("y", *made.columns), length):
        made.see(part, rows)
    if made.second_pass:
        for rows, part in table.chunks(made.columns, length):
            made.see_again(part, rows)
    return made


def design(text, columns=COLUMNS, *, standardize=True, **given):
    """Return the design of a formula."""
    return seen(text, columns, **given).finish(standardize=standardize)


def rows_of(made, columns=COLUMNS, **given):
    """Return all rows, encoded."""
    count = len(columns["y"])
    out = {name: np.empty((count, *x.shape), x.dtype) for name, x in made.row.items()}
    made.encode(columns, out, **given)
    return out
