"""Tall data without tuning: `iso.sample(posterior, data, init)` beside NumPyro's NUTS, in one run.

    python benchmarks/tall.py --only a9a --methods iso,laplace,nuts

Errors are against the moments in `benchmarks/references` (Hamiltonian Monte Carlo in double precision, 256 chains,
made by `tall_reference.py`). NUTS has a dense mass matrix, as many chains, and the same rows. Times are given with
compilation and, for a second call on data of the same shape, without. Needs the extra `bench` for `nuts`.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso
from isotherm import tree
from tall_problems import PROBLEMS

REFERENCES = Path(__file__).parent / "references"


def flat(draws: dict[str, np.ndarray]) -> np.ndarray:
    """(chain, draw, parameter)."""
    return np.concatenate([x.reshape(*x.shape[:2], -1) for x in draws.values()], axis=2).astype(np.float64)


def quality(x: np.ndarray, truth: dict) -> dict[str, float]:
    """Effective draws, R-hat and errors against the reference."""
    from arviz_stats.base import array_stats

    axes = {"chain_axis": 0, "draw_axis": 1}
    columns = [x[:, :, i] for i in range(x.shape[2])]
    ess = np.array([float(array_stats.ess(c, method="bulk", **axes)) for c in columns])
    sd = np.array(truth["sd"])
    off, ratio = (x.mean(axis=(0, 1)) - truth["mean"]) / sd, x.std(axis=(0, 1)) / sd
    rms, chance = (
        np.sqrt(np.mean(off**2)),
        np.sqrt(np.mean(1 / ess) + np.mean(np.square(truth["mean_error"]))),
    )
    return {
        "ess_median": float(np.median(ess)),
        "ess_min": float(ess.min()),
        "r_hat": max(float(array_stats.rhat(c, **axes)) for c in columns),
        "mean_rms": float(rms),
        "mean_rms_by_chance": float(chance),
        "sd_median": float(np.median(ratio)),
        "sd_low": float(ratio.min()),
        "sd_high": float(ratio.max()),
    }


def timed(f: Callable[[], object]) -> tuple[float, object]:
    """Seconds until the result is there, and the result."""
    began = time.perf_counter()
    out = jax.block_until_ready(f())
    return time.perf_counter() - began, out


def ours(name: str, chains: int, draws: int) -> dict:
    """The default, twice: with and without compilation."""
    posterior, data, init = PROBLEMS[name]()
    data = jax.tree.map(jnp.asarray, data)
    run = lambda seed: iso.sample(
        posterior, data, init, num_draws=draws, num_chains=chains, seed=seed, progress=False
    )
    first, _ = timed(lambda: run(0))
    second, found = timed(lambda: run(1))
    steps = found.settings["data_passes"] * chains
    spent = steps + found.settings["warmup"]["passes"]
    record = {"problem": name, "method": "iso.sample", "seconds": first, "seconds_compiled": second}
    record |= {"passes": spent, "warmup_passes": found.settings["warmup"]["passes"]}
    record |= {"batch_size": found.settings["batch_size"], "verdict": found.summary().verdict}
    return record | quality(flat(found.flat()), _truth(name))


def laplace(name: str) -> dict:
    """The normal distribution around the mode."""
    from isotherm.tuning.newton import climb, point_at

    posterior, data, init = PROBLEMS[name]()
    data = jax.tree.map(jnp.asarray, data)
    theta, truth = climb(posterior, data, init, seed=0).point.theta, _truth(name)
    for _ in range(4):
        here = point_at(posterior, data, theta)
        step = np.linalg.solve(here.hessian, -here.gradient)
        theta = tree.unravel_like(tree.ravel(theta) + jnp.asarray(step, jnp.float32), theta)
    sd = np.array(truth["sd"])
    off = (np.asarray(tree.ravel(theta), np.float64) - truth["mean"]) / sd
    ratio = np.sqrt(np.diag(np.linalg.inv(here.hessian))) / sd
    return {
        "problem": name,
        "method": "Laplace",
        "mean_rms": float(np.sqrt(np.mean(off**2))),
        "mean_worst": float(np.abs(off).max()),
        "sd_median": float(np.median(ratio)),
        "sd_low": float(ratio.min()),
        "sd_high": float(ratio.max()),
    }


def nuts(name: str, chains: int, draws: int, warmup: int) -> dict:
    """NumPyro, a chain on each device or one after the other."""
    from numpyro.infer import MCMC, NUTS

    posterior, data, init = PROBLEMS[name]()
    data = jax.tree.map(jnp.asarray, data)
    kernel = NUTS(potential_fn=lambda theta: -posterior.log_density(theta, data), dense_mass=True)
    starts = jax.tree.map(lambda x: jnp.broadcast_to(x, (chains, *x.shape)), init)

    def run(seed: int) -> tuple[dict, np.ndarray]:
        sampler = MCMC(
            kernel,
            num_warmup=warmup,
            num_samples=draws,
            num_chains=chains,
            chain_method="parallel" if jax.local_device_count() >= chains else "sequential",
            progress_bar=False,
        )
        sampler.run(jax.random.key(seed), init_params=starts, extra_fields=("num_steps",))
        drawn = sampler.get_samples(group_by_chain=True)
        named = drawn if isinstance(drawn, dict) else {"theta": drawn}
        return named, sampler.get_extra_fields()["num_steps"]

    seconds, (drawn, steps) = timed(lambda: run(0))
    x = flat({k: np.asarray(v) for k, v in sorted(drawn.items())})
    # Of the warm-up's steps nothing is known but that they are at least as many.
    record = {
        "problem": name,
        "method": "NUTS",
        "seconds": seconds,
        "passes": float(np.sum(steps)) * (1 + warmup / draws),
    }
    return record | quality(x, _truth(name))


def _truth(name: str) -> dict:
    return json.loads((REFERENCES / f"{name}.json").read_text())


def main() -> None:
    """A row a problem and method."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(PROBLEMS))
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--methods", default="iso,laplace")
    parser.add_argument("--nuts-draws", type=int, default=1000)
    parser.add_argument("--nuts-warmup", type=int, default=500)
    parser.add_argument("--out", type=Path, default=Path("out/tall"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    methods = {
        "iso": lambda name: ours(name, options.chains, options.draws),
        "laplace": laplace,
        "nuts": lambda name: nuts(name, options.chains, options.nuts_draws, options.nuts_warmup),
    }
    rows = []
    for name in options.only.split(","):
        for method in options.methods.split(","):
            row = methods[method](name)
            print(
                json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}),
                flush=True,
            )
            rows.append(row)
            (options.out / "tall.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
