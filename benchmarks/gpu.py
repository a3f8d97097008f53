"""The default on a GPU: is it right under JAX's default precision, and how long does it take?

    python benchmarks/gpu.py --parts right,speed --seconds 300

`right` compares five problems with the references of `benchmarks/tall`, and `speed` times first and later calls on
rows that are made on the device, with the peak of the device's memory over the size of the data. JAX's settings are
left as they are: its products round to fewer bits than float32 has on recent GPUs. What would begin after `--seconds`
is left out, and said so. `benchmarks/raw_columns` runs on a GPU as it is.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

HERE = Path(__file__).parent
SIZES = ("1e6x100", "1e7x50", "1e8x50")


def right(_):
    """Compare the untuned default with the stored references."""
    sys.path.insert(0, str(HERE / "tall"))
    from problems import PROBLEMS

    import isotherm as iso

    for name in ("a9a", "covertype", "mnist", "rare", "synthetic"):
        reference = json.loads((HERE / "references" / f"{name}.json").read_text())
        mean, sd = (np.asarray(reference[key]) for key in ("mean", "sd"))
        posterior, data, init = PROBLEMS[name]()
        began = time.perf_counter()
        draws = iso.sample(posterior, data, init, progress=False)
        seconds = time.perf_counter() - began
        x = np.asarray(draws.posterior, np.float64).reshape(-1, len(mean))
        summary = draws.summary()
        yield {
            "part": "right",
            "problem": name,
            "seconds": seconds,
            "ess_least": min(row.ess_bulk for row in summary.rows),
            "mean_rms": float(np.sqrt(np.mean(((x.mean(0) - mean) / sd) ** 2))),
            "sd_ratio": [float(np.min(x.std(0) / sd)), float(np.max(x.std(0) / sd))],
            "force_error": draws.record.arithmetic.force_error,
            "verdict": summary.verdict[:100],
        }


def speed(sizes):
    """Time first and later calls on data that are made on the device."""
    import isotherm as iso

    for text in sizes:
        num_data, size = (int(float(x)) for x in text.split("x"))
        data = jax.block_until_ready(_logistic(num_data, size))
        posterior = iso.Posterior(
            lambda w, row: -jax.nn.softplus(-row["y"] * (row["x"] @ w)), lambda w: -0.5 * jnp.sum(w**2)
        )
        times = []
        for seed in range(3):
            began = time.perf_counter()
            draws = iso.sample(posterior, data, jnp.zeros(size), seed=seed, progress=False)
            times.append(time.perf_counter() - began)
        memory = jax.devices()[0].memory_stats() or {}
        bytes_of_data = sum(x.nbytes for x in jax.tree.leaves(data))
        yield {
            "part": "speed",
            "rows": num_data,
            "columns": size,
            "seconds": times,
            "setup_seconds": draws.record.setup_seconds,
            "sampling_seconds": draws.record.seconds,
            "setup_passes": draws.record.setup_passes,
            "memory_over_data": memory.get("peak_bytes_in_use", 0) / bytes_of_data,
            "verdict": draws.summary().verdict[:100],
        }
        del draws, data


def _logistic(num_data, size):
    """Return correlated features and labels of a logistic regression."""

    @jax.jit
    def make(key):
        first, second, third = jax.random.split(key, 3)
        x = jax.random.normal(first, (num_data, size), jnp.float32)
        w = jax.random.normal(second, (size,)) / 10
        y = jnp.where(jax.random.uniform(third, (num_data,)) < jax.nn.sigmoid(x @ w), 1.0, -1.0)
        return {"x": x, "y": y}

    return make(jax.random.key(0))


def main():
    """Run the parts in order and print a line of JSON for each result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", default="right,speed")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--sizes", default=",".join(SIZES), help="rows x columns of `speed`")
    options = parser.parse_args()
    began = time.perf_counter()
    print(jax.devices(), jax.__version__, jax.config.jax_default_matmul_precision, flush=True)
    parts = {"right": right, "speed": speed}
    for name in options.parts.split(","):
        results = parts[name](options.sizes.split(","))
        while True:
            if time.perf_counter() - began > options.seconds:
                print(f"time is up: the rest of {name} was left out", flush=True)
                break
            result = next(results, None)
            if result is None:
                break
            print(json.dumps(result, default=str), flush=True)


if __name__ == "__main__":
    main()
