"""`isotherm report`: the page of a run, anew."""

import argparse
import sys
from pathlib import Path

from isotherm.cli.arguments import Subparsers, add_command


def add_report(commands: Subparsers) -> None:
    """`isotherm report FOLDER`: the page of a run, anew."""
    parser = add_command(
        commands,
        "report",
        help="write the report of a run anew",
        description="Write report.html and figures of a folder that `isotherm sample` wrote, from draws.iso and "
        "diagnosis.json in it. The data are not needed. Exit status 0: it is written; 2: it could not be.",
        example=_EXAMPLE,
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="as given to `isotherm sample --out`")
    parser.set_defaults(run=report)


def report(options: argparse.Namespace) -> int:
    """Read, draw, say where it is."""
    from isotherm.cli.folder import read_run, write_report

    try:
        print(f"report   {write_report(options.folder, *read_run(options.folder))}")
    except (ValueError, KeyError) as error:
        print(f"isotherm: {error}", file=sys.stderr)
        return 2
    return 0


_EXAMPLE = """\
example:
  isotherm sample spec.toml --out run
  isotherm report run              # after an update, or after pip install 'isotherm[plots]'
"""
