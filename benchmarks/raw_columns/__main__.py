"""Is `iso.sample(posterior, data, init)` right on raw, uncentred, ill-scaled columns in JAX's default precision?

    python benchmarks/raw_columns --designs 200 --out out/raw_columns.json
    python benchmarks/raw_columns --cases --out out/raw_cases.json
    python benchmarks/raw_columns --cases --only "lat" --seeds 1 --draws 1000
    python benchmarks/raw_columns --cases --seeds 1 --draws 1000 --spoiled

Nothing is tuned, parameters start as float32 zeros, and `jax_enable_x64` is off. Data are float32 for even seeds and
float64 for odd ones. The exact answer is that of the data as passed, computed in `exact.py` in extended precision.
A run is right if every sd is within 3 % of the exact one and every mean within 0.05 posterior sd, up to four
Monte Carlo standard errors. `--designs` generates designs from seeds. `--cases` runs named columns, such as a year or
a time stamp, long enough for 20,000 effective draws. The exit status is 1 if a run is wrong while the verdict of
`draws.summary()` says "No fault found".
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import jax
from designs import CASES, Design, case, generated
from judge import SILENT, counts, head, line, run


def designs(options: argparse.Namespace) -> Iterator[Design]:
    """Yield the designs or the named cases whose name contains `--only`."""
    first = options.first_seed
    if not options.cases:
        for seed in range(first, first + options.designs):
            design = generated(seed)
            if options.only in design.name:
                yield design
        return
    for name, likelihood in CASES:
        if options.only in f"{name}, {likelihood}":
            yield from (case(name, likelihood, seed) for seed in range(first, first + options.seeds))


def main() -> None:
    """Print a line per run and the number of runs with each outcome, and write the records."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--designs", type=int, default=200, help="how many designs are generated")
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--cases", action="store_true", help="run the named cases instead")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each named case")
    parser.add_argument("--only", default="", help="only designs whose name contains this")
    parser.add_argument("--draws", type=int, help="per chain, of four; 1000, and 6000 for the named cases")
    parser.add_argument(
        "--spoiled", action="store_true", help="use a Hessian in float32, which the verdict must notice"
    )
    parser.add_argument("--out", type=Path, help="file for the records, as JSON")
    options = parser.parse_args()
    if jax.config.jax_enable_x64:
        parser.error("`JAX_ENABLE_X64` must be off: the benchmark is about JAX's default precision.")
    draws = options.draws or (6000 if options.cases else 1000)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
    records, compiled_for = [], None
    print(head(), flush=True)
    for design in designs(options):
        if (kind := (design.x.shape, design.likelihood, design.name)) != compiled_for:
            jax.clear_caches()  # programs are shared by the seeds of a case only
            compiled_for = kind
        records.append(run(design, draws, spoiled=options.spoiled))
        print(line(records[-1]), flush=True)
        if options.out is not None:
            options.out.write_text(json.dumps(records, indent=1) + "\n")
    print(counts(records))
    raise SystemExit(int(any(record["outcome"] == SILENT for record in records)))


if __name__ == "__main__":
    main()
