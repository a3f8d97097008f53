"""What commands with the option `--json` print: text for a person, or one object and nothing else."""

import argparse
import json
import sys
from collections.abc import Callable


def fail(options: argparse.Namespace, message: str, *, code: int = 2) -> int:
    """Say why nothing came of it; returns the exit code."""
    print(f"isotherm: {message}", file=sys.stderr)
    if options.json:
        print(json.dumps({"exit_code": code, "ok": False, "error": message}))
    return code


def teller(options: argparse.Namespace) -> Callable[[str], None]:
    """Prints a line at once, or nothing under `--json`."""
    return _silent if options.json else _say


def _say(text: str) -> None:
    print(text, flush=True)


def _silent(text: str) -> None:
    del text
