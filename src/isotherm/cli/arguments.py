"""What the arguments of several commands are made of."""

import argparse
import textwrap
from typing import Any

Subparsers = Any  # argparse has no public name for it


def add_command(
    commands: Subparsers, name: str, *, help: str, description: str, example: str
) -> argparse.ArgumentParser:
    """A parser whose help ends with `example`, line by line as it is written."""
    return commands.add_parser(
        name,
        help=help,
        description=textwrap.fill(description, 100),
        epilog=example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def seed(text: str) -> int:
    """A seed, not below 0."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"must be an integer not below 0; got {number}")
    return number


def widths(text: str) -> tuple[int, ...]:
    """Widths of layers, two or more."""
    found = tuple(int(width) for width in text.split("-"))
    if len(found) < 2 or min(found) < 1:
        raise argparse.ArgumentTypeError(f"must be two or more widths, such as 784-400-10; got {text!r}")
    return found


def probability(text: str) -> float:
    """A number between 0 and 1, both excluded."""
    number = float(text)
    if not 0 < number < 1:
        raise argparse.ArgumentTypeError(f"must be a number between 0 and 1; got {text}")
    return number
