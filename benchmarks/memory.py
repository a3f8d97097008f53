"""Memory of a run: its peak relative to the data, and its growth with functions that are defined again in a loop.

    python benchmarks/memory.py rows [--rows 3000000]
    python benchmarks/memory.py loop [--calls 30]

`rows` compares with a run on 10,000 rows, in another process, whose memory is that of Python, JAX and its programs.
"""

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso

COLUMNS, FEW = 100, 10_000
MB = 2**20


def peak() -> float:
    """Return the largest memory of the process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def now() -> float:
    """Return the memory of the process, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MB


def made(num_rows: int) -> dict[str, np.ndarray]:
    """Return rows of a logistic regression in float32, made without large temporary arrays."""
    rng = np.random.default_rng(0)
    x = np.empty((num_rows, COLUMNS), np.float32)
    for begin in range(0, num_rows, FEW):
        x[begin : begin + FEW] = rng.standard_normal(x[begin : begin + FEW].shape, dtype=np.float32)
    return {"x": x, "y": (rng.random(num_rows) < 0.5).astype(np.float32)}


def rows(num_rows: int) -> None:
    """Print the peak of one run."""
    log_likelihood = lambda w, row: row["y"] * (row["x"] @ w) - jax.nn.softplus(row["x"] @ w)
    data = made(num_rows)
    size = sum(x.nbytes for x in data.values()) / MB
    iso.sample(
        iso.Posterior(log_likelihood, lambda w: -0.5 * jnp.sum(w**2)),
        data,
        jnp.zeros(COLUMNS),
        progress=False,
    )
    print(f"{size:.0f} {peak():.0f}")


def loop(calls: int) -> None:
    """Print the memory after each call with a new function of the same code."""
    x = np.random.default_rng(0).normal(size=(1000, 2)).astype(np.float32)
    for i in range(calls):
        posterior = iso.Posterior(
            lambda m, row: -0.5 * jnp.sum((row - m) ** 2), lambda m: -0.5 * jnp.sum(m**2)
        )
        iso.sample(posterior, x, jnp.zeros(2), num_draws=100, progress=False).summary()
        print(f"call {i + 1}: {now():.0f} MB", flush=True)


def main() -> None:
    """Run one of the two parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["rows", "one", "loop"])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--calls", type=int, default=30)
    arguments = parser.parse_args()
    if arguments.part == "loop":
        return loop(arguments.calls)
    if arguments.part == "one":
        return rows(arguments.rows)
    results = []
    for count in (FEW, arguments.rows):
        command = [sys.executable, __file__, "one", "--rows", str(count)]
        results.append([float(x) for x in subprocess.check_output(command, text=True).split()])
    (few, base), (size, highest) = results
    print(
        f"{FEW} rows: peak {base:.0f} MB. {arguments.rows} rows: {size:.0f} MB of data, peak {highest:.0f} MB"
    )
    print(f"above the run on few rows: {(highest - base + few) / size:.2f} times the data")
    return None


if __name__ == "__main__":
    main()
