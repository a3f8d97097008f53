"""A thousand chains on a GPU: the kernel that fuses the gather of rows with both products, against the plain form.

    python benchmarks/many_chains.py --out many_chains.json

Logistic regression in float32 on synthetic rows. Both forms start from the same state, and their programs take turns.
`difference` is the largest difference between their positions after the first 16 steps, in units of the largest
distance that a coordinate has moved. `GB/s` counts the least that a step must move: the rows of the batches once, and
the state in and out. On a machine without an NVIDIA GPU both forms are the same program.
"""

import argparse
import dataclasses
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from isotherm import Minibatch
from isotherm.studies.bench.chains import bytes_of_step
from isotherm.studies.bench.methods import BASE, Method
from isotherm.studies.bench.problems import logistic
from isotherm.studies.bench.programs import Chains, kernel_of, num_bytes
from isotherm.studies.bench.turns import Program, take_turns
from isotherm.versions import versions

METHODS = {
    m.name: m
    for m in (BASE, Method("CCAdL", "Diagonal"), Method("CCAdL", "Dense"), Method("SGHMC", "Diagonal"))
}
STEPS = 16  # per call


def measure(method, problem, options):
    """Return one result per form of the step, plain and fused."""
    running, after = {}, {}
    for form in ("plain", "fused"):
        gradient = Minibatch(problem.posterior, fused=form == "fused")
        kernel = dataclasses.replace(kernel_of(method, problem), gradient=gradient)
        running[form] = Chains(kernel, problem, steps=STEPS, chains=options.chains)
        after[form] = np.asarray(running[form]().position)
    moved = np.abs(after["plain"] - np.asarray(problem.start)).max()
    difference = np.abs(after["fused"] - after["plain"]).max() / moved
    programs = [Program(form, STEPS, chains) for form, chains in running.items()]
    times = take_turns(programs, rounds=options.rounds, seconds=options.seconds)
    for form, chains in running.items():
        second = float(np.median(times[form]))
        yield {
            "method": method.name,
            "form": form,
            "finite": chains.finite(),
            "microseconds_per_step": 1e6 * second,
            "chain_steps_per_second": options.chains / second,
            "gigabytes_per_second": bytes_of_step(problem, options.chains, num_bytes(chains.state))
            / second
            / 1e9,
            "difference": float(difference),
            "seconds_per_step": times[form],
        }


def main():
    """Measure the methods in order, print a line for each form and write all results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chains", type=int, default=1024)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument(
        "--methods", default="SGNHT, euler;CCAdL Dense, euler", help="separated by semicolons"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each form in a round")
    parser.add_argument("--out", type=Path, help="write the results here as JSON")
    options = parser.parse_args()
    device = jax.devices()[0]
    print(f"{device.device_kind}, {options.chains} chains, N = {options.rows:.0e}, d = {options.columns}, "
          f"n = {options.batch}", flush=True)  # fmt: skip
    print(
        f"{'':22}{'form':8}{'us/step':>9}{'million chain-steps/s':>23}{'GB/s':>7}{'difference':>12}",
        flush=True,
    )
    problem = logistic(int(options.rows), options.columns, options.batch)
    jax.block_until_ready(jax.tree.map(jnp.asarray, problem.data))
    results = []
    for name in options.methods.split(";"):
        for row in measure(METHODS[name], problem, options):
            results.append(row)
            print(
                f"{row['method']:22}{row['form']:8}{row['microseconds_per_step']:9.1f}"
                f"{row['chain_steps_per_second'] / 1e6:23.2f}{row['gigabytes_per_second']:7.0f}"
                f"{row['difference']:12.1e}{'' if row['finite'] else '  not finite'}",
                flush=True,
            )
    if options.out is not None:
        sizes = {name: getattr(options, name) for name in ("chains", "rows", "columns", "batch")}
        record = {"device": device.device_kind, "versions": versions(), "sizes": sizes, "results": results}
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
