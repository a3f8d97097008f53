"""`isotherm effects`: what a run says of its columns and groups, in tables, figures and on a page."""

import argparse
import json
import time
from pathlib import Path

from isotherm.cli.arguments import Subparsers, add_command, add_csv, csv_options, probability, seed
from isotherm.cli.messages import complain, fail, printer, say
from isotherm.progress import Progress
from isotherm.signals import deferred


def add_effects(commands: Subparsers) -> None:
    """Add `isotherm effects RUN TABLE`, which shows predictions along columns and the effects of groups."""
    parser = add_command(
        commands,
        "effects",
        help="show what a run of `isotherm sample` says of its columns and groups",
        description="Predict the target of a regression along its columns, averaged over the rows of TABLE, "
        "which are those that it was fitted to or others; show average slopes, the effects of groups and smooth "
        "curves. Each is a table on the terminal and, with --out, a CSV file, a figure, and a part of one page.",
        example=_EXAMPLE,
    )
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder that `isotherm sample` wrote")
    parser.add_argument(
        "table",
        metavar="TABLE",
        help="rows: a .csv, .tsv, .parquet, .npz or .npy file, or a folder of Parquet files or its URI",
    )
    parser.add_argument(
        "--column",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME",
        help="columns along which is predicted (default: the first 12 of the model)",
    )
    parser.add_argument(
        "--group",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME",
        help="groups whose effects are shown (default: all)",
    )
    parser.add_argument(
        "--compare",
        nargs=2,
        action="append",
        default=[],
        metavar=("FIRST", "SECOND"),
        help="two values of the one --column, whose predictions are compared",
    )
    parser.add_argument(
        "--typical",
        action="store_true",
        help="take the other columns at typical values, in place of averages over rows",
    )
    parser.add_argument(
        "--interval",
        type=probability,
        default=0.9,
        metavar="P",
        help="probability of the intervals (default: 0.9)",
    )
    parser.add_argument(
        "--rows",
        type=_rows,
        default=2000,
        metavar="N",
        help="how many rows of TABLE are averaged over, drawn at random, or `all` (default: 2000)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder to write CSV files, figures and effects.html to (default: none)",
    )
    parser.add_argument("--force", action="store_true", help="write into a folder that is not empty")
    add_csv(parser, "as in the spec of the run")
    parser.add_argument("--seed", type=seed, default=0, help="seed of the choice of rows (default: 0)")
    parser.add_argument("--json", action="store_true", help="print a single JSON object and nothing else")
    parser.set_defaults(run=effects)


def effects(options: argparse.Namespace) -> int:
    """Show the effects and return the exit code."""
    if options.compare and len(options.column) != 1:
        return fail(options, "--compare must be given with one --column, whose values it names")
    out = options.out
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())) and not options.force:
        return fail(
            options, f"{out} already exists; use --force to write into it, or --out to write elsewhere"
        )
    try:
        with deferred():
            return _run(options)
    except (ImportError, OSError, ValueError, TypeError, KeyError) as error:
        return fail(options, str(error))


def _run(options: argparse.Namespace) -> int:
    began, tell = time.perf_counter(), printer(options)
    with Progress("reading the draws", show=not options.json):
        from isotherm.cli.folder import read_run
        from isotherm.reporting.marginal import Shown, effects_page, record_of, write_shown
        from isotherm.tables.csv_file import CsvFormat
        from isotherm.tables.fitted import fitted
        from isotherm.tables.reader import is_csv, open_table

        draws, summary, diagnosis = read_run(options.run_folder)
        model, given = fitted(draws), csv_options(options)
    assessment = summary if diagnosis is None else diagnosis
    form = CsvFormat(**{**vars(model.csv), **given}) if is_csv(options.table) or given else None
    with Progress("reading the rows", show=not options.json):
        table = open_table(options.table, form)
    shown = Shown.of(
        draws,
        table,
        columns=options.column,
        groups=options.group,
        compare=[tuple(pair) for pair in options.compare],
        others="typical" if options.typical else "average",
        interval=options.interval,
        rows=options.rows,
        seed=options.seed,
        progress=not options.json,
    )
    code = 1 if assessment.problems else 0
    if code:
        complain(assessment.verdict)
    tell(f"{draws.about.title}\n")
    for part in shown.parts:
        tell(str(part))
    files: list[Path] = []
    if options.out is not None:
        with Progress("writing", show=not options.json):
            files = write_shown(options.out, shown)
            files.append(effects_page(options.out / "effects.html", draws.about.title, shown))
        tell(f"page {files[-1]}, and {len(files) - 1} tables and figures beside it")
    if options.json:
        from isotherm.reporting.to_json import plain

        record = {
            "exit_code": code,
            "ok": code == 0,
            "verdict": assessment.verdict,
            "problems": list(assessment.problems),
            "interval": options.interval,
            **record_of(shown),
            "seconds": round(time.perf_counter() - began, 1),
            "files": [str(path) for path in files],
        }
        say(json.dumps(plain(record)))
    return code


def _rows(text: str) -> int | None:
    """Return the number that `text` gives, `None` for all."""
    if text == "all":
        return None
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be `all` or an integer of at least 1; got {number}")
    return number


_EXAMPLE = """\
tables:
  along a column     the expected target if every row had this value of the
                     column, averaged over rows; for classes, probabilities
  slopes             its change per unit of a column of numbers, averaged over
                     rows: the average marginal effect
  effects of groups  on the linear predictor, such as log-odds, sorted; the ten
                     lowest and highest levels (CSV files hold all)
  curves             of s(column), on the linear predictor, with a band

example:
  isotherm sample spec.toml --out run
  isotherm effects run patients.csv
  isotherm effects run patients.csv --column age sex --out effects
  isotherm effects run patients.csv --column sex --compare f m

exit status:
  0  the effects are shown
  1  they are shown, but the verdict on the run is not to trust it yet
  2  bad input
"""
