"""`isotherm priors`: what the priors of a spec say of the target before it is seen."""

import argparse
import json
import time
from pathlib import Path

from isotherm.cli.arguments import Subparsers, add_command, seed
from isotherm.cli.messages import fail, printer, say
from isotherm.progress import Progress
from isotherm.signals import deferred

_FIGURE, _PAGE = "priors.png", "priors.html"


def add_priors(commands: Subparsers) -> None:
    """Add `isotherm priors SPEC`, which draws the target of a regression from its priors."""
    parser = add_command(
        commands,
        "priors",
        help="show what the priors of a spec say of the target, before the data",
        description="Draw parameters from the priors of the regression in SPEC and the target of the rows from "
        "these, and compare it with that of the data. Nothing is fitted. A warning says where the priors are absurd.",
        example=_EXAMPLE,
    )
    parser.add_argument("spec", metavar="SPEC", help="a .toml file with a `model` or a `formula`")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder to write the figure and a page to (default: none)"
    )
    parser.add_argument(
        "--draws", type=_draws, default=500, metavar="N", help="draws of the parameters (default: 500)"
    )
    parser.add_argument("--force", action="store_true", help="replace existing files")
    parser.add_argument("--seed", type=seed, default=0, help="seed of the draws (default: 0)")
    parser.add_argument("--json", action="store_true", help="print a single JSON object and nothing else")
    parser.set_defaults(run=priors)


def priors(options: argparse.Namespace) -> int:
    """Show what the priors say, and return the exit code."""
    files = [] if options.out is None else [options.out / name for name in (_FIGURE, _PAGE)]
    for path in files:
        if path.exists() and not options.force:
            return fail(
                options, f"{path} already exists; use --force to replace it, or --out to write elsewhere"
            )
    try:
        with deferred():
            return _run(options, files)
    except (ImportError, OSError, ValueError, TypeError) as error:
        return fail(options, str(error))


def _run(options: argparse.Namespace, files: list[Path]) -> int:
    began, tell = time.perf_counter(), printer(options)
    from isotherm.cli.spec import make_regression, read_spec, table_of, title_of
    from isotherm.errors import must

    spec = read_spec(options.spec)
    if spec.model is None:
        raise must(
            "SPEC",
            "one with a `model` or a `formula`",
            spec.function,
            "Draw from the priors of your own model yourself.",
        )
    table = table_of(spec)
    assert table is not None
    made = make_regression(spec, table)
    with Progress("drawing from the priors", show=not options.json):
        from isotherm.tables.priors.predictive import prior_predictive

        found = prior_predictive(made, table, num_draws=options.draws, seed=options.seed)
    title = title_of(spec, found.model.target)
    tell(f"{title}\n{found}")
    if files:
        with Progress("writing", show=not options.json):
            from isotherm.reporting.priors import write_priors

            write_priors(files[0], files[1], title, found, made.description["prior"])
        tell(f"page {files[1]}")
    code = 1 if found.warnings else 0
    if options.json:
        from isotherm.reporting.to_json import plain

        statistics = {
            x.name: {"data": x.data, "quantiles": [float(q) for q in x.quantiles()]} for x in found.statistics
        }
        record = {
            "exit_code": code,
            "ok": code == 0,
            "sentences": list(found.sentences),
            "warnings": list(found.warnings),
            "draws": options.draws,
            "statistics": statistics,
            "prior": made.description["prior"],
            "seconds": round(time.perf_counter() - began, 1),
            "files": [str(path) for path in files],
        }
        say(json.dumps(plain(record)))
    return code


def _draws(text: str) -> int:
    number = int(text)
    if number < 10:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 10; got {number}")
    return number


_EXAMPLE = """\
example:
  isotherm priors spec.toml
  isotherm priors spec.toml --out priors       # priors/priors.html, and a figure

The priors are set in [prior] of the spec:
  [prior]
  coefficients = 0.5     # normal, with this sd per sd of a column

exit status:
  0  the priors are shown
  1  they are shown, with a warning
  2  bad input
"""
