"""`isotherm bench`: measure the cost of a step."""

import argparse
import dataclasses
import sys
from pathlib import Path

from isotherm.cli.arguments import Subparsers, add_command, widths
from isotherm.cli.messages import complain, say


def add_bench(commands: Subparsers) -> None:
    """Add `isotherm bench`, which measures the cost of a step."""
    parser = add_command(
        commands,
        "bench",
        help="measure the cost of a step and the accuracy it buys",
        description="Time the steps of the samplers against each other and against other libraries, as ratios within "
        "one run, and measure the accuracy of their answers. Print one table per part, and write bench.json and a "
        "figure.",
        example=_EXAMPLE,
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="fewer rounds, and none of the slowest rows: about a minute and a half",
    )
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="run only rows whose name, PART: ROW, contains TEXT"
    )
    parser.add_argument(
        "--layers",
        metavar="WIDTHS",
        type=widths,
        help="widths of the network's layers (default: 784-400-400-10)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder to write to (default: out/bench, or out/bench-rows with --only)",
    )
    parser.add_argument("--json", action="store_true", help="print bench.json instead of the tables")
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)  # for tests
    parser.set_defaults(run=bench)


def bench(options: argparse.Namespace) -> int:
    """Run the benchmark, print its tables and the path of the results; return the exit code."""
    import json

    from isotherm.studies.bench import sizes
    from isotherm.studies.bench.bench import bench as run
    from isotherm.studies.bench.bench import plan
    from isotherm.terminal import new_console

    chosen = sizes.TINY if options.tiny else sizes.QUICK if options.quick else sizes.FULL
    if options.layers is not None:
        chosen = dataclasses.replace(chosen, layers=options.layers)
    if not plan(chosen, options.only):
        complain(f"no row has {options.only!r} in its name")
        return 2
    # A partial table must not overwrite the full one.
    out = Path("out", "bench-rows" if options.only else "bench") if options.out is None else options.out
    out.mkdir(parents=True, exist_ok=True)
    width = None if sys.stdout.isatty() else 160
    console = new_console(stderr=options.json, width=width)
    results = run(out, chosen, console=console, only=options.only, quiet=options.json)
    say(json.dumps(results, indent=1) if options.json else f"results  {out / 'bench.json'}")
    return 0


_EXAMPLE = """\
examples:
  isotherm bench --quick
  isotherm bench --json > bench.json
"""
