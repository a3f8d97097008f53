"""`isotherm data`: list the data sets that can be loaded by name."""

import argparse
import sys

from isotherm.cli.arguments import Subparsers, add_command


def add_data(commands: Subparsers) -> None:
    """Add `isotherm data`, which lists the data sets that can be loaded by name."""
    parser = add_command(
        commands,
        "data",
        help="list the data sets that `isotherm.data.load` knows, and where their files are",
        description="List the data sets that `isotherm.data.load` knows, with their rows, features, classes and "
        "licence, and where their files are. Nothing is downloaded.",
        example=_EXAMPLE,
    )
    parser.set_defaults(run=data)


def data(options: argparse.Namespace) -> int:
    """Print the list and return the exit code."""
    del options
    from rich.console import Console

    from isotherm.data.sets.listing import show

    show(Console() if sys.stdout.isatty() else Console(width=160))
    return 0


_EXAMPLE = """\
example:
  isotherm data
  python -c "import isotherm.data; print(isotherm.data.load('a9a').train['x'].shape)"
"""
