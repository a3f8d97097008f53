"""A small Bayesian neural network: the held-out log-likelihood of the default and of NUTS.

    python benchmarks/network.py --seeds 3

It predicts the elevation in covertype from nine other measurements: 2,000 rows, one hidden layer of ten units,
unknown scale, 112 parameters. NUTS is `iso.reference_posterior` from the same start, jittered for each chain. Needs
the extra `nuts`.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso

ROWS, UNITS = 2000, 10


def log_likelihood(p: dict, rows: dict) -> jax.Array:
    """Return one value per row."""
    fit = jnp.tanh(rows["x"] @ p["w"] + p["b"]) @ p["v"] + p["c"]
    return -0.5 * ((rows["y"] - fit) * jnp.exp(-p["s"])) ** 2 - p["s"] - 0.5 * np.log(2 * np.pi)


def problem() -> tuple[iso.Posterior, dict, dict, dict]:
    """Return the posterior, the training rows, the test rows and the start."""
    d = iso.data.load("covertype")
    rng = np.random.default_rng(0)
    x = np.concatenate([d.x_train, d.x_test])[:, :10]
    z = x[rng.permutation(len(x))[: 2 * ROWS]].astype(np.float64)
    z = ((z - z.mean(axis=0)) / z.std(axis=0)).astype(np.float32)
    data = {"x": z[:, 1:], "y": z[:, 0]}
    start = {"w": rng.normal(size=(9, UNITS)), "b": rng.normal(size=UNITS), "v": rng.normal(size=UNITS)}
    start = jax.tree.map(lambda a: jnp.asarray(0.3 * a, jnp.float32), start)
    prior = lambda p: -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(p))
    posterior = iso.Posterior(log_likelihood, prior, batched=True)
    part = lambda rows: jax.tree.map(lambda a: jnp.asarray(a[rows]), data)
    return (
        posterior,
        part(slice(ROWS)),
        part(slice(ROWS, None)),
        start | {"c": jnp.zeros(()), "s": jnp.zeros(())},
    )


def held_out(draws: iso.Draws, rows: dict) -> np.ndarray:
    """Return the log predictive density of each row."""
    flat = jax.tree.map(lambda a: jnp.asarray(a).reshape(-1, *a.shape[2:]), draws.posterior)
    values = jax.lax.map(lambda p: log_likelihood(p, rows), flat)
    return np.asarray(jax.nn.logsumexp(values, axis=0) - np.log(len(values)), np.float64)


def main() -> None:
    """Print and write a record per seed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("out/network"))
    options = parser.parse_args()
    posterior, data, test, start = problem()
    began = time.perf_counter()
    nuts = iso.reference_posterior(
        posterior, data, start, num_draws=400, warmup=400, init_scale=0.1, dense_mass=False, progress=False
    )
    reference = held_out(nuts, test)
    records = [{"method": "NUTS", "log_likelihood": reference.mean(), "seconds": time.perf_counter() - began}]
    print(json.dumps(records[-1]), flush=True)
    for seed in range(options.seeds):
        began = time.perf_counter()
        draws = iso.sample(posterior, data, start, seed=seed, progress=False)
        seconds, density = time.perf_counter() - began, held_out(draws, test)
        gain, summary = density - reference, draws.summary()
        records.append(
            {
                "method": "iso.sample",
                "seed": seed,
                "log_likelihood": density.mean(),
                "more_than_nuts": gain.mean(),
                "error": gain.std() / len(gain) ** 0.5,
                "seconds": seconds,
                "gradient": next(r.value for r in draws.record.reasons if r.choice == "gradient"),
                "kinetic_temperature": summary.kinetic_temperature,
                "r_hat": max(row.r_hat for row in summary.rows),
            }
        )
        print(json.dumps(records[-1]), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "network.json").write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
