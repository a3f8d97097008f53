"""`isotherm resume`: go on with a run that was ended."""

import argparse
import time
from pathlib import Path

from isotherm.cli.arguments import Subparsers, add_command
from isotherm.cli.distributed import add_distributed, in_all, is_first, is_parent, join, leave, watch
from isotherm.cli.finish import explained, finish
from isotherm.cli.messages import fail, printer
from isotherm.progress import Progress
from isotherm.signals import deferred


def add_resume(commands: Subparsers) -> None:
    """Add `isotherm resume DIR`, which goes on with a run."""
    parser = add_command(
        commands,
        "resume",
        help="go on with a run that was ended, or draw more",
        description="Go on with the run that `isotherm sample --out DIR` stored, however it was ended, and write its "
        "results. On a CPU the draws are bit for bit those of a run that was never ended. The data must still be "
        "where they were, unchanged.",
        example=_EXAMPLE,
    )
    parser.add_argument("out", type=Path, metavar="DIR", help="folder that `isotherm sample` wrote")
    parser.add_argument(
        "--draws", type=int, metavar="N", help="draws per chain, if more are wanted than at first"
    )
    parser.add_argument(
        "--inexact",
        action="store_true",
        help="go on with other versions or on another machine: the draws are as good, but not the same bits",
    )
    parser.add_argument("--json", action="store_true", help="print a single JSON object and nothing else")
    add_distributed(parser)
    parser.set_defaults(run=resume, begun=True)


def resume(options: argparse.Namespace) -> int:
    """Go on with a run; the exit code says whether to trust it."""
    if is_parent(options):
        return watch(options)
    if options.distributed:
        try:
            join(options)
        except ValueError as error:
            return fail(options, str(error))
    with deferred():
        code = explained(options, lambda: _resume(options), own_code=lambda: False)
    if options.distributed:
        leave(code)
    return code


def _resume(options: argparse.Namespace) -> int:
    began = time.perf_counter()
    with Progress("loading JAX", show=not options.json):
        import isotherm as iso
        from isotherm.cli.folder import STORE, read_settings
        from isotherm.cli.spec import make_problem
    if options.distributed:
        spec, seed, effort = in_all(lambda: read_settings(options.out), "settings")
        problem = in_all(lambda: make_problem(spec), "data")
    else:
        spec, seed, effort = read_settings(options.out)
        problem = make_problem(spec)
    if is_first(options):
        printer(options)(problem.about.title)
    draws = iso.resume(
        options.out / STORE,
        problem.posterior,
        problem.data,
        num_draws=options.draws,
        like=problem.init,
        exact=not options.inexact,
    )
    return finish(options, problem, draws, seed=seed, effort=effort, began=began)


_EXAMPLE = """\
example:
  isotherm sample spec.toml --out run  # ended by Ctrl-C, a crash or a power cut
  isotherm resume run
  isotherm resume run --draws 5000     # later: more draws of the same chains

exit status: as for `isotherm sample`
"""
