"""The cost of an effective draw as the number of rows grows: logistic regression with 100 features, untuned.

    python benchmarks/tall/growth.py --sizes 100000,1000000,10000000

For each number of rows: one warm-up, then several calls of `iso.sample` with it, of which only the first compiles.
The table has, per effective draw of the parameter with the fewest, the rows of gradient and the microseconds after
the warm-up, both of the chains alone and of the whole call, which checks all rows once for NaN. The warm-up makes
about ten passes over all rows; its time grows with them and is listed separately. Ten million rows take 4 GB of
memory, and twice that while they are generated.
"""

import argparse
import json
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from problems import synthetic
from quality import effective, flat, timed
from table import markdown, short, show

import isotherm as iso


def measure(num_data: int, chains: int, draws: int, repeats: int) -> dict[str, float]:
    """Return the cost for one number of rows."""
    posterior, data, init = synthetic(num_data)
    data = jax.tree.map(jnp.asarray, data)
    seconds_warmup, tuned = timed(lambda: iso.warmup(posterior, data, init))
    run = lambda: iso.sample(posterior, data, tuned, num_draws=draws, num_chains=chains, progress=False)
    calls = [timed(run) for _ in range(1 + repeats)]
    drawn = calls[0][1]
    again = [seconds for seconds, _ in calls[1:]]
    loops = [draws.record.seconds for _, draws in calls[1:]]
    least = float(effective(flat(drawn.flat())).min())
    rows = drawn.record.steps * drawn.record.batch_size * chains
    return {
        "rows": num_data,
        "batch_size": drawn.record.batch_size,
        "ess_min": least,
        "rows_per_draw": rows / least,
        "chains_us_per_draw": 1e6 * float(np.median(loops)) / least,
        "call_us_per_draw": 1e6 * float(np.median(again)) / least,
        "seconds_chains": float(np.median(loops)),
        "seconds_call": float(np.median(again)),
        "seconds_call_first": calls[0][0],
        "seconds_warmup_first": seconds_warmup,
        "seconds_warmup": timed(lambda: iso.warmup(posterior, data, init))[0],
        "passes_warmup": tuned.passes,
    }


COLUMNS = {
    "rows": "N",
    "batch_size": "n",
    "ess_min": "smallest ESS",
    "rows_per_draw": "rows per effective draw",
    "chains_us_per_draw": "µs per effective draw, chains",
    "call_us_per_draw": "whole call",
    "seconds_warmup": "warm-up, s",
    "passes_warmup": "warm-up, passes",
    "seconds_warmup_first": "warm-up with compilation, s",
}


def main() -> None:
    """Print and write a line per number of rows, and the growth from the first to the last."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="100000,1000000,10000000", help="numbers of rows")
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("out/tall"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    records = []
    for size in options.sizes.split(","):
        records.append(measure(int(size), options.chains, options.draws, options.repeats))
        print(json.dumps(records[-1]), flush=True)
    costs = ("rows_per_draw", "chains_us_per_draw", "call_us_per_draw", "seconds_warmup")
    growth = {k: records[-1][k] / records[0][k] for k in costs}
    table = [[short(row[k]) for k in COLUMNS] for row in records]
    table.append(["growth", *(short(growth[k]) if k in growth else "" for k in list(COLUMNS)[1:])])
    machine = f"{jax.devices()[0].device_kind}, {len(os.sched_getaffinity(0))} cores, JAX {jax.__version__}"
    head = list(COLUMNS.values())
    (options.out / "growth.json").write_text(
        json.dumps({"sizes": records, "growth": growth}, indent=1) + "\n"
    )
    (options.out / "growth.md").write_text(f"{markdown(head, table)}\n\n{machine}.\n")
    show(head, table)
    print(f"{machine}.")


if __name__ == "__main__":
    main()
