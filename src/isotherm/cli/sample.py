"""`isotherm sample`: from a spec file to draws, a verdict and a report."""

import argparse
import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from isotherm.cli.arguments import Subparsers, add_command, seed
from isotherm.cli.distributed import add_distributed, in_all, is_first, is_parent, join, leave, watch
from isotherm.cli.finish import explained, finish
from isotherm.cli.messages import complain, fail, printer, say
from isotherm.progress import Progress
from isotherm.signals import deferred, immediate
from isotherm.tables.families.registry import MODELS

if TYPE_CHECKING:
    from isotherm.cli.spec import Problem, Spec

_QUICK = 4  # `--quick` divides the draws and the diagnosis by this


def add_sample(commands: Subparsers) -> None:
    """Add `isotherm sample SPEC`, which makes draws, a verdict and a report."""
    parser = add_command(
        commands,
        "sample",
        help="draw from the posterior of a regression on a table, or of your own model",
        description="Draw from the posterior that SPEC describes, diagnose the draws, and write a folder with "
        "draws.iso, summary.json, diagnosis.json, figures and report.html. Draws are stored while chains run: "
        "`isotherm resume` goes on with a run that was ended, and `isotherm watch` shows one that is under way.",
        example=_EXAMPLE,
    )
    parser.add_argument(
        "spec",
        nargs="?",
        metavar="SPEC",
        help="a TOML file (see --example), or a function as module:function or file.py:function",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("run"), metavar="DIR", help="folder to write to (default: run)"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="write into a folder that is not empty, and delete the results of an earlier run in it",
    )
    parser.add_argument("--seed", type=seed, help="seed of the chains (default: the one in the spec, or 0)")
    parser.add_argument(
        "--quick", action="store_true", help="cut the draws and the effort of the diagnosis to a quarter"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask before a long run")
    parser.add_argument(
        "--limit",
        type=float,
        default=10.0,
        metavar="MINUTES",
        help="ask before a run longer than this (default: 10)",
    )
    parser.add_argument("--json", action="store_true", help="print a single JSON object and nothing else")
    parser.add_argument(
        "--example",
        choices=MODELS,
        metavar="MODEL",
        help=f"print a spec to start from, and stop; MODEL is one of {', '.join(MODELS)}",
    )
    add_distributed(parser)
    parser.set_defaults(run=sample, begun=False)


def sample(options: argparse.Namespace) -> int:
    """Sample, diagnose and write a run; the exit code says whether to trust it."""
    if options.example is not None:
        from isotherm.cli.examples import example

        say(example(options.example))
        return 0
    if options.spec is None:
        return fail(options, "SPEC is missing; `isotherm sample --example logistic` prints one")
    if is_parent(options):
        return watch(options)
    if options.distributed:
        try:
            join(options)
        except ValueError as error:
            return fail(options, str(error))
    with deferred():
        code = _sample(options)
    if options.distributed:
        leave(code)
    return code


def _check_out(options: argparse.Namespace) -> None:
    """Raise if the folder to write to is in use."""
    used = options.out.exists() and (not options.out.is_dir() or any(options.out.iterdir()))
    if used and not options.force and is_first(options):
        raise ValueError(
            f"{options.out} already exists; use --force to write into it, or --out to write elsewhere"
        )


def _sample(options: argparse.Namespace) -> int:
    with Progress("loading JAX", show=not options.json):
        from isotherm.cli.folder import is_run, remove_if_empty
        from isotherm.cli.spec import make_problem, read_spec

    spec: Spec | None = None
    problem: Problem | None = None

    def work() -> int:
        nonlocal spec, problem
        if not options.distributed:
            _check_out(options)
            spec = read_spec(options.spec)
            problem = make_problem(spec)
        else:
            in_all(lambda: _check_out(options), "out")
            spec = in_all(lambda: read_spec(options.spec), "spec")
            problem = in_all(lambda: make_problem(spec), "data")
        return _run(options, spec, problem)

    code = explained(options, work, own_code=lambda: spec is not None and spec.function is not None)
    if code == 2 and problem is None and spec is not None and spec.model is not None and is_first(options):
        _advise_check(spec)
    if options.begun and code == 2 and is_first(options):
        remove_if_empty(options.out)
    if not options.begun and is_first(options) and is_run(options.out):
        complain(f"{options.out} still holds the results of an earlier run")
    return code


def _advise_check(spec: "Spec") -> None:
    """Name the command that shows what else is wrong with a table."""
    path, target = spec.data["path"], spec.data.get("target")
    path = path if "://" in path else os.path.relpath(spec.folder / path)
    command = f"isotherm check {shlex.quote(path)}"
    command += "" if target is None else f" --target {shlex.quote(target)}"
    complain(f"`{command}` lists all faults of the table, and proposes a spec")


def _run(options: argparse.Namespace, spec: "Spec", problem: "Problem") -> int:
    from isotherm.chains.stored import save_setup
    from isotherm.cli.cost import measure
    from isotherm.cli.folder import STORE, forget, write_settings
    from isotherm.keys import as_key
    from isotherm.sampling.call import Call
    from isotherm.sampling.resume import started
    from isotherm.sampling.sampled import sampled, setup_of

    began = time.perf_counter()
    settings, effort = dict(spec.sample), 1.0
    if options.seed is not None:
        settings["seed"] = options.seed
    if options.quick:
        whole = settings.get("num_draws", 1000)
        settings["num_draws"], effort = min(whole, max(100, whole // _QUICK)), 1 / _QUICK
    first = is_first(options)
    tell = printer(options) if first else lambda text: None
    seed = settings.pop("seed", 0)
    call = Call(init=problem.init, key=as_key(seed), **settings)
    call = call.checked()

    def begin() -> None:
        options.begun = True
        if first:
            options.out.mkdir(parents=True, exist_ok=True)  # if this fails, it should fail before the work
            forget(options.out)
            write_settings(options.out, spec, seed=seed, effort=effort)

    in_all(begin, "settings") if options.distributed else begin()
    tell(problem.about.title)
    if dropped := problem.about.model.get("rows dropped"):
        tell(f"{dropped:,} rows have a missing value and are left out")
    for name, origin in problem.about.model.get("reading", {}).get("origins", {}).items():
        tell(f"`{name}` is counted in days since {origin}")
    arguments = (problem.posterior, problem.data, call)
    with started(options.out / STORE, call) as folder:
        setup = setup_of(*arguments, folder, progress=True, stacklevel=1)
        save_setup(folder, setup)
        # A trial run takes decisions by the clock, which would differ between processes.
        cost = None
        if not options.distributed:
            with Progress("timing a few steps", show=not options.json):
                cost = measure(problem, setup, settings | {"seed": seed}, effort=effort)
        if cost is not None:
            tell(cost.text)
            if cost.seconds > 60 * options.limit and not options.yes and not options.json and _declined():
                folder.discard()
                forget(options.out)
                return 130
        draws = sampled(*arguments, progress=True, stacklevel=1, folder=folder, setup=setup)
    return finish(options, problem, draws, seed=seed, effort=effort, began=began, cost=cost)


def _declined() -> bool:
    """Return whether the user at the terminal declines. Without a terminal nobody is asked, and the run goes on."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    with immediate():
        return input("This is a long run. Continue? [y/N] ").strip().lower() not in ("y", "yes")


_EXAMPLE = """\
example:
  isotherm sample --example logistic > spec.toml  # then set file and columns
  isotherm sample spec.toml --out run             # then open run/report.html

  isotherm sample my_model.py:make    # make() returns (posterior, data, init)

Ctrl-C stops the run and reports on the draws made so far; a second one stops
it at once. SIGTERM stores the draws and stops. In all cases, and after a
crash, `isotherm resume run` goes on where it stopped.

exit status:
  0    the run is complete, and no fault was found
  1    the run is complete, but the verdict is not to trust it yet
  2    bad input, or the run failed
  130  interrupted, or declined when asked; any draws made so far are written
  143  ended by SIGTERM; everything is stored
"""
