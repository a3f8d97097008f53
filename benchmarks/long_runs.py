"""How long may a run be? CCAdL for 10^8 steps in float32, with the figures of each quarter of the run.

    python benchmarks/long_runs.py [--steps 100_000_000] [--chains 4] [--only Dense] [--out DIR]

Two normal parameters under gradient noise of known covariance C, correlated for `Dense`. Contrasts are random and
independent of the force. The steps are those of `iso.sample`: the same compiled loop, averages and moments. Nothing
may change from quarter to quarter; the exit status is 1 if the average of C is 1 % off, or if another figure is off
by 1 % and by five standard errors.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso
from isotherm.chains import loop
from isotherm.versions import versions

H, A, QUARTERS = 0.05, 1.0, 4
PRECISION = np.diag([1.0, 2.0])
STABILITY = 0.5  # the largest eigenvalue of h^2 C
CORRELATED = np.array([[1.0, 0.5], [0.5, 0.6]])
NOISE = {"Dense": CORRELATED, "Diagonal": np.diag(np.diag(CORRELATED))}
KINDS = {"Dense": iso.Dense(), "Diagonal": iso.Diagonal()}
THINNING = 500  # steps between two values of xi
CHUNKS = 50  # calls of the loop in a quarter; the average of C is read after each
HEADER = ("", "quarter", "average of C / C", "xi", "kinetic temperature", "configurational temperature")


class Noisy(iso.extend.Gradient):
    """The force of a normal target with noise of covariance R R', R = `root`, and as many contrasts as needed."""

    precision: jax.Array
    root: jax.Array

    all_rows = True

    def __call__(self, position, batch, *, needs, key):  # noqa: D102
        del batch
        noise = jax.random.normal(key, (1 + needs.contrasts, position.size)) @ self.root.T
        return iso.extend.GradientEstimate(noise[0] - self.precision @ position, noise[1:], jnp.zeros(()))


def covariance_of(name: str) -> np.ndarray:
    """Return C, scaled to the stability number."""
    return NOISE[name] * STABILITY / H**2 / np.linalg.eigvalsh(NOISE[name])[-1]


def started(name: str, chains: int) -> tuple[loop.Program, loop.Lane]:
    """Return the program and its chains, in equilibrium and settled as at the end of burn-in."""
    sampler = iso.CCAdL(H, A, covariance=KINDS[name], scheme="symmetric")
    root = np.linalg.cholesky(covariance_of(name))
    gradient = Noisy(jnp.asarray(PRECISION, jnp.float32), jnp.asarray(root, jnp.float32))
    kernel = iso.extend.Kernel(sampler, gradient, num_data=2, batch_size=2)
    key, starts = jax.random.split(jax.random.key(0))
    program = loop.Program(kernel, jnp.zeros(2), jax.random.split(key, chains), None, stacked=False)
    sd = jnp.asarray(1 / np.sqrt(np.diag(PRECISION)), jnp.float32)
    lanes = loop.start(program, sd * jax.random.normal(starts, (chains, 2)))
    return program, loop.restart_averages(program, lanes, jnp.asarray(0))


def average_over_truth(name: str, lanes: loop.Lane) -> np.ndarray:
    """Return tr(C^-1 average)/d of each chain, in which every direction counts alike."""
    average = np.asarray(jax.tree.leaves(lanes.state.covariance.operator)[0], np.float64)
    C = covariance_of(name)
    if name == "Diagonal":
        return np.mean(average / np.diag(C), axis=1)
    return np.trace(np.linalg.solve(C, average), axis1=1, axis2=2) / len(C)


def sums_of(lanes: loop.Lane) -> dict[str, np.ndarray]:
    """Return the streaming sums of each chain in float64: of steps, of theta, g and theta g, and of the heat."""
    wide = lambda x: np.asarray(x.total, np.float64) - np.asarray(x.lost, np.float64)
    moments = lanes.accumulator
    return {
        "steps": np.asarray(moments.count, np.float64),
        "theta": wide(moments.sums),
        "kinetic": wide(moments.kinetic)[:, 0],
    }


def chunk_of(name: str, program: loop.Program, lanes: loop.Lane, kept: int) -> tuple[loop.Lane, dict]:
    """Run a chunk of `kept * THINNING` steps, and return the chains after it with the figures of each chain."""
    before = sums_of(lanes)
    lanes, rows = loop.advance(
        program, lanes, jnp.asarray(kept), jnp.asarray(THINNING), jnp.asarray(True), capacity=kept
    )
    during = {key: x - before[key] for key, x in sums_of(lanes).items()}
    theta, _, g, theta_g = np.moveaxis(during["theta"] / during["steps"][:, None, None], 1, 0)
    return lanes, {
        "average": average_over_truth(name, lanes),
        "xi": np.asarray(rows.stats["xi"], np.float64).mean(axis=0),
        "kinetic": during["kinetic"] / during["steps"],
        "configurational": np.mean(theta_g - theta * g, axis=1),
    }


def quarter_of(name: str, program: loop.Program, lanes: loop.Lane, steps: int) -> tuple[loop.Lane, dict]:
    """Run a quarter, and return the chains after it with its figures: mean and standard error.

    Chunks are far longer than the correlations of a chain, so the error comes from their spread.
    """
    chunks = []
    for _ in range(CHUNKS):
        lanes, figures = chunk_of(name, program, lanes, steps // CHUNKS // THINNING)
        chunks.append(figures)
    all_of = {key: np.ravel([figures[key] for figures in chunks]) for key in chunks[0]}
    return lanes, {key: [float(x.mean()), float(x.std(ddof=1) / len(x) ** 0.5)] for key, x in all_of.items()}


def run(name: str, steps: int, chains: int) -> list[dict]:
    """Return the figures of each quarter, printed as they come."""
    program, lanes = started(name, chains)
    rows, length = [], steps // QUARTERS // CHUNKS // THINNING * CHUNKS * THINNING
    for quarter in range(1, QUARTERS + 1):
        began = time.perf_counter()
        lanes, figures = quarter_of(name, program, lanes, length)
        seconds = time.perf_counter() - began
        row = {"covariance": name, "quarter": quarter, "steps": length, "chains": chains, "seconds": seconds}
        rows.append(row | figures)
        cells = [f"{value:.4f} ± {error:.4f}" for value, error in figures.values()]
        print(f"| `{name}` | {quarter} | {' | '.join(cells)} |", flush=True)
    assert eqx.tree_equal(lanes.state.step, jnp.full(chains, QUARTERS * length, jnp.int32))
    return rows


def wrong(row: dict) -> list[str]:
    """Return what is off in a quarter. Theory gives 1 for every figure, with xi in units of A."""
    off = {key: abs(row[key][0] - 1) for key in ("average", "xi", "kinetic", "configurational")}
    return [key for key, x in off.items() if x > 0.01 and (key == "average" or x > 5 * row[key][1])]


def main() -> int:
    """Run both covariances, print the table and write `long_runs.json`; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000_000)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--only", default="", choices=("", *KINDS))
    parser.add_argument("--out", type=Path, default=Path("out/long-runs"))
    options = parser.parse_args()
    if options.steps < QUARTERS * CHUNKS * THINNING:
        parser.error(f"--steps must be at least {QUARTERS * CHUNKS * THINNING:,}; got {options.steps:,}")
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}", flush=True)
    chosen = [name for name in KINDS if options.only in ("", name)]
    rows = [row for name in chosen for row in run(name, options.steps, options.chains)]
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "long_runs.json").write_text(json.dumps({"rows": rows, "versions": versions()}, indent=1))
    faults = [f"{row['covariance']}, quarter {row['quarter']}: {what}" for row in rows for what in wrong(row)]
    print("\n".join(faults) or f"nothing off; {sum(row['seconds'] for row in rows):.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
