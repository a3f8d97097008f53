"""What commands print: text without control characters, or with the option `--json` a single JSON object."""

import argparse
import json
import shutil
import sys
import textwrap
from collections.abc import Callable

from isotherm.text import visible_lines


def say(text: str) -> None:
    """Print one or more lines at once."""
    print(visible_lines(text), flush=True)


def complain(message: str) -> None:
    """Print a warning, a notice or an error to standard error."""
    text = _wrapped(f"isotherm: {visible_lines(message)}", to_terminal=sys.stderr.isatty())
    print(text, file=sys.stderr, flush=True)


def fail(options: argparse.Namespace, message: str, *, code: int = 2) -> int:
    """Report why the command failed, and return the exit code."""
    complain(message)
    if options.json:
        say(json.dumps({"exit_code": code, "ok": False, "error": message}))
    return code


def printer(options: argparse.Namespace) -> Callable[[str], None]:
    """Return a function that prints sentences at once; under `--json`, one that prints nothing."""
    return (
        _print_nothing if options.json else lambda text: say(_wrapped(text, to_terminal=sys.stdout.isatty()))
    )


def _wrapped(text: str, *, to_terminal: bool) -> str:
    """Return lines that are no wider than the terminal, if they go to one."""
    if not to_terminal:
        return text
    width = shutil.get_terminal_size().columns
    fill = lambda line: textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(fill(line) if len(line) > width else line for line in text.split("\n"))


def _print_nothing(text: str) -> None:
    del text
