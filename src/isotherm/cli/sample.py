"""`isotherm sample`: from a spec file to draws, a verdict and a report."""

import argparse
import dataclasses
import json
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isotherm.cli.arguments import Subparsers, add_command, seed
from isotherm.cli.distributed import add_distributed, in_all, is_first, is_parent, join, leave, watch
from isotherm.cli.messages import fail, printer
from isotherm.errors import IsothermWarning

if TYPE_CHECKING:
    from isotherm.cli.spec import Problem, Spec

_MODELS = ("linear", "student-t", "logistic", "softmax", "poisson", "negative-binomial")
_QUICK = 4  # `--quick` divides the draws and the diagnosis by this


def add_sample(commands: Subparsers) -> None:
    """Add `isotherm sample SPEC`, which makes draws, a verdict and a report."""
    parser = add_command(
        commands,
        "sample",
        help="draw from the posterior of a regression on a table, or of your own model",
        description="Draw from the posterior that SPEC describes, diagnose the draws, and write a folder with "
        "draws.iso, summary.json, diagnosis.json, figures and report.html.",
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
    parser.add_argument("--force", action="store_true", help="write into a folder that is not empty")
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
        choices=_MODELS,
        metavar="MODEL",
        help=f"print a spec to start from, and stop; MODEL is one of {', '.join(_MODELS)}",
    )
    add_distributed(parser)
    parser.set_defaults(run=sample)


def sample(options: argparse.Namespace) -> int:
    """Sample, diagnose and write a run; the exit code says whether to trust it."""
    if options.example is not None:
        from isotherm.cli.examples import example

        print(example(options.example))
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
    from isotherm.cli.spec import make_problem, read_spec

    spec: Spec | None = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", IsothermWarning)
            warnings.showwarning = _warn  # pyrefly: ignore
            if not options.distributed:
                _check_out(options)
                spec = read_spec(options.spec)
                return _run(options, spec, make_problem(spec))
            in_all(lambda: _check_out(options), "out")
            spec = in_all(lambda: read_spec(options.spec), "spec")
            return _run(options, spec, in_all(lambda: make_problem(spec), "data"))
    except KeyboardInterrupt:
        from isotherm.cli.folder import DRAWS

        saved = options.out / DRAWS
        outcome = f"the draws are in {saved}" if saved.exists() else "nothing was written"
        return fail(options, f"interrupted; {outcome}", code=130)
    except (ImportError, OSError) as error:
        return fail(options, str(error))
    except Exception as error:
        if spec is not None and spec.function is not None:
            traceback.print_exc()  # the error may be in the user's function
        return fail(options, str(error) or type(error).__name__)


def _run(options: argparse.Namespace, spec: "Spec", problem: "Problem") -> int:
    import isotherm as iso
    from isotherm.cli.cost import measure
    from isotherm.cli.folder import DRAWS, remove_results, write_run

    began = time.perf_counter()
    first = is_first(options)
    if first:
        options.out.mkdir(parents=True, exist_ok=True)  # if this fails, it should fail before the work
    settings, effort = dict(spec.sample), 1.0
    if options.seed is not None:
        settings["seed"] = options.seed
    if options.quick:
        whole = settings.get("num_draws", 1000)
        settings["num_draws"], effort = min(whole, max(100, whole // _QUICK)), 1 / _QUICK
    say = printer(options) if first else lambda text: None
    say(problem.about.title)
    if dropped := problem.about.model.get("rows dropped"):
        say(f"{dropped:,} rows have a missing value and are left out")
    shared = {k: settings[k] for k in ("batch_size", "seed") if k in settings}
    tuned = iso.warmup(problem.posterior, problem.data, problem.init, **shared)
    # A trial run takes decisions by the clock, which would differ between processes.
    cost = None if options.distributed else measure(problem, tuned, settings, effort=effort)
    if cost is not None:
        say(cost.text)
        if cost.seconds > 60 * options.limit and not options.yes and not options.json and _declined():
            return 130
    draws = iso.sample(problem.posterior, problem.data, tuned, **settings)
    draws = dataclasses.replace(draws, about=problem.about, labels=problem.labels)
    if first:
        remove_results(options.out)
        draws.save(options.out / DRAWS)
    summary, diagnosis = draws.summary(), None
    interrupted = draws.record.interrupted
    if not interrupted:
        try:
            diagnosis = iso.diagnose(draws, effort=effort, seed=settings.get("seed", 0))
        except KeyboardInterrupt:
            interrupted = True
    files = write_run(options.out, draws, summary, diagnosis) if first else []
    assessment = summary if diagnosis is None else diagnosis
    code = 130 if interrupted else 1 if assessment.problems else 0
    if not first:
        return code
    if options.json:
        from isotherm.reporting.to_json import summary_to_json

        print(
            json.dumps(
                {
                    "exit_code": code,
                    "ok": code == 0,
                    "verdict": assessment.verdict,
                    "problems": list(assessment.problems),
                    "parameters": summary_to_json(summary)["rows"],
                    "seconds": round(time.perf_counter() - began, 1),
                    "estimated_seconds": None if cost is None else round(cost.seconds, 1),
                    "files": [str(file) for file in files],
                }
            )
        )
        return code
    say(f"\n{summary}" if diagnosis is None else f"\n{summary}\n{diagnosis}")
    for file in files:
        say(f"{file.stem:9} {file}")
    if not (options.out / "figures").exists():
        say("The report has no figures: they need the extra `plots` (pip install 'isotherm[plots]').")
    return code


def _declined() -> bool:
    """Return whether the user at the terminal declines. Without a terminal nobody is asked, and the run goes on."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return input("This is a long run. Continue? [y/N] ").strip().lower() not in ("y", "yes")


def _warn(message: Any, *_: object) -> None:
    print(f"isotherm: {message}", file=sys.stderr)


_EXAMPLE = """\
example:
  isotherm sample --example logistic > spec.toml   # then set the file and column names in it
  isotherm sample spec.toml --out run              # then open run/report.html in a browser

  isotherm sample my_model.py:make                 # make() returns (posterior, data, init)

Ctrl-C stops the run and keeps the draws made so far.

exit status:
  0    the run is complete, and no fault was found
  1    the run is complete, but the verdict is not to trust it yet
  2    bad input, or the run failed
  130  interrupted, or declined when asked; any draws made so far are written
"""
