"""Helpers for the arguments of several commands."""

import argparse
import textwrap
from typing import Any, NoReturn

from isotherm.text import visible_lines

Subparsers = Any  # argparse has no public name for it
_WIDTH = 79


class Parser(argparse.ArgumentParser):
    """A parser whose errors show control characters of arguments as escapes."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and end the process."""
        argparse.ArgumentParser.error(self, visible_lines(message))


def add_command(
    commands: Subparsers, name: str, *, help: str, description: str, example: str
) -> argparse.ArgumentParser:
    """Add and return a parser whose help ends with `example`, printed verbatim."""
    return commands.add_parser(
        name,
        help=help,
        description=textwrap.fill(description, _WIDTH),
        epilog=example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def seed(text: str) -> int:
    """Return the seed that `text` gives, an integer of at least 0."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 0; got {number}")
    return number


def widths(text: str) -> tuple[int, ...]:
    """Return the layer widths that `text` gives, such as "784-400-10"; two or more."""
    layers = tuple(int(width) for width in text.split("-"))
    if len(layers) < 2 or min(layers) < 1:
        raise argparse.ArgumentTypeError(f"must be two or more widths, such as 784-400-10; got {text!r}")
    return layers


def probability(text: str) -> float:
    """Return the number that `text` gives, between 0 and 1, both excluded."""
    number = float(text)
    if not 0 < number < 1:
        raise argparse.ArgumentTypeError(f"must be a number between 0 and 1; got {text}")
    return number


def costs(text: str) -> dict[str, float]:
    """Return costs by class from text such as "yes=10,no=1"."""
    found = {}
    for part in text.split(","):
        name, equals, value = part.rpartition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise argparse.ArgumentTypeError(f"must be costs by class, such as yes=10,no=1; got {text}")
    return found


def add_csv(parser: argparse.ArgumentParser, otherwise: str) -> None:
    """Add options that say how a CSV file is read. Without them it is as `otherwise` says."""
    for name, metavar in (("separator", "CHARACTER"), ("decimal", "MARK"), ("encoding", "NAME")):
        parser.add_argument(f"--{name}", metavar=metavar, help=f"{name} of a CSV file (default: {otherwise})")


def csv_options(options: argparse.Namespace) -> dict[str, str]:
    """Return those of `add_csv` that were given."""
    given = {name: getattr(options, name) for name in ("separator", "decimal", "encoding")}
    return {name: value for name, value in given.items() if value is not None}
