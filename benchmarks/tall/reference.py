"""Reference moments of the posteriors of `problems.py`, by Hamiltonian Monte Carlo on all rows in double precision.

    python benchmarks/tall/reference.py --out benchmarks/references

Meant for a GPU.
"""

import argparse
import json
import time
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from problems import PROBLEMS  # noqa: E402

from isotherm import tree  # noqa: E402
from isotherm.tuning.newton import climb, whitening  # noqa: E402

_STEP_SIZE, _LEAPFROGS, _BURN_IN = 0.25, 8, 50


def reference(name: str, chains: int, draws: int) -> dict:
    """Return means, standard deviations and their Monte Carlo errors for the ravelled parameters."""
    posterior, data, init = PROBLEMS[name]()
    wide = lambda x: jnp.asarray(x, float)
    data, init = jax.tree.map(wide, data), jax.tree.map(wide, init)
    began = time.perf_counter()
    top = climb(posterior, data, init, key=jax.random.key(0)).point
    coordinates = top.turned(*whitening(top.hessian, 0.0, 1e-16)).frame

    def value(v: jax.Array, data: object) -> jax.Array:
        return posterior.log_density(coordinates.to_params(tree.unravel_like(v, init)), data)

    slope = jax.value_and_grad(value)

    def move(carry: tuple, key: jax.Array, data: object) -> tuple:
        u, old, gradient = carry
        keys = jax.random.split(key, 3)
        h = _STEP_SIZE * jax.random.uniform(keys[0], (), minval=0.7, maxval=1.3)
        r = jax.random.normal(keys[1], u.shape)
        energy = old - 0.5 * jnp.sum(r * r)
        new, value, g = u, old, gradient
        for _ in range(_LEAPFROGS):
            r = r + h / 2 * g
            new = new + h * r
            value, g = slope(new, data)
            r = r + h / 2 * g
        accept = jnp.log(jax.random.uniform(keys[2])) < value - 0.5 * jnp.sum(r * r) - energy
        carry = jax.tree.map(lambda a, b: jnp.where(accept, a, b), (new, value, g), carry)
        return carry, (carry[0], accept)

    @jax.jit
    def run(key: jax.Array, data: object) -> tuple:
        size = tree.size(init)
        starts = jax.random.normal(jax.random.fold_in(key, 0), (chains, size))
        carry = (starts, *jax.vmap(slope, in_axes=(0, None))(starts, data))

        def step(carry: tuple, i: jax.Array) -> tuple:
            keys = jax.random.split(jax.random.fold_in(key, i), chains)
            return jax.vmap(move, in_axes=(0, 0, None))(carry, keys, data)

        return jax.lax.scan(step, carry, 1 + jnp.arange(_BURN_IN + draws))[1]

    u, accepted = run(jax.random.key(1), data)
    root = np.asarray(coordinates.root)
    x = np.asarray(u[_BURN_IN:]).swapaxes(0, 1) @ root.T + np.asarray(tree.ravel(coordinates.center))
    mean, sd = x.mean(axis=(0, 1)), x.std(axis=(0, 1))
    variances = ((x - mean) ** 2).mean(axis=1)
    return {
        "problem": name,
        "mean": mean.tolist(),
        "sd": sd.tolist(),
        "mean_error": (x.mean(axis=1).std(axis=0, ddof=1) / chains**0.5 / sd).tolist(),
        "sd_error": (variances.std(axis=0, ddof=1) / chains**0.5 / sd**2 / 2).tolist(),
        "skewness": (((x - mean) / sd) ** 3).mean(axis=(0, 1)).tolist(),
        "chains": chains,
        "draws": draws,
        "accepted": float(accepted.mean()),
        "seconds": round(time.perf_counter() - began, 1),
        "device": jax.devices()[0].device_kind,
    }


def main() -> None:
    """Write one file per problem."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out/references"))
    parser.add_argument("--only", default="", help="only problems whose name contains this")
    parser.add_argument("--chains", type=int, default=256)
    parser.add_argument("--draws", type=int, default=400)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in PROBLEMS:
        if options.only in name:
            record = reference(name, options.chains, options.draws)
            (options.out / f"{name}.json").write_text(json.dumps(record) + "\n")
            worst = max(record["mean_error"])
            print(
                f"{name}: {record['seconds']} s, accepted {record['accepted']:.3f}, error {worst:.4f} sd",
                flush=True,
            )


if __name__ == "__main__":
    main()
