"""What it costs to store a run as it goes: time relative to a run in memory, and the memory of a very long run.

    python benchmarks/storing.py time [--seconds 10] [--rounds 5] [--folder FOLDER]
    python benchmarks/storing.py memory [--draws 2500000] [--folder FOLDER]

`time` runs each shape in turn without and with `store=`, in one process after a first call that compiles, and prints
medians over the rounds. `memory` draws and summarises 4 chains of 100 parameters, 4 GB, and prints the peak of the
process. Both write to FOLDER (a temporary one by default) and delete what they wrote.
"""

import argparse
import resource
import shutil
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import isotherm as iso

CHAINS = 4
# Parameters, batch size and thinning. The last keeps every step of a cheap likelihood, as no run should.
SHAPES = {
    "5 parameters": (5, 500, 10),
    "100 parameters": (100, 100, 10),
    "1,000 parameters": (1000, 50, 20),
    "20,000 parameters": (20_000, 20, 100),
    "100 parameters, all steps": (100, 100, 1),
}


def arguments(size: int, batch_size: int, thinning: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments of `iso.sample` for the mean of normal rows."""
    rows = np.random.default_rng(0).normal(size=(max(2 * batch_size, 200), size)).astype(np.float32)
    posterior = iso.Posterior(
        lambda mean, row: -0.5 * jnp.sum((row - mean) ** 2), lambda mean: -0.5 * jnp.sum(mean**2)
    )
    settings = {
        "sampler": iso.SGNHT(step_size=0.001, friction=1.0),
        "batch_size": batch_size,
        "thinning": thinning,
        "num_chains": CHAINS,
    }
    return (posterior, rows, jnp.zeros(size)), settings


def timed(
    given: tuple[Any, ...], settings: dict[str, Any], num_draws: int, store: Path | None
) -> list[float]:
    """Return the seconds that a run takes: all of the call, its steps alone, and the CPU time of the call."""
    began, worked = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of noise, which costs no time
        draws = iso.sample(*given, **settings, num_draws=num_draws, store=store, progress=False)
    seconds, worked = time.perf_counter() - began, time.process_time() - worked
    if store is not None:
        shutil.rmtree(store)
    return [seconds, draws.record.seconds, worked]


def time_of(shape: tuple[int, int, int], seconds: float, rounds: int, folder: Path) -> list[float]:
    """Return the number of draws, median seconds without and with `store`, and median ratios.

    These are the ratios of the whole call, of its steps alone, and of CPU time, which other processes change least.
    """
    given, settings = arguments(*shape)
    num_draws, store = 200, folder / "run"
    timed(given, settings, num_draws, None)
    while (once := timed(given, settings, num_draws, None)[1]) < seconds / 2:
        num_draws = int(num_draws * min(30, max(1.5, seconds / max(once, 1e-3))))
    timed(given, settings, 200, store)  # compiles what only stored runs use
    plain, stored = [], []
    for i in range(rounds):
        for kind in (plain, stored) if i % 2 == 0 else (stored, plain):
            kind.append(timed(given, settings, num_draws, store if kind is stored else None))
    pairs = list(zip(plain, stored, strict=True))
    ratios = [statistics.median(b[i] / a[i] for a, b in pairs) for i in range(3)]
    calls = [statistics.median(x[0] for x in kind) for kind in (plain, stored)]
    return [num_draws, *calls, *ratios]


def memory(num_draws: int, folder: Path) -> None:
    """Print the size of a long run on the disk, what it took, and the peak of the process after its summary."""
    peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    given, settings = arguments(100, 1, 1)
    began = time.perf_counter()
    draws = iso.sample(*given, **settings, num_draws=num_draws, store=folder / "run", progress=False)
    size = sum(x.stat().st_size for x in (folder / "run").rglob("*")) / 1e9
    print(f"{CHAINS} x {num_draws:,} draws of 100 parameters: {size:.2f} GB on the disk", flush=True)
    print(f"sampling {time.perf_counter() - began:.0f} s, peak {peak():.0f} MB", flush=True)
    began = time.perf_counter()
    summary = draws.summary()
    print(f"summary {time.perf_counter() - began:.0f} s, peak {peak():.0f} MB: {summary.verdict}", flush=True)


def main() -> None:
    """Run one of the two parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["time", "memory"])
    parser.add_argument("--seconds", type=float, default=10.0, help="length of a run without `store`")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--draws", type=int, default=2_500_000, help="draws of each chain")
    parser.add_argument("--folder", type=Path, help="where runs are stored")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="isotherm-storing-", dir=options.folder) as name:
        if options.part == "memory":
            return memory(options.draws, Path(name))
        print(f"{'run':28}{'draws':>10}{'memory':>10}{'store':>10}{'ratio':>8}{'of steps':>10}{'of CPU':>8}")
        for title, shape in SHAPES.items():
            count, plain, stored, ratio, steps, cpu = time_of(
                shape, options.seconds, options.rounds, Path(name)
            )
            print(
                f"{title:28}{count:>10,}{plain:>9.2f}s{stored:>9.2f}s{ratio:>8.3f}{steps:>10.3f}{cpu:>8.3f}",
                flush=True,
            )
    return None


if __name__ == "__main__":
    main()
