"""The command line. Nothing that takes time is imported before Ctrl-C is handled."""

import sys
from collections.abc import Sequence

from isotherm.cli.ending import end_at_second_interrupt, leave_if_ended, quiet_imports


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `isotherm ARGUMENTS`, by default those of this process, and return the exit code."""
    if arguments is None:
        end_at_second_interrupt()
    with quiet_imports():
        from isotherm.cli.commands import run
    code = run(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        leave_if_ended(code)
    return code
