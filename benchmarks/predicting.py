"""How long `isotherm predict` takes: as a multiple of sampling the same rows, and where its time goes.

    python benchmarks/predicting.py

A logistic regression on 20 columns of a generated table is sampled by `isotherm sample` and predicted by `isotherm
predict`, each as a command. The commands of a round follow each other, so that other work on the machine slows them
alike; the ratio of CPU times depends on it less. The parts are seconds of one more run of the functions behind the
command: reading the table twice, computing, and writing.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import isotherm as iso
from isotherm.cli.written import write_predictions
from isotherm.tables.forecasting import forecasts
from isotherm.tables.reader import open_table
from isotherm.tables.scored import Scored

_COLUMNS = 20
_SPEC = 'model = "logistic"\n\n[data]\npath = "{path}"\ntarget = "y"\n'


def write_table(path, rows):
    """Write a table of numbers and a target of two classes, 20 % of which are 1."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, _COLUMNS)).round(4)
    odds = np.exp(x @ np.linspace(-0.5, 0.5, _COLUMNS) - 1.5)
    frame = pd.DataFrame({f"x{i}": x[:, i] for i in range(_COLUMNS)})
    frame["y"] = np.where(rng.uniform(size=rows) < odds / (1 + odds), "yes", "no")
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path, index=False)


def seconds(*arguments):
    """Return how long a command of isotherm takes, and its CPU time."""
    cpu = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    began, began_cpu = time.perf_counter(), cpu()
    done = subprocess.run([sys.executable, "-m", "isotherm", *map(str, arguments)], capture_output=True)
    assert done.returncode in (0, 1), done.stderr.decode()  # 1 is a verdict on the run
    return time.perf_counter() - began, cpu() - began_cpu


def parts(draws, path, out):
    """Return the seconds of opening and reading a table twice, of computing, and of writing."""
    began = time.perf_counter()
    table = open_table(path)
    for _ in range(2):
        for _ in table.chunks(list(table.kinds), 2**16):
            pass
    reading, waiting = time.perf_counter() - began, 0.0

    def timed():
        nonlocal waiting
        predicted = forecasts(draws, open_table(path))
        while True:
            began = time.perf_counter()
            part = next(predicted, None)
            waiting += time.perf_counter() - began
            if part is None:
                return
            yield part

    began = time.perf_counter()
    write_predictions(out, timed(), Scored())
    return reading, waiting - reading, time.perf_counter() - began - waiting


def main():
    """Print a row per table and set of options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--tables", nargs="+", default=["csv", "parquet"])
    options = parser.parse_args()
    warnings.simplefilter("ignore", iso.IsothermWarning)
    titles = [
        "table",
        "draws",
        "sampling",
        "predicting",
        "ratio",
        "ratio of CPU times",
        "reading",
        "computing",
        "writing",
    ]
    print(f"| {' | '.join(titles)} |\n{len(titles) * '|---'}|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for suffix in options.tables:
            path, out, spec, run = (folder / x for x in (f"t.{suffix}", f"p.{suffix}", "spec.toml", "run"))
            write_table(path, options.rows)
            spec.write_text(_SPEC.format(path=path))
            commands = (("sample", spec, "--out", run, "--yes"), ("predict", run, path, "--out", out))
            rounds = [[seconds(*x, "--force", "--json") for x in commands] for _ in range(options.rounds)]
            times = np.array(rounds)  # round, command, wall or CPU
            draws = iso.load(run / "draws.iso")
            cells = [suffix, f"{draws.num_chains * draws.num_draws:,}"]
            cells += [f"{x:.1f} s" for x in np.median(times[:, :, 0], axis=0)]
            cells += [f"{x:.2f}" for x in np.median(times[:, 1] / times[:, 0], axis=0)]
            cells += [f"{x:.1f} s" for x in parts(draws, path, out)]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
