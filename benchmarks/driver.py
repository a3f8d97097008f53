"""The overhead of the driver: `iso.sample` against a hand-written `lax.scan` of the same update; memory, import time.

    python benchmarks/driver.py [--out DIR]

The two programs take turns in one run, so that other load on the machine affects both. The median of the paired
ratios is reported.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso
from isotherm.models.gaussian import gaussian

N, n, H, A = 100, 10, 0.01, 1.0
STEPS, ROUNDS, WARM_UP_ROUNDS = 50_000, 15, 2


def hand_written(data: jax.Array, keys: jax.Array, positions: jax.Array) -> tuple:
    """Return the same records as the driver: CCAdL with exact dense covariance, gradients written by hand."""

    def body(carry: tuple, t: jax.Array) -> tuple:
        theta, p, xi, C, key = carry
        key, batch_key, noise_key = jax.random.split(key, 3)
        theta = theta + H * p
        mu, gamma = theta
        x = data[jax.random.randint(batch_key, (n,), 0, N)]
        g = jnp.stack([gamma * (x - mu), 0.5 / gamma - 0.5 * (x - mu) ** 2], axis=1)
        mean = jnp.mean(g, axis=0)
        z = g - mean
        kappa = 1 / (t + 1)
        C = (1 - kappa) * C + kappa * (N**2 / n) * (z.T @ z) / (n - 1)
        prior = jnp.stack([-gamma * mu, 0.5 / gamma - 0.5 * mu**2 - 1])
        noise = jax.random.normal(noise_key, (2,))
        p = p + H * (N * mean + prior) - H**2 / 2 * (C @ p) - H * xi * p + jnp.sqrt(2 * A * H) * noise
        kinetic = jnp.dot(p, p) / 2
        xi = xi + H * (kinetic - 1)
        return (theta, p, xi, C, key), (theta, kinetic, xi)

    def chain(key: jax.Array, theta: jax.Array) -> tuple:
        key, start = jax.random.split(key)
        carry = (theta, jax.random.normal(start, (2,)), jnp.asarray(A), jnp.zeros((2, 2)), key)
        return jax.lax.scan(body, carry, jnp.arange(STEPS))[1]

    return jax.vmap(chain)(keys, positions)


def ratio(num_chains: int) -> dict[str, float]:
    """Return the time per step of both programs over `STEPS` recorded steps, and their median ratio."""
    data = np.random.default_rng(0).normal(size=N).astype(np.float32)
    posterior = gaussian()
    sampler = iso.CCAdL(step_size=H, friction=A, covariance=iso.Dense())
    scan = jax.jit(hand_written)
    keys = jax.random.split(jax.random.key(1), num_chains)
    positions = jnp.tile(jnp.asarray([0.0, 1.0]), (num_chains, 1))

    def by_hand(_: int) -> None:
        jax.tree.map(np.asarray, scan(jnp.asarray(data), keys, positions))

    def by_driver(seed: int) -> None:
        iso.sample(
            posterior,
            data,
            {"mu": 0.0, "gamma": 1.0},
            sampler=sampler,
            batch_size=n,
            num_draws=STEPS,
            num_chains=num_chains,
            seed=seed,
            progress=False,
        )

    seconds: dict[str, list[float]] = {"hand": [], "driver": []}
    for i in range(WARM_UP_ROUNDS + ROUNDS):
        # The order alternates, so that drift of the machine favours neither.
        turns = [("hand", by_hand), ("driver", by_driver)]
        for name, f in turns if i % 2 else turns[::-1]:
            began = time.perf_counter()
            f(i)
            if i >= WARM_UP_ROUNDS:
                seconds[name].append(time.perf_counter() - began)
    ratios = np.asarray(seconds["driver"]) / np.asarray(seconds["hand"])
    low, median, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    fastest = {name: min(times) for name, times in seconds.items()}  # the least disturbed round of each
    return {
        "chains": num_chains,
        "hand_us_per_step": 1e6 * float(np.median(seconds["hand"])) / STEPS,
        "driver_us_per_step": 1e6 * float(np.median(seconds["driver"])) / STEPS,
        "ratio": float(median),
        "ratio_quartiles": [float(low), float(high)],
        "ratio_of_fastest": fastest["driver"] / fastest["hand"],
    }


MEMORY = r"""
import re
import numpy as np
import isotherm as iso
from isotherm.models.gaussian import gaussian
def peak():  # of this process; `getrusage` would include its parent
    return int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) / 1024
data = np.random.default_rng(0).normal(size=100).astype(np.float32)
def run(draws):
    return iso.sample(posterior, data, {"mu": 0.0, "gamma": 1.0}, batch_size=10, num_draws=draws, num_chains=1,
                      sampler=iso.CCAdL(step_size=0.01, friction=1.0, covariance=iso.Dense()), progress=False)
posterior = gaussian()
run(10)
before = peak()
draws = run(10**6)
print(before, peak())
"""


def memory() -> dict[str, float]:
    """Return the peak memory of a process that keeps 10^6 draws of two parameters, and before, with ten draws."""
    out = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True).stdout
    before, peak = map(float, out.split())
    return {"ten_draws_mb": before, "million_draws_mb": peak, "difference_mb": peak - before}


def import_time(rounds: int = 9) -> dict[str, float]:
    """Return the median seconds of `import jax` and of `import isotherm`, in new processes that take turns."""
    code = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
    seconds: dict[str, list[float]] = {"jax": [], "isotherm": []}
    for _ in range(rounds):
        for name, times in seconds.items():
            out = subprocess.run(
                [sys.executable, "-c", code.format(name)], capture_output=True, text=True, check=True
            )
            times.append(float(out.stdout))
    medians = {name: float(np.median(times)) for name, times in seconds.items()}
    return {**medians, "ratio": medians["isotherm"] / medians["jax"]}


def main() -> None:
    """Measure, print and write `driver.json`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    options = parser.parse_args()
    results = {
        "ratios": [ratio(chains) for chains in (1, 4, 64)],
        "memory": memory(),
        "import": import_time(),
        "machine": {"cpu": platform.processor(), "jax": jax.__version__, "python": platform.python_version()},
    }
    for row in results["ratios"]:
        low, high = row["ratio_quartiles"]
        print(
            f"{row['chains']:3d} chains: driver {row['driver_us_per_step']:.2f} us per step, hand-written "
            f"{row['hand_us_per_step']:.2f}, ratio {row['ratio']:.3f} (quartiles {low:.3f} to {high:.3f}; "
            f"fastest rounds {row['ratio_of_fastest']:.3f})"
        )
    print("10^6 kept draws of 2 parameters: peak {million_draws_mb:.0f} MB, {difference_mb:.0f} MB "
          "more than with ten draws".format(**results["memory"]))  # fmt: skip
    print(
        "import isotherm {isotherm:.2f} s, import jax {jax:.2f} s, ratio {ratio:.2f}".format(
            **results["import"]
        )
    )
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "driver.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
