"""Rows that are computed from their number: is the answer right, and does the time outside passes not grow with N?

    python benchmarks/generated.py [--rows 1e5 1e6 1e7] [--columns 20] [--out DIR]

A logistic regression with nothing tuned. Rows are never all in memory, however few they are. A second call is timed,
so that nothing is compiled. The mode is computed again by Newton's method in float64 from the same rows, without the
library's sums.
Means of the draws may differ from it by the skewness of the posterior, of order sqrt(columns / N) sd, and by chance.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso
from isotherm.data import opening, stream, weighted_blocks
from isotherm.sums import fold
from isotherm.tuning import probe


def rows_of(columns: int):
    """Return a function of the number of a row, in one word or two."""
    slopes = 0.3 * np.cos(np.arange(columns, dtype=np.float32))

    def row(number):
        key = jax.random.key(0)
        for word in jnp.atleast_1d(number):
            key = jax.random.fold_in(key, word)
        key_x, key_y = jax.random.split(key)
        x = jax.random.normal(key_x, (columns,)).at[0].set(1.0)
        y = jax.random.uniform(key_y) < jax.nn.sigmoid(x @ slopes)
        return {"x": x, "y": y.astype(jnp.float32)}

    return row


def log_likelihood(w, row):
    """Return the log-likelihood of a row."""
    return jax.nn.log_sigmoid((2 * row["y"] - 1) * (row["x"] @ w))


POSTERIOR = iso.Posterior(log_likelihood, lambda w: -0.5 * jnp.sum(w**2))


class Clock:
    """Adds up the seconds in functions that read rows. One that calls another counts once."""

    def __init__(self) -> None:
        self.seconds, self.depth = 0.0, 0

    def watch(self, module, name: str) -> None:
        """Replace a function of a module or class by one that is timed."""
        function = getattr(module, name)

        def timed(*args, **options):
            began, self.depth = time.perf_counter(), self.depth + 1
            try:
                return function(*args, **options)
            finally:
                self.depth -= 1
                if self.depth == 0:
                    self.seconds += time.perf_counter() - began

        setattr(module, name, timed)


def mode(source, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the mode and the standard deviations there, by Newton's method in float64 with formulas written out."""

    @jax.jit
    def parts(x, y, w):
        x, y = x.astype(jnp.float64), y.astype(jnp.float64)
        p = 1 / (1 + jnp.exp(-jnp.sum(x * w, axis=1)))
        return jnp.sum(x * (y - p)[:, None], axis=0), (x * (p * (1 - p))[:, None]).T @ x

    w = 0.3 * np.cos(np.arange(columns))  # the slopes that made the rows
    for _ in range(6):
        gradient, hessian = -w, np.eye(columns)
        for block in source.blocks(2**21):
            with jax.enable_x64(True), jax.default_matmul_precision("highest"):
                slope, curvature = parts(block["x"], block["y"], jnp.asarray(w))
                gradient, hessian = gradient + np.asarray(slope), hessian + np.asarray(curvature)
        step = np.linalg.solve(hessian, gradient)
        w = w + step
        if np.abs(step).max() < 1e-10:
            break
    return w, np.sqrt(np.diag(np.linalg.inv(hessian)))


def main() -> None:
    """Print a line for each number of rows, and write `generated.json`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, nargs="+", default=[1e5, 1e6, 1e7])
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--calls", type=int, choices=(1, 2), default=2, help="the last one is timed")
    parser.add_argument("--no-check", action="store_true", help="do not compute the mode again")
    parser.add_argument("--out", type=Path, default=Path("out/generated"))
    options = parser.parse_args()
    stream._HELD, stream._SAMPLE = 0, 2**20  # all rows are streamed, however few they are
    clock = Clock()
    clock.watch(fold, "_fold_stream")
    clock.watch(probe, "streamed_rows")
    clock.watch(weighted_blocks.WeightedBlocks, "found")
    clock.watch(opening, "opened")
    print(f"{jax.devices()[0].device_kind}; {options.columns} columns")
    print(
        f"{'rows':>16} {'seconds':>8} {'in passes':>10} {'outside':>8} {'mean - mode (sd)':>17} {'sd ratio':>14}"
    )
    records = []
    for count in options.rows:
        source = iso.data.generated(rows_of(options.columns), int(count))
        for seed in (0, 1)[2 - options.calls :]:
            clock.seconds, began = 0.0, time.perf_counter()
            draws = iso.sample(POSTERIOR, source, jnp.zeros(options.columns), seed=seed, progress=False)
            seconds = time.perf_counter() - began
        record = {"rows": int(count), "seconds": seconds, "in passes": clock.seconds}
        distance, ratio = "", ""
        if not options.no_check:
            center, sd = mode(source, options.columns)
            record["mean - mode"] = float(np.abs((draws.mean()[0] - center) / sd).max())
            ratios = draws.posterior.std(axis=(0, 1)) / sd
            record["sd ratio"] = [float(ratios.min()), float(ratios.max())]
            distance, ratio = f"{record['mean - mode']:.4f}", "{:.3f} to {:.3f}".format(*record["sd ratio"])
        outside = seconds - clock.seconds
        print(
            f"{count:16,.0f} {seconds:8.2f} {clock.seconds:10.2f} {outside:8.2f} {distance:>17} {ratio:>14}",
            flush=True,
        )
        records.append(record)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "generated.json").write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
