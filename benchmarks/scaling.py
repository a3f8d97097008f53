"""How passes and chains scale with devices: 1, 2 and 4 host devices in one process, as ratios to one.

    python benchmarks/scaling.py [--rows N] [--devices 4] [--out DIR]

Numbers of devices take turns, so that other load on the machine affects all. Medians are reported. Devices of a CPU
share its cores, so ratios cannot exceed the number of cores that are free. XLA is kept to one thread for each device;
otherwise one device would use several cores already.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

SIZE, CHAINS, DRAWS, ROUNDS = 20, 16, 2000, 5


def measured(rows: int, counts: list[int]) -> dict[str, dict[str, float]]:
    """Return seconds for each kind of work, by number of devices."""
    import jax.numpy as jnp

    import isotherm as iso
    from isotherm.data import stream
    from isotherm.data.opening import opened
    from isotherm.devices import using
    from isotherm.sums.totals import derivatives

    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, SIZE)).astype(np.float32)
    y = (rng.uniform(size=rows) < 1 / (1 + np.exp(-x @ np.linspace(-1, 1, SIZE)))).astype(np.float32)

    def log_likelihood(theta, row):
        z = row[0] @ theta
        return row[1] * z - jnp.logaddexp(0.0, z)

    posterior = iso.Posterior(log_likelihood, lambda theta: -0.5 * jnp.sum(theta**2))
    theta, data = jnp.zeros(SIZE), (x, y)
    on_device = (jnp.asarray(x), jnp.asarray(y))
    stream._HELD = 0
    streamed = opened(iso.data.arrays(data)).stream()
    setup = iso.warmup(posterior, data, theta, progress=False)

    def sampled() -> None:
        iso.sample(posterior, data, setup, num_chains=CHAINS, num_draws=DRAWS, progress=False)

    work: dict[str, Callable[[], object]] = {
        "pass with Hessian, rows in memory": lambda: derivatives(
            posterior, on_device, theta, second="hessian"
        ),
        "pass with Hessian, rows of a source": lambda: derivatives(
            posterior, streamed, theta, second="hessian"
        ),
        "pass with gradient, rows in memory": lambda: derivatives(posterior, on_device, theta),
        f"{CHAINS} chains, {DRAWS} draws": sampled,
    }
    found: dict[str, dict[str, float]] = {}
    for name, f in work.items():
        times: dict[int, list[float]] = {count: [] for count in counts}
        for turn in range(ROUNDS + 1):
            for count in counts:
                with using(count):
                    began = time.perf_counter()
                    f()
                if turn:  # the first compiles
                    times[count].append(time.perf_counter() - began)
        found[name] = {str(count): float(np.median(values)) for count, values in times.items()}
    return found


def main() -> None:
    """Measure in a process that has the devices, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    counts = [n for n in (1, 2, 4, 8, 16) if n <= options.devices]
    if options.here:
        print(json.dumps(measured(options.rows, counts)))
        return
    environment = {
        **os.environ,
        "JAX_NUM_CPU_DEVICES": str(options.devices),
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false",
    }
    command = [sys.executable, *sys.argv, "--here"]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"{options.rows:,} rows x {SIZE}, {os.cpu_count()} cores ({platform.machine()})")
    print(f"{'':38}{'1 device':>10}" + "".join(f"{f'{n} devices':>12}" for n in counts[1:]))
    for name, times in found.items():
        ratios = "".join(f"{times['1'] / times[str(n)]:>10.2f} x" for n in counts[1:])
        print(f"{name:38}{times['1'] * 1e3:>7.0f} ms{ratios}")
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        record = {"rows": options.rows, "cores": os.cpu_count(), "seconds": found}
        (options.out / "scaling.json").write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
