"""`isotherm report`: write the page of a run again."""

import argparse
from pathlib import Path

from isotherm.cli.arguments import Subparsers, add_command
from isotherm.cli.messages import complain, say
from isotherm.progress import Progress


def add_report(commands: Subparsers) -> None:
    """Add `isotherm report FOLDER`, which writes the page of a run again."""
    parser = add_command(
        commands,
        "report",
        help="write the report of a run again",
        description="Write report.html and the figures of a run again, from draws.iso and diagnosis.json in its "
        "folder. The data are not needed. Exit status: 0 if the report is written, 2 if it could not be.",
        example=_EXAMPLE,
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder that `isotherm sample` wrote")
    parser.set_defaults(run=report)


def report(options: argparse.Namespace) -> int:
    """Write the report and print its path; return the exit code."""
    try:
        with Progress("writing figures and the report"):
            from isotherm.cli.folder import read_run, write_report

            path = write_report(options.folder, *read_run(options.folder))
        say(f"report   {path}")
    except (ValueError, KeyError) as error:
        complain(str(error))
        return 2
    return 0


_EXAMPLE = """\
example:
  isotherm sample spec.toml --out run
  isotherm report run        # after pip install 'isotherm[plots]'
"""
