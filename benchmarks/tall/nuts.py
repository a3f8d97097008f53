"""NumPyro's NUTS on the posteriors of `problems.py`, for runs that are stored: the largest takes an hour of CPU.

    python benchmarks/tall/nuts.py --out DIR
    python benchmarks/tall/judge.py DIR --to benchmarks/references/nuts

Dense mass matrix, 4 chains from the same start as `iso.sample`, 500 steps of warm-up and 500 draws. All leapfrog
steps are counted, including those of the warm-up: each is one gradient of all rows. Meant for a GPU. The count does
not depend on the machine, and `python benchmarks/tall --methods nuts-counted` converts it to seconds of the machine
that it runs on. The seconds in `benchmarks/references/nuts` are from an H200 that ran ten at a time, and are not
used.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from problems import PROBLEMS
from quality import flat, timed


def nuts(name: str, chains: int, warmup: int, draws: int, seed: int = 0) -> tuple[np.ndarray, dict]:
    """Return draws (chain, draw, parameter) and a record of their cost, compilation included."""
    from numpyro.infer import MCMC, NUTS

    posterior, data, init = PROBLEMS[name]()
    data = jax.tree.map(lambda x: jnp.asarray(x, float), data)
    starts = jax.tree.map(lambda x: jnp.broadcast_to(jnp.asarray(x, float), (chains, *x.shape)), init)
    kernel = NUTS(potential_fn=lambda theta: -posterior.log_density(theta, data), dense_mass=True)
    sampler = MCMC(
        kernel,
        num_warmup=warmup,
        num_samples=draws,
        num_chains=chains,
        chain_method=chain_method(chains),
        progress_bar=False,
    )
    fields = ("num_steps", "adapt_state.step_size", "diverging")

    def prepare() -> jax.Array:
        key = jax.random.key(seed)
        sampler.warmup(key, init_params=starts, extra_fields=fields, collect_warmup=True)
        return sampler.get_extra_fields()["num_steps"]

    def draw() -> object:
        sampler.run(sampler.post_warmup_state.rng_key, extra_fields=fields)
        return sampler.get_samples(group_by_chain=True)

    seconds_warmup, steps_warmup = timed(prepare)
    seconds_sampling, drawn = timed(draw)
    fields_drawn = sampler.get_extra_fields()
    before, during = (int(np.sum(x, dtype=np.int64)) for x in (steps_warmup, fields_drawn["num_steps"]))
    named = drawn if isinstance(drawn, dict) else {"theta": drawn}
    record = {
        "problem": name,
        "method": "NUTS",
        "chains": chains,
        "warmup": warmup,
        "draws": draws,
        "leapfrogs_warmup": before,
        "leapfrogs_sampling": during,
        "passes": before + during,
        "divergent": int(np.sum(fields_drawn["diverging"])),
        "step_size": float(np.mean(fields_drawn["adapt_state.step_size"])),
        "seconds_warmup": seconds_warmup,
        "seconds_sampling": seconds_sampling,
        "dtype": str(jax.tree.leaves(starts)[0].dtype),
        "device": jax.devices()[0].device_kind,
    }
    return flat({k: np.asarray(named[k]) for k in sorted(named)}), record


def chain_method(chains: int) -> Callable | str:
    """Return how NumPyro runs the chains: in parallel on a GPU or on enough devices, otherwise in sequence."""
    if jax.default_backend() == "gpu":
        return jax.vmap
    return "parallel" if jax.local_device_count() >= chains else "sequential"


def save(folder: Path, x: np.ndarray, record: dict) -> None:
    """Write the draws and the record of one problem, for `judge.py`."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        folder / f"{record['problem']}.npz", x=x.astype(np.float32), record=json.dumps(record)
    )
    print(json.dumps(record), flush=True)


def arguments(description: str | None, warmup: int, out: str) -> argparse.ArgumentParser:
    """Return a parser with the arguments that all stored runs share."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(PROBLEMS), help="problems, separated by commas")
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--warmup", type=int, default=warmup)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--out", type=Path, default=Path(out))
    return parser


def main() -> None:
    """Write one file per problem."""
    parser = arguments(__doc__, 500, "out/tall/nuts")
    parser.add_argument("--x64", action="store_true", help="use double precision")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", options.x64)
    jax.config.update("jax_default_matmul_precision", "float32")  # the default on a GPU has only 10 bits
    for name in options.only.split(","):
        save(options.out, *nuts(name, options.chains, options.warmup, options.draws))


if __name__ == "__main__":
    main()
