"""The command line. A command is a function that adds its parser and sets `run` to what it does."""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from isotherm.experiments import EXPERIMENTS, find

Subparsers = Any  # argparse has no public name for it


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `isotherm ARGUMENTS`; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="isotherm", description="Bayesian sampling with noisy gradients, at the right temperature."
    )
    parser.add_argument("--version", action="version", version=f"isotherm {metadata.version('isotherm')}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for add in COMMANDS:
        add(commands)
    options = parser.parse_args(arguments)
    try:
        return options.run(options)
    except KeyboardInterrupt:
        print("isotherm: stopped; nothing was written", file=sys.stderr)
        return 130
    except (ImportError, OSError) as error:
        print(f"isotherm: {error}", file=sys.stderr)
        return 2


def add_reproduce(commands: Subparsers) -> None:
    """`isotherm reproduce NAME`: an experiment of the paper."""
    parser = commands.add_parser(
        "reproduce",
        help="run an experiment of the CCAdL paper",
        description="Run an experiment of the CCAdL paper and write results.json, figures and report.html.",
    )
    parser.add_argument("experiment", choices=sorted(EXPERIMENTS))
    parser.add_argument(
        "--quick", action="store_true", help="fewer data sets and shorter chains, about a minute"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: out/EXPERIMENT)")
    parser.add_argument(
        "--cross-validate", action="store_true", help="drbm: repeat the choice of the number of hidden units"
    )
    parser.add_argument("--seed", type=_seed, default=0, help="of the data and of the chains (default: 0)")
    parser.set_defaults(run=reproduce)


def add_validate(commands: Subparsers) -> None:
    """`isotherm validate`: evidence that the samplers are right."""
    parser = commands.add_parser(
        "validate",
        help="measure every sampler on posteriors that are known exactly",
        description="Measure every sampler on posteriors that are known exactly, calibrate `iso.sample` by "
        "simulation, and write results.json, figures and report.html. Exit status 0: every row is right or fails by "
        "as much as theory says it must; 1: some row does not; 2: it could not be run. With --peers it is always 0.",
    )
    parser.add_argument(
        "--quick", action="store_true", help="a fifth of the rows, shorter: about two minutes"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: out/validation)")
    parser.add_argument("--seed", type=_seed, default=0, help="of the chains (default: 0)")
    parser.add_argument(
        "--only", metavar="TEXT", help="only rows of the table whose name contains TEXT, and no calibration"
    )
    parser.add_argument(
        "--peers",
        action="store_true",
        help="measure SGHMC and SGNHT of BlackJAX and of posteriors instead (extra `bench`)",
    )
    parser.add_argument("--list", action="store_true", help="print the names of the rows and stop")
    parser.set_defaults(run=validate)


def validate(options: argparse.Namespace) -> int:
    """Run the table and the calibration; the exit code says whether all is as it should be."""
    from rich.console import Console

    from isotherm.validation import peers_table, table

    rows = [case.name for case in table.cases(quick=options.quick)]
    if options.peers:
        rows = [f"{method}, {setting.name}" for method, setting in peers_table.names()]
    only = options.only or ""
    rows = [name for name in rows if only in name]
    if not rows:
        print(f"isotherm: no row has {only!r} in its name; see --list", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(rows))
        return 0
    # A few rows on their own do not overwrite the whole table.
    out = Path("out", "validation-rows" if only else "validation") if options.out is None else options.out
    out.mkdir(parents=True, exist_ok=True)
    console = Console() if sys.stdout.isatty() else Console(width=140)
    common = {"quick": options.quick, "seed": options.seed, "console": console, "only": only}
    if options.peers:
        from isotherm.validation.peers_page import compare

        compare(out, **common)
        print(f"report   {out / 'peers.html'}")
        return 0  # how others fare is no fault of this installation
    from isotherm.validation.validate import validate as run

    good = run(out, **common, calibrate=not only)
    print(f"results  {out / 'results.json'}\nreport   {out / 'report.html'}")
    return 0 if good else 1


def add_bench(commands: Subparsers) -> None:
    """`isotherm bench`: what a step costs."""
    parser = commands.add_parser(
        "bench",
        help="measure what a step costs, and what it buys",
        description="Time whole steps of the samplers against each other and against other libraries, as ratios "
        "within one run, beside how right their answers are; print a table a part, write bench.json and a figure.",
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
        "--layers", metavar="WIDTHS", type=_widths, help="of the network (default: 784-400-400-10)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: out/bench)")
    parser.add_argument("--json", action="store_true", help="print bench.json instead of the tables")
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)  # only shows that it runs
    parser.set_defaults(run=bench)


def bench(options: argparse.Namespace) -> int:
    """Measure, print, say where the rest is."""
    import json

    from rich.console import Console

    from isotherm.bench import sizes
    from isotherm.bench.bench import bench as run
    from isotherm.bench.bench import plan

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


def _seed(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"must be an integer not below 0; got {number}")
    return number


def _widths(text: str) -> tuple[int, ...]:
    widths = tuple(int(width) for width in text.split("-"))
    if len(widths) < 2 or min(widths) < 1:
        raise argparse.ArgumentTypeError(f"must be two or more widths, such as 784-400-10; got {text!r}")
    return widths


def reproduce(options: argparse.Namespace) -> int:
    """Run, print the table, say where the rest is."""
    from rich.console import Console

    out = Path("out", options.experiment) if options.out is None else options.out
    if options.cross_validate and options.experiment != "drbm":
        print("isotherm: --cross-validate is for drbm; no other experiment has hidden units", file=sys.stderr)
        return 2
    experiment = find(options.experiment)
    console = Console() if sys.stdout.isatty() else Console(width=140)
    more = {"cross_validate": True} if options.cross_validate else {}
    # Fail before the work rather than after it where the folder cannot be written.
    out.mkdir(parents=True, exist_ok=True)
    try:
        results = experiment.reproduce(out, quick=options.quick, seed=options.seed, console=console, **more)
    except KeyboardInterrupt:
        if not (out / "parts").is_dir():
            raise
        print("isotherm: stopped; the same command goes on from the parts that are done", file=sys.stderr)
        return 130
    experiment.show(results, console)
    _say_where(out)
    return 0


def _say_where(out: Path) -> None:
    figures = sorted((out / "figures").glob("*.png"))
    for what, path in (
        ("results", out / "results.json"),
        *(("figure", f) for f in figures),
        ("report", out / "report.html"),
    ):
        print(f"{what:8} {path}")


def add_data(commands: Subparsers) -> None:
    """`isotherm data`: the data sets that can be loaded by name."""
    parser = commands.add_parser(
        "data",
        help="list the data sets that `isotherm.data.load` knows, and where they are",
        description="List the data sets that `isotherm.data.load` knows: rows, features, classes, licence, and where "
        "their files are. Nothing is downloaded.",
    )
    parser.set_defaults(run=data)


def data(options: argparse.Namespace) -> int:
    """Print the list."""
    del options
    from rich.console import Console

    from isotherm.data.listing import show

    show(Console() if sys.stdout.isatty() else Console(width=160))
    return 0


COMMANDS: tuple[Callable[[Subparsers], None], ...] = (add_reproduce, add_validate, add_bench, add_data)


if __name__ == "__main__":
    sys.exit(main())
