"""All commands. Each is a module that adds its parser and sets `run` to the function that executes it."""

import argparse
import contextlib
from collections.abc import Callable, Sequence

import isotherm
from isotherm.cli.arguments import Parser, Subparsers
from isotherm.cli.bench import add_bench
from isotherm.cli.check import add_check
from isotherm.cli.completion import add_completion
from isotherm.cli.data import add_data
from isotherm.cli.effects import add_effects
from isotherm.cli.messages import complain
from isotherm.cli.predict import add_predict
from isotherm.cli.priors import add_priors
from isotherm.cli.report import add_report
from isotherm.cli.reproduce import add_reproduce
from isotherm.cli.resume import add_resume
from isotherm.cli.sample import add_sample
from isotherm.cli.validate import add_validate
from isotherm.cli.watch import add_watch
from isotherm.progress import Progress
from isotherm.signals import deferred

COMMANDS: tuple[Callable[[Subparsers], None], ...] = (
    add_check,
    add_priors,
    add_sample,
    add_resume,
    add_watch,
    add_predict,
    add_effects,
    add_report,
    add_reproduce,
    add_validate,
    add_bench,
    add_data,
)


def run(arguments: Sequence[str]) -> int:
    """Run `isotherm ARGUMENTS` and return the exit code."""
    try:
        with deferred():
            options = _options(arguments)
        return options.run(options)
    except KeyboardInterrupt:
        complain("interrupted")
        return 130
    except (ImportError, OSError) as error:
        complain(str(error))
        return 2


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of the command, and `run`. Sets up the cache of compiled programs."""
    parser = Parser(
        prog="isotherm",
        description="Bayesian sampling with noisy gradients, at the right temperature.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-V", "--version", action="version", version=f"isotherm {isotherm.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for add in COMMANDS:
        add(commands)
    add_completion(commands, parser)
    options = parser.parse_args(arguments)
    options.arguments = list(arguments)
    # A home that cannot be written to does without.
    with Progress("loading JAX"), contextlib.suppress(OSError):
        isotherm.keep_compiled()
    return options


_EXAMPLE = """\
example:
  isotherm check table.csv --write spec.toml  # lists faults, and writes a spec
  isotherm sample spec.toml --out run         # writes run/report.html
  isotherm resume run                         # goes on with it if it was ended
  isotherm predict run new.csv                # writes predictions.csv
"""
