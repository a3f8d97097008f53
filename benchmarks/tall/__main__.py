"""Tall data without tuning: `iso.sample(posterior, data, init)` beside NumPyro's NUTS and HMCECS and Laplace.

    python benchmarks/tall --only a9a,rare
    python benchmarks/tall --only mnist --methods iso,nuts,hmcecs

Errors are relative to the moments in `benchmarks/references`, made by `reference.py`: Hamiltonian Monte Carlo in
double precision with 256 chains. NumPyro's NUTS has a dense mass matrix, as many chains, and the same rows. Since it
takes up to an hour, `nuts-counted` takes the number of leapfrog steps from a stored run (`nuts.py`) and times a
gradient of all rows on this machine. Overhead and compilation are left out, which favours NUTS. `hmcecs-counted`
does the same for HMCECS (`hmcecs.py`). `nuts` and `hmcecs` run both in full and need the extra `bench`.
"""

import argparse
import json
import os
from pathlib import Path

import counted as counted_runs
import jax
import methods
from problems import PROBLEMS
from table import HEAD, LEGEND, lines, markdown, show


def main() -> None:
    """Print a record per problem and method, and write them and their table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(PROBLEMS), help="problems, separated by commas")
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument(
        "--methods", default="iso,laplace,nuts-counted,hmcecs-counted", help="separated by commas"
    )
    parser.add_argument("--nuts-draws", type=int, default=500)
    parser.add_argument("--nuts-warmup", type=int, default=500)
    parser.add_argument("--out", type=Path, default=Path("out/tall"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    runners = {
        "iso": lambda name: methods.ours(name, options.chains, options.draws),
        "laplace": methods.laplace,
        "nuts": lambda name: methods.nuts(name, options.chains, options.nuts_warmup, options.nuts_draws),
        "nuts-counted": counted_runs.nuts,
        "hmcecs": lambda name: methods.hmcecs(name, options.chains),
        "hmcecs-counted": counted_runs.hmcecs,
    }
    rows = []
    for name in options.only.split(","):
        for method in options.methods.split(","):
            row = runners[method](name)
            if row is None:
                print(f"{name}: no stored run for {method}", flush=True)
                continue
            brief = {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}
            print(json.dumps(brief), flush=True)
            rows.append(row)
            (options.out / "tall.json").write_text(json.dumps(rows, indent=1) + "\n")
    table = lines(rows)
    machine = f"{jax.devices()[0].device_kind}, {len(os.sched_getaffinity(0))} cores, JAX {jax.__version__}"
    (options.out / "tall.md").write_text(f"{markdown(HEAD, table)}\n\n{LEGEND}\n\n{machine}.\n")
    show(HEAD, table)
    print(f"{LEGEND}\n{machine}.")


if __name__ == "__main__":
    main()
