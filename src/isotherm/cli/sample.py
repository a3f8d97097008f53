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
from isotherm.cli.messages import fail, teller
from isotherm.errors import IsothermWarning

if TYPE_CHECKING:
    from isotherm.cli.spec import Problem, Spec

_MODELS = ("linear", "student-t", "logistic", "softmax", "poisson", "negative-binomial")
_QUICK = 4  # times fewer draws


def add_sample(commands: Subparsers) -> None:
    """`isotherm sample SPEC`: draws, a verdict and a report."""
    parser = add_command(
        commands,
        "sample",
        help="draw from the posterior of a regression on a table, or of a model of your own",
        description="Draw from the posterior that SPEC describes, judge the draws, and write a folder with "
        "draws.iso, summary.json, diagnosis.json, figures and report.html.",
        example=_EXAMPLE,
    )
    parser.add_argument(
        "spec",
        nargs="?",
        metavar="SPEC",
        help="a TOML file (see --example), or module:function or file.py:function",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("run"), metavar="DIR", help="where to write (default: run)"
    )
    parser.add_argument("--force", action="store_true", help="write into a folder that is not empty")
    parser.add_argument("--seed", type=seed, help="of the chains (default: that of the spec, or 0)")
    parser.add_argument("--quick", action="store_true", help="a quarter of the draws and of the diagnosis")
    parser.add_argument("--yes", action="store_true", help="do not ask, however long it takes")
    parser.add_argument(
        "--limit", type=float, default=10.0, metavar="MINUTES", help="ask before a longer run (default: 10)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument(
        "--example", choices=_MODELS, metavar="MODEL", help=f"print a spec of {', '.join(_MODELS)}"
    )
    parser.set_defaults(run=sample)


def sample(options: argparse.Namespace) -> int:
    """Check, warm up, ask, run, judge, write; the exit code says how far to trust it."""
    if options.example is not None:
        from isotherm.cli.examples import example

        print(example(options.example))
        return 0
    if options.spec is None:
        return fail(options, "SPEC is missing; `isotherm sample --example logistic` prints one")
    if (
        options.out.exists()
        and (not options.out.is_dir() or any(options.out.iterdir()))
        and not options.force
    ):
        return fail(options, f"{options.out} is there already; --force writes into it, --out elsewhere")
    from isotherm.cli.spec import pose, read_spec

    spec: Spec | None = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", IsothermWarning)
            warnings.showwarning = _warn  # pyrefly: ignore
            spec = read_spec(options.spec)
            return _run(options, spec, pose(spec))
    except KeyboardInterrupt:
        from isotherm.cli.folder import DRAWS

        kept = options.out / DRAWS
        message = f"stopped; the draws are in {kept}" if kept.exists() else "stopped; nothing was written"
        return fail(options, message, code=130)
    except (ImportError, OSError) as error:
        return fail(options, str(error))
    except Exception as error:
        if spec is not None and spec.function is not None:
            traceback.print_exc()  # a fault in the user's own function
        return fail(options, str(error) or type(error).__name__)


def _run(options: argparse.Namespace, spec: "Spec", problem: "Problem") -> int:
    import isotherm as iso
    from isotherm.cli.cost import measure
    from isotherm.cli.folder import DRAWS, forget, write_run

    began = time.perf_counter()
    options.out.mkdir(parents=True, exist_ok=True)  # fail before the work rather than after it
    settings, effort = dict(spec.sample), 1.0
    if options.seed is not None:
        settings["seed"] = options.seed
    if options.quick:
        whole = settings.get("num_draws", 1000)
        settings["num_draws"], effort = min(whole, max(100, whole // _QUICK)), 1 / _QUICK
    say = teller(options)
    say(problem.about.title)
    if dropped := problem.about.model.get("rows dropped"):
        say(f"{dropped:,} rows lack a value and are left out")
    shared = {k: settings[k] for k in ("batch_size", "seed") if k in settings}
    found = iso.warmup(problem.posterior, problem.data, problem.init, **shared)
    cost = measure(problem, found, settings, effort=effort)
    say(cost.text)
    if cost.seconds > 60 * options.limit and not options.yes and not options.json and _declined():
        return 130
    draws = iso.sample(problem.posterior, problem.data, found, **settings)
    draws = dataclasses.replace(draws, about=problem.about, labels=problem.labels)
    forget(options.out)
    draws.save(options.out / DRAWS)
    summary, diagnosis = draws.summary(), None
    interrupted = draws.record.interrupted
    if not interrupted:
        try:
            diagnosis = iso.diagnose(draws, effort=effort, seed=settings.get("seed", 0))
        except KeyboardInterrupt:
            interrupted = True
    files = write_run(options.out, draws, summary, diagnosis)
    judged = summary if diagnosis is None else diagnosis
    code = 130 if interrupted else 1 if judged.problems else 0
    if options.json:
        from isotherm.reporting.record import summary_to_json

        print(
            json.dumps(
                {
                    "exit_code": code,
                    "ok": code == 0,
                    "verdict": judged.verdict,
                    "problems": list(judged.problems),
                    "parameters": summary_to_json(summary)["rows"],
                    "seconds": round(time.perf_counter() - began, 1),
                    "estimated_seconds": round(cost.seconds, 1),
                    "files": [str(file) for file in files],
                }
            )
        )
        return code
    say(f"\n{summary}" if diagnosis is None else f"\n{summary}\n{diagnosis}")
    for file in files:
        say(f"{file.stem:9} {file}")
    if not (options.out / "figures").exists():
        say("The report has no figures: they need the extra `plots`, pip install 'isotherm[plots]'.")
    return code


def _declined() -> bool:
    """Whether somebody at a terminal says no; where there is none, the answer is yes."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return input("That is long. Go on? [y/N] ").strip().lower() not in ("y", "yes")


def _warn(message: Any, *_: object) -> None:
    print(f"isotherm: {message}", file=sys.stderr)


_EXAMPLE = """\
example:
  isotherm sample --example logistic > spec.toml   # name your CSV file and its target in it
  isotherm sample spec.toml --out run              # then open run/report.html in a browser

  isotherm sample my_model.py:make                 # make() returns (posterior, data, init)

Ctrl-C keeps what was drawn.

exit status:
  0    the run is done and no fault was found
  1    the run is done, and the verdict is not to trust it yet
  2    bad input, or it could not be run
  130  interrupted; what was drawn is written
"""
