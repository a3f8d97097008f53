"""Dense rows against `iso.data.sparse_rows`: memory, and the time of a step, a Hessian and a warm-up.

    ISOTHERM_DATA_DIR=... python benchmarks/sparse.py [--out DIR]

Logistic regression on a9a (14 of 123 columns), and on as many random rows with 14 ones each in more columns. Steps
advance four chains in parallel: plain minibatches under CCAdL with a diagonal covariance and, for a9a, the settings
that the warm-up chooses. Programs take turns, and the median of paired ratios is reported with its quartiles.
"""

import argparse
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso
from isotherm.models import logistic_regression
from isotherm.studies.bench.problems import Problem
from isotherm.studies.bench.programs import Chains, num_bytes
from isotherm.studies.bench.turns import Program, paired, take_turns
from isotherm.sums.totals import derivatives

CHAINS, STEPS, BATCH, ENTRIES = 4, 20, 500, 14
WIDTHS = (123, 1_000, 10_000)
ROUNDS, SECONDS = 11, 0.5

DENSE = logistic_regression()
SPARSE = iso.Posterior(
    lambda w, rows: jax.nn.log_sigmoid(rows["y"] * iso.data.sparse_dot(rows["x"], w)),
    DENSE.log_prior,
    batched=True,
)


def forms(width: int) -> dict[str, tuple[iso.Posterior, dict]]:
    """Return the same rows in dense and in sparse form: those of a9a for its width, else random ones."""
    if width == 123:
        train = iso.data.load("a9a").train
        x, y = train["x"], train["y"]
    else:
        rng = np.random.default_rng(0)
        y = rng.choice([-1, 1], size=32_561)
        x = np.zeros((len(y), width), np.float32)
        x[np.arange(len(y))[:, None], rng.integers(0, width, size=(len(y), ENTRIES))] = 1
    row, column = np.nonzero(x)
    y, rows = y.astype(np.float32), iso.data.sparse_rows((row, column, x[row, column]), shape=x.shape)
    return {
        "dense": (DENSE, jax.tree.map(jnp.asarray, {"x": x, "y": y})),
        "sparse": (SPARSE, jax.tree.map(jnp.asarray, {"x": rows, "y": y})),
    }


def stepping(name: str, posterior: iso.Posterior, data: dict, width: int, tuned: iso.Setup | None) -> Program:
    """Return chains with the settings of the warm-up, or with plain minibatches if there is none."""
    N = len(data["y"])
    if tuned is None:
        kernel = iso.extend.Kernel(iso.CCAdL(1e-4, 10.0), iso.Minibatch(posterior), N, BATCH)
    else:
        parts = (tuned.minibatch, tuned.preconditioner)
        kernel = iso.extend.Kernel(tuned.sampler, tuned.gradient, N, tuned.batch_size, *parts)
    problem = Problem(posterior, data, jnp.zeros(width), N, kernel.batch_size, step_size=0.0)
    chains = Chains(kernel, problem, steps=STEPS, chains=CHAINS)
    return Program(name, STEPS, chains, finite=chains.finite)


def compare(programs: dict[str, Program]) -> dict:
    """Return the median seconds of each program, and the ratio of sparse to dense."""
    times = take_turns(list(programs.values()), rounds=ROUNDS, seconds=SECONDS)
    if not all(program.finite() for program in programs.values()):
        raise RuntimeError("a chain became non-finite, so its time means nothing. Lower the step size.")
    ratio = paired(times["sparse"], times["dense"])
    return {k: float(np.median(v)) for k, v in times.items()} | {"ratio": str(ratio)}


def measure(width: int) -> dict:
    """Return all measurements for one width."""
    both = forms(width)
    record = {"width": width} | {f"bytes of {k}": num_bytes(data) for k, (_, data) in both.items()}
    record["step, plain"] = compare({k: stepping(k, *v, width, None) for k, v in both.items()})
    if width <= 1000:
        hessian = lambda p, data: lambda: derivatives(p, data, jnp.zeros(width), second="hessian")
        record["Hessian"] = compare({k: Program(k, 1, hessian(*v)) for k, v in both.items()})
    if width == 123:
        warm = lambda p, data: lambda: iso.warmup(p, data, jnp.zeros(width))
        record["warm-up"] = compare({k: Program(k, 1, warm(*v)) for k, v in both.items()})
        tuned = {k: warm(*v)() for k, v in both.items()}
        record["batch_size"] = {k: w.batch_size for k, w in tuned.items()}
        record["step, tuned"] = compare({k: stepping(k, *v, width, tuned[k]) for k, v in both.items()})
    return record


def main() -> None:
    """Print and write a record per width."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    records = []
    for width in WIDTHS:
        records.append(measure(width))
        print(json.dumps(records[-1], indent=1), flush=True)
        (out / "sparse.json").write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
