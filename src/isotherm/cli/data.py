"""`isotherm data`: list the data sets that can be loaded by name, or convert a CSV file."""

import argparse
import sys
from pathlib import Path

from isotherm.cli.arguments import Subparsers, add_command, add_csv, csv_options, seed
from isotherm.cli.messages import complain, say


def add_data(commands: Subparsers) -> None:
    """Add `isotherm data`, which lists data sets, and `isotherm data convert`."""
    parser = add_command(
        commands,
        "data",
        help="list the data sets that `isotherm.data.load` knows, or convert a CSV file to Parquet",
        description="List the data sets that `isotherm.data.load` knows, with their rows, features, classes and "
        "licence, and where their files are. Nothing is downloaded.",
        example=_EXAMPLE,
    )
    parser.set_defaults(run=data)
    _add_convert(parser.add_subparsers(title="commands", metavar="COMMAND"))


def _add_convert(commands: Subparsers) -> None:
    parser = add_command(
        commands,
        "convert",
        help="convert a CSV file, which may be larger than memory, to Parquet",
        description="Write the rows of a CSV or TSV file, which may be compressed and larger than memory, to a "
        "Parquet file, for `isotherm.data.parquet`. Rows that are sorted should be shuffled.",
        example=_CONVERT_EXAMPLE,
    )
    parser.add_argument(
        "source", type=Path, metavar="IN.csv", help="file to read; its first line has the names"
    )
    parser.add_argument("target", type=Path, metavar="OUT.parquet", help="file to write")
    parser.add_argument("--shuffle", type=seed, metavar="SEED", help="write the rows in a random order")
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    add_csv(parser, "a comma, or a tab in .tsv files; a point; utf-8")
    parser.set_defaults(run=convert)


def data(options: argparse.Namespace) -> int:
    """Print the list and return the exit code."""
    del options
    from isotherm.data.sets.listing import show
    from isotherm.terminal import new_console

    show(new_console(width=None if sys.stdout.isatty() else 160))
    return 0


def convert(options: argparse.Namespace) -> int:
    """Convert the file, print the number of rows, and return the exit code."""
    from isotherm.tables.convert import convert as run
    from isotherm.tables.csv_file import CsvFormat

    if options.target.suffix != ".parquet":
        return _fail(f"the file to write must end in .parquet; got {options.target}")
    if options.target.exists() and not options.force:
        return _fail(f"{options.target} already exists; use --force to replace it")
    try:
        form = CsvFormat(**csv_options(options))
        rows = run(options.source, options.target, shuffle=options.shuffle, form=form)
    except ValueError as error:
        return _fail(str(error))
    say(f"{rows:,} rows  {options.target}")
    return 0


def _fail(message: str) -> int:
    complain(message)
    return 2


_EXAMPLE = """\
example:
  isotherm data
  isotherm data convert rows.csv rows.parquet --shuffle 0
  python -c "import isotherm.data; print(isotherm.data.load('a9a'))"
"""

_CONVERT_EXAMPLE = """\
example:
  isotherm data convert rows.csv.gz rows.parquet --shuffle 0
"""
