"""A program that tests start with several devices, or as one of several processes. It saves what they compare.

python -m support.several CASE FILE [PROCESS PROCESSES PORT]
"""

import functools
import os
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso
from isotherm.data import stream
from isotherm.data.opening import opened
from isotherm.devices import using
from isotherm.sums import fold, spread

ROWS, SIZE = 20_011, 5  # a prime number of rows, which no number of devices or blocks divides


@functools.cache  # so that runs of one process share their programs
def posterior() -> iso.Posterior:
    def log_likelihood(theta, row):
        z = row["x"] @ theta
        return row["y"] * z - jnp.logaddexp(0.0, z)

    return iso.Posterior(log_likelihood, lambda theta: -0.5 * jnp.sum(theta**2))


def rows(count: int = ROWS) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, SIZE)).astype(np.float32)
    probability = 1 / (1 + np.exp(-x @ np.linspace(-1, 1, SIZE)))
    return {"x": x, "y": (rng.uniform(size=count) < probability).astype(np.float32)}


def start(arguments: list[str], *, log: Path | None = None, **environment: str) -> subprocess.Popen:
    """Start `python ARGUMENTS` in a process group of its own."""
    tests = Path(__file__).parent.parent
    path = os.pathsep.join([str(tests), str(tests.parent / "src"), os.environ.get("PYTHONPATH", "")])
    with open(os.devnull if log is None else log, "w") as output:
        return subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, "PYTHONPATH": path, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def start_all(case: str, folder: Path, count: int) -> list[subprocess.Popen]:
    """Start processes 0 to `count` - 1, which write I.npz and I.log to a folder."""
    port = free_port()
    arguments = [["-m", "support.several", case, str(folder / f"{i}.npz")] for i in range(count)]
    return [
        start([*known, str(i), str(count), port], log=folder / f"{i}.log")
        for i, known in enumerate(arguments)
    ]


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return str(found.getsockname()[1])


def small_blocks() -> None:
    """Split even small passes over devices, and read small sources block by block."""
    spread._FEWEST = 0
    fold._NUMBERS["cpu"] = (2**12, 2**12)
    stream._HELD, stream._BLOCK, stream._SAMPLE = 0, 2**13, 2**14


def summary(name: str, setup: iso.Setup, draws: iso.Draws | None = None) -> dict[str, np.ndarray]:
    found = {f"{name}.center": np.asarray(setup.preconditioner.center)}
    found[f"{name}.factor"] = np.asarray(setup.preconditioner.multiply(jnp.ones(SIZE)))
    if draws is not None:
        found[f"{name}.draws"] = draws.posterior
        found[f"{name}.mean"] = draws.moments.mean
    return found


def on_devices() -> dict[str, np.ndarray]:
    """One device and four, from arrays and from a source."""
    target, data, start = posterior(), rows(), jnp.zeros(SIZE)
    source = iso.data.arrays(data)
    quiet = {"progress": False, "num_draws": 100}
    found: dict[str, np.ndarray] = {"spread": np.array(passes(data))}
    for name, given in (("arrays", data), ("source", source)):
        setups = {n: iso.warmup(target, given, start, devices=n, progress=False) for n in (1, 4)}
        for n, setup in setups.items():
            found |= summary(f"{name}{n}", setup)
        for chains, devices in ((2, 1), (3, 2), (8, 4)):
            draws = iso.sample(target, given, setups[1], num_chains=chains, devices=devices, **quiet)
            found[f"{name}.{chains}on{devices}"] = draws.posterior
        draws = iso.sample(target, given, setups[4], num_chains=8, **quiet | {"num_draws": 1000})
        found[f"{name}.all"] = draws.posterior
    by_hand = {"sampler": iso.SGLD(step_size=1e-5), "batch_size": 100, "num_chains": 8, "thinning": 5}
    moving = iso.ControlVariate(order=1, refresh=100)
    for name, gradient in (("plain", iso.Minibatch()), ("full", iso.FullData()), ("moving", moving)):
        for n in (1, 4):
            run = iso.sample(target, data, start, gradient=gradient, devices=n, **by_hand, **quiet)
            found[f"{name}{n}"] = run.posterior
    samplers = [iso.SGLD(step_size=h) for h in (1e-5, 2e-5, 3e-5)]
    by_hand = {"batch_size": 100, "num_chains": 3, "num_draws": 50, "progress": False}
    for n in (1, 4):
        swept = iso.sweep(target, data, start, samplers, devices=n, **by_hand)
        found[f"sweep{n}"] = np.stack([draws.posterior for draws in swept])
    return found


def passes(data: dict[str, np.ndarray]) -> list[list[float]]:
    """Return sums over all rows, some rows and a stream, and of a value for each row, on 1, 3 and 4 devices."""
    on_device = {name: jnp.asarray(x) for name, x in data.items()}
    streamed = opened(iso.data.arrays(data)).stream()
    part = fold.Part(jax.random.key(1), 7001, 13)
    total = lambda rows, valid: jnp.sum(jnp.where(valid, rows["x"][:, 0] * rows["y"], 0))
    square = lambda rows: rows["x"][:, 1] ** 2
    found = []
    for count in (1, 3, 4):
        with using(count):
            sums = [
                fold.fold(total, x, part=p)
                for x, p in ((on_device, None), (on_device, part), (streamed, None))
            ]
            squares = fold.each_on_devices(square, data)
            found.append([*map(float, sums), float(np.sum(squares, dtype=np.float64)), float(squares[-1])])
    return found


def in_processes() -> dict[str, np.ndarray]:
    """What each process returns, from arrays and from a source; a source of one block too."""
    target, data, start = posterior(), rows(), jnp.zeros(SIZE)
    found: dict[str, np.ndarray] = {}
    for name, given in (("arrays", data), ("source", iso.data.arrays(data))):
        setup = iso.warmup(target, given, start, progress=False)
        draws = iso.sample(target, given, setup, num_chains=5, num_draws=400, progress=False)
        found |= summary(name, setup, draws)
    small = iso.data.arrays(rows(1000))  # one block: the other processes have no rows
    found |= summary("one_block", iso.warmup(target, small, start, progress=False))
    one = iso.sample(target, data, setup_of_arrays(target, data), num_chains=1, num_draws=20, progress=False)
    found["one_chain"] = one.posterior
    moving = {"gradient": iso.ControlVariate(order=1, refresh=20), "sampler": iso.SGLD(step_size=1e-5)}
    few = {"batch_size": 100, "num_chains": 4, "num_draws": 50, "progress": False}
    found["moving"] = iso.sample(target, data, start, **moving, **few).posterior
    bad = rows()
    bad["x"][ROWS - 7, 2] = np.nan  # in the last block, which the last process reads
    try:
        iso.warmup(target, iso.data.arrays(bad), start, progress=False)
    except ValueError as error:
        found["error"] = np.array(str(error))
    return found


def setup_of_arrays(target: iso.Posterior, data: dict[str, np.ndarray]) -> iso.Setup:
    """Return a setup that needs no warm-up."""
    return iso.setup(target, data, jnp.zeros(SIZE), sampler=iso.SGLD(step_size=1e-5), batch_size=100)


def long_run(draws: int = 10**7) -> dict[str, np.ndarray]:
    """A run that does not end by itself. It says when the chains begin."""
    target, data = posterior(), rows()
    setup = setup_of_arrays(target, data)
    iso.sample(target, data, setup, num_chains=4, num_draws=10, progress=False)
    print("sampling", flush=True)
    kept = iso.sample(target, data, setup, num_chains=4, num_draws=draws, progress=False)
    return {"draws": kept.posterior, "interrupted": np.array(kept.record.interrupted)}


CASES = {"on_devices": on_devices, "in_processes": in_processes, "long_run": long_run}


def main(case: str, file: str, *process: str) -> None:
    if process:
        index, count, port = map(int, process)
        address = f"localhost:{port}"
        jax.distributed.initialize(address, count, index, heartbeat_timeout_seconds=10)
    warnings.simplefilter("ignore", iso.IsothermWarning)
    small_blocks()
    began = time.perf_counter()
    found = CASES[case]()
    np.savez(file, seconds=np.array(time.perf_counter() - began), **found)
    print("end", os.getpid(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
