"""How much faster are batches than all rows, for a regression with effects of 1,000 levels?

    python benchmarks/grouped_batches.py [--rows 100000 1000000] [--levels 1000] [--disk FOLDER]

Samples a logistic regression with five columns, twice from the same warm-up: with the batches that it chose, and with
all rows in each step. Prints seconds and CPU seconds for an effective draw of the worst of the scale, the
coefficients and some levels, and the ratio of variances. With `--disk` rows are written to `.npy` files there and
read from them; all rows are then not tried.
"""

import argparse
import dataclasses
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso
from isotherm.data.plans import AllRows
from isotherm.gradients.minibatch import FullData

COLUMNS, CHUNK = 5, 2**20


def made(rows: int, levels: int):
    """Yield rows, as a dictionary of arrays."""
    rng = np.random.default_rng(0)
    slopes, effects = 0.3 * rng.normal(size=COLUMNS), 0.5 * rng.normal(size=levels)
    for begin in range(0, rows, CHUNK):
        count = min(CHUNK, rows - begin)
        x, level = rng.standard_normal((count, COLUMNS), np.float32), rng.integers(levels, size=count)
        eta = x @ slopes + effects[level] - 0.5
        y = rng.random(count) < 1 / (1 + np.exp(-eta))
        yield {"x": x, "level": level.astype(np.int32), "y": y.astype(np.float32)}


def written(folder: Path, rows: int, levels: int):
    """Return a source of rows that are on the disk."""
    shapes = {"x": (rows, COLUMNS), "level": (rows,), "y": (rows,)}
    dtypes = {"x": np.float32, "level": np.int32, "y": np.float32}
    out = {
        name: np.lib.format.open_memmap(folder / f"{name}.npy", "w+", dtypes[name], shape)
        for name, shape in shapes.items()
    }
    begin = 0
    for chunk in made(rows, levels):
        for name, x in chunk.items():
            out[name][begin : begin + len(x)] = x
        begin += len(chunk["y"])
    for x in out.values():
        x.flush()
    return {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in shapes}


def posterior(levels: int) -> tuple[iso.Posterior, dict]:
    """Return the regression and a start."""

    def log_likelihood(q, row):
        eta = q["a"] + row["x"] @ q["slopes"] + q["effect"][row["level"]]
        return row["y"] * eta - jax.nn.softplus(eta)

    def log_prior(q):
        effects = -0.5 * jnp.sum((q["effect"] / q["tau"]) ** 2) - levels * jnp.log(q["tau"])
        return effects - 0.5 * q["tau"] ** 2 - 0.02 * (jnp.sum(q["slopes"] ** 2) + q["a"] ** 2)

    transforms = {"a": None, "slopes": None, "effect": None, "tau": iso.Scale()}
    groups = {"effect": iso.Group("level", scale="tau")}
    init = {"a": 0.0, "slopes": np.zeros(COLUMNS, np.float32), "tau": 1.0}
    init |= {"effect": np.zeros(levels, np.float32)}
    return iso.Posterior(log_likelihood, log_prior, transforms=transforms, groups=groups), init


def timed(of: iso.Posterior, rows, setup, num_draws: int) -> tuple[float, float, iso.Draws]:
    """Return seconds and CPU seconds of the second of two runs, whose programs are compiled, and its draws."""
    setup = dataclasses.replace(setup, arithmetic=None)
    iso.sample(of, rows, setup, num_draws=2, seed=1, progress=False)
    began, cpu = time.perf_counter(), time.process_time()
    draws = iso.sample(of, rows, setup, num_draws=num_draws, seed=2, progress=False)
    return time.perf_counter() - began, time.process_time() - cpu, draws


def row_of(label: str, seconds: float, cpu: float, draws: iso.Draws) -> str:
    """Return a row of the table."""
    ess = min(row.ess_bulk for row in draws.summary().rows)
    steps = draws.record.steps * draws.record.num_chains
    return (
        f"| {label} | {draws.record.batch_size} | {1e6 * seconds / steps:.0f} | {ess:.0f} "
        f"| {1e3 * seconds / ess:.3g} | {1e3 * cpu / ess:.3g} |"
    )


def variances(draws: iso.Draws) -> np.ndarray:
    """Return the variances of all parameters."""
    flat = [np.asarray(x, np.float64) for x in draws.flat().values()]
    return np.concatenate([x.reshape(-1, *x.shape[2:]).var(axis=0).ravel() for x in flat])


def compared(rows: int, levels: int, disk: Path | None, draws: int, reference: int) -> None:
    """Print the table of one size."""
    of, init = posterior(levels)
    data = {k: np.concatenate(x) for k, x in _joined(rows, levels).items()} if disk is None else None
    data = written(disk, rows, levels) if data is None else data
    began, cpu = time.perf_counter(), time.process_time()
    setup = iso.warmup(of, data, init, progress=False)
    print(f"\n{rows} rows, {levels} levels; warm-up {time.perf_counter() - began:.0f} s, ", end="")
    print(f"{time.process_time() - cpu:.0f} s CPU\n\n{setup}\n")
    print("| | rows in a step | us a step of a chain | effective draws | ms each | CPU ms each |")
    print("|---|---|---|---|---|---|", flush=True)
    batches = timed(of, data, setup, draws)
    print(row_of("batches", *batches), flush=True)
    if disk is not None or setup.batch_size == rows:
        return
    kernel = dataclasses.replace(
        setup.kernel, gradient=FullData(setup.problem.density), minibatch=AllRows(), batch_size=rows
    )
    whole = timed(of, data, dataclasses.replace(setup, kernel=kernel), reference)
    print(row_of("all rows", *whole))
    ratio = variances(batches[2]) / variances(whole[2])
    print(f"\nvariances, batches over all rows: median {np.median(ratio):.3f}", flush=True)


def _joined(rows: int, levels: int) -> dict[str, list[np.ndarray]]:
    chunks = list(made(rows, levels))
    return {name: [chunk[name] for chunk in chunks] for name in chunks[0]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--levels", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=1000, help="of each chain, with batches")
    parser.add_argument("--reference", type=int, default=200, help="of each chain, with all rows")
    parser.add_argument("--disk", type=Path)
    options = parser.parse_args()
    for count in options.rows:
        compared(count, options.levels, options.disk, options.draws, options.reference)
