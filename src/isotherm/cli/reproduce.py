"""`isotherm reproduce`: an experiment of the paper."""

import argparse
import sys
from pathlib import Path

from isotherm.cli.arguments import Subparsers, add_command, seed
from isotherm.studies.experiments import EXPERIMENTS, find


def add_reproduce(commands: Subparsers) -> None:
    """`isotherm reproduce NAME`: an experiment of the paper."""
    parser = add_command(
        commands,
        "reproduce",
        help="run an experiment of the CCAdL paper",
        description="Run an experiment of the CCAdL paper and write results.json, figures and report.html.",
        example=_EXAMPLE,
    )
    parser.add_argument("experiment", choices=sorted(EXPERIMENTS))
    parser.add_argument(
        "--quick", action="store_true", help="fewer data sets and shorter chains, about a minute"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: out/EXPERIMENT)")
    parser.add_argument(
        "--cross-validate", action="store_true", help="drbm: repeat the choice of the number of hidden units"
    )
    parser.add_argument("--seed", type=seed, default=0, help="of the data and of the chains (default: 0)")
    parser.set_defaults(run=reproduce)


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


_EXAMPLE = """\
example:
  isotherm reproduce gaussian --quick --out out/gaussian
  # then open out/gaussian/report.html in a browser
"""
