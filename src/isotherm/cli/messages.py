"""What commands with the option `--json` print: text for people, or a single JSON object."""

import argparse
import json
import sys
from collections.abc import Callable


def fail(options: argparse.Namespace, message: str, *, code: int = 2) -> int:
    """Report why the command failed, and return the exit code."""
    print(f"isotherm: {message}", file=sys.stderr)
    if options.json:
        print(json.dumps({"exit_code": code, "ok": False, "error": message}))
    return code


def printer(options: argparse.Namespace) -> Callable[[str], None]:
    """Return a function that prints a line at once; under `--json`, one that prints nothing."""
    return _print_nothing if options.json else _print_line


def _print_line(text: str) -> None:
    print(text, flush=True)


def _print_nothing(text: str) -> None:
    del text
