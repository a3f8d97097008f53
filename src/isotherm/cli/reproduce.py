"""`isotherm reproduce`: run an experiment of the CCAdL paper."""

import argparse
import sys
from pathlib import Path

from isotherm.cli.arguments import Subparsers, add_command, seed
from isotherm.cli.messages import complain, say
from isotherm.studies.experiments import EXPERIMENTS, find


def add_reproduce(commands: Subparsers) -> None:
    """Add `isotherm reproduce EXPERIMENT`, which runs an experiment of the CCAdL paper."""
    parser = add_command(
        commands,
        "reproduce",
        help="run an experiment of the CCAdL paper",
        description="Run an experiment of the CCAdL paper and write results.json, figures and report.html.",
        example=_EXAMPLE,
    )
    parser.add_argument(
        "experiment",
        choices=sorted(EXPERIMENTS),
        metavar="EXPERIMENT",
        help="gaussian (a normal sample), logistic (regression on MNIST) or drbm (restricted Boltzmann machines)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer data sets and shorter chains: about a minute"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder to write to (default: out/EXPERIMENT)"
    )
    parser.add_argument(
        "--cross-validate",
        action="store_true",
        help="drbm only: choose the number of hidden units again, by cross-validation",
    )
    parser.add_argument("--seed", type=seed, default=0, help="seed of the data and the chains (default: 0)")
    parser.set_defaults(run=reproduce)


def reproduce(options: argparse.Namespace) -> int:
    """Run the experiment, print its table and the paths of its files; return the exit code."""
    from isotherm.terminal import new_console

    out = Path("out", options.experiment) if options.out is None else options.out
    if options.cross_validate and options.experiment != "drbm":
        complain("--cross-validate is for drbm; no other experiment has hidden units")
        return 2
    experiment = find(options.experiment)
    console = new_console(width=None if sys.stdout.isatty() else 140)
    more = {"cross_validate": True} if options.cross_validate else {}
    # If the folder cannot be written, fail before the work rather than after it.
    out.mkdir(parents=True, exist_ok=True)
    try:
        results = experiment.reproduce(out, quick=options.quick, seed=options.seed, console=console, **more)
    except KeyboardInterrupt:
        if not (out / "parts").is_dir():
            raise
        complain("interrupted; run the same command to continue from the finished parts")
        return 130
    experiment.show(results, console)
    _print_paths(out)
    return 0


def _print_paths(out: Path) -> None:
    figures = sorted((out / "figures").glob("*.png"))
    for kind, path in (
        ("results", out / "results.json"),
        *(("figure", f) for f in figures),
        ("report", out / "report.html"),
    ):
        say(f"{kind:8} {path}")


_EXAMPLE = """\
example:
  isotherm reproduce gaussian --quick --out out/gaussian
  # then open out/gaussian/report.html in a browser
"""
