"""`isotherm bench`: what a step costs."""

import argparse
import dataclasses
import sys
from pathlib import Path

from isotherm.cli.arguments import Subparsers, add_command, widths


def add_bench(commands: Subparsers) -> None:
    """`isotherm bench`: what a step costs."""
    parser = add_command(
        commands,
        "bench",
        help="measure what a step costs, and what it buys",
        description="Time whole steps of the samplers against each other and against other libraries, as ratios "
        "within one run, beside how right their answers are; print a table a part, write bench.json and a figure.",
        example=_EXAMPLE,
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="fewer rounds, without the slowest rows: about a minute and a half",
    )
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="only rows whose name, PART: ROW, contains TEXT"
    )
    parser.add_argument(
        "--layers", metavar="WIDTHS", type=widths, help="of the network (default: 784-400-400-10)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: out/bench)")
    parser.add_argument("--json", action="store_true", help="print bench.json instead of the tables")
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)  # only shows that it runs
    parser.set_defaults(run=bench)


def bench(options: argparse.Namespace) -> int:
    """Measure, print, say where the rest is."""
    import json

    from rich.console import Console

    from isotherm.studies.bench import sizes
    from isotherm.studies.bench.bench import bench as run
    from isotherm.studies.bench.bench import plan

    chosen = sizes.TINY if options.tiny else sizes.QUICK if options.quick else sizes.FULL
    if options.layers is not None:
        chosen = dataclasses.replace(chosen, layers=options.layers)
    if not plan(chosen, options.only):
        print(f"isotherm: no row has {options.only!r} in its name", file=sys.stderr)
        return 2
    # A few rows on their own do not overwrite the whole table.
    out = Path("out", "bench-rows" if options.only else "bench") if options.out is None else options.out
    out.mkdir(parents=True, exist_ok=True)
    width = None if sys.stdout.isatty() else 160
    console = Console(stderr=options.json, width=width)
    results = run(out, chosen, console=console, only=options.only, quiet=options.json)
    print(json.dumps(results, indent=1) if options.json else f"results  {out / 'bench.json'}")
    return 0


_EXAMPLE = """\
examples:
  isotherm bench --quick
  isotherm bench --json > bench.json
"""
