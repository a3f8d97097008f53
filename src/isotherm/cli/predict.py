"""`isotherm predict`: what a run says of the rows of a new table."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isotherm.cli.arguments import Subparsers, add_command, probability, seed
from isotherm.cli.messages import fail, teller

if TYPE_CHECKING:
    from isotherm.tables.forecast import Forecast

_SUFFIXES = (".csv", ".parquet")


def add_predict(commands: Subparsers) -> None:
    """`isotherm predict RUN TABLE`: predictions of new rows, with intervals."""
    parser = add_command(
        commands,
        "predict",
        help="predict the rows of a new table from a run of `isotherm sample`",
        description="Predict the target of a regression for each row of TABLE, from the draws in RUN alone, and "
        "write a line for each row, in order. TABLE has the columns that the model was given as features, and those "
        "of exposure and offset where it has them; others are ignored. Where it has the target too, the predictions "
        "are scored against it.",
        example=_EXAMPLE,
    )
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="as given to `isotherm sample --out`")
    parser.add_argument("table", type=Path, metavar="TABLE", help=".csv, .tsv, .parquet, .npz or .npy")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("predictions.csv"),
        metavar="FILE",
        help="where to write, .csv or .parquet (default: predictions.csv)",
    )
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    parser.add_argument(
        "--interval",
        type=probability,
        default=0.9,
        metavar="P",
        help="probability of the intervals (default: 0.9, from 5 %% to 95 %%)",
    )
    parser.add_argument(
        "--missing",
        choices=("refuse", "empty"),
        default="refuse",
        help="what to do with a row that lacks a value: refuse the table (default), or leave its predictions empty",
    )
    parser.add_argument("--seed", type=seed, default=0, help="of the noise in new observations (default: 0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.set_defaults(run=predict)


def predict(options: argparse.Namespace) -> int:
    """Check, predict, write; the exit code says how far to trust it."""
    if options.out.suffix not in _SUFFIXES:
        return fail(options, f"--out must be a file of the kind {' or '.join(_SUFFIXES)}; got {options.out}")
    if options.out.exists() and not options.force:
        return fail(options, f"{options.out} is there already; --force replaces it, --out writes elsewhere")
    if options.out.resolve() == options.table.resolve():
        return fail(options, f"{options.out} is the table itself; --out writes elsewhere")
    try:
        return _run(options)
    except (ImportError, OSError, ValueError, TypeError, KeyError) as error:
        return fail(options, str(error))


def _run(options: argparse.Namespace) -> int:
    from isotherm.cli.folder import read_run
    from isotherm.tables.fitted import fitted
    from isotherm.tables.forecast import forecast
    from isotherm.tables.reader import read_table

    began, say = time.perf_counter(), teller(options)
    draws, summary, diagnosis = read_run(options.run_folder)
    fitted(draws)  # refuse a run before a large table is read
    judged = summary if diagnosis is None else diagnosis
    found = forecast(
        draws,
        read_table(options.table).columns,
        interval=options.interval,
        seed=options.seed,
        missing=options.missing,
    )
    _write(options.out, found)
    rows, empty = len(found.complete), int((~found.complete).sum())
    code = 1 if judged.problems else 0
    if code:
        print(f"isotherm: {judged.verdict}", file=sys.stderr)
    say(f"{draws.about.title}: {rows:,} rows, {found.expected.num_draws:,} draws")
    if empty:
        say(f"{empty:,} rows lack a value, and their predictions are empty")
    if found.model.model == "logistic":
        say(f"probability is that of {found.model.target} = {found.model.classes[1]}")
    if found.scores is not None:
        say(f"\nagainst `{found.model.target}` of the table\n{found.log_likelihood}{found.scores}")
    say(f"predictions {options.out}: {', '.join(found.columns)}")
    if options.json:
        from isotherm.reporting.record import plain

        record = {
            "exit_code": code,
            "ok": code == 0,
            "verdict": judged.verdict,
            "problems": list(judged.problems),
            "rows": rows,
            "rows_without_prediction": empty,
            "interval": options.interval,
            "columns": list(found.columns),
            "classes": list(found.model.classes),
            "scores": _scores(found),
            "seconds": round(time.perf_counter() - began, 1),
            "files": [str(options.out)],
        }
        print(json.dumps(plain(record)))
    return code


def _write(path: Path, found: "Forecast") -> None:
    """All of the file or nothing."""
    import pandas as pd

    from isotherm.errors import missing_extra
    from isotherm.storage import replacing

    frame = pd.DataFrame(found.columns)
    with replacing(path) as file:
        if path.suffix == ".csv":
            frame.to_csv(file, index=False, float_format="%.7g")  # all digits that 32 bits have
            return
        try:
            frame.to_parquet(file, index=False)
        except ImportError as error:
            raise missing_extra(path.name, "parquet") from error


def _scores(found: "Forecast") -> dict[str, Any] | None:
    """By name; each error is the standard error over rows."""
    from isotherm.scores.regression import RegressionScores

    told, scores = found.log_likelihood, found.scores
    if told is None or scores is None:
        return None
    record = {
        "rows": scores.num_rows,
        "log_likelihood": told.mean,
        "log_likelihood_error": told.standard_error,
    }
    if isinstance(scores, RegressionScores):
        (own,) = scores.intervals
        record |= {"rmse": scores.rmse, "crps": scores.crps}
        return record | {"coverage": own.coverage, "coverage_error": own.error, "width": own.width}
    record |= {"accuracy": scores.accuracy, "accuracy_error": scores.accuracy_error}
    record |= {"brier": scores.brier, "brier_error": scores.brier_error}
    return record | {"calibration_error": scores.calibration_error}


_EXAMPLE = """\
columns of the output:
  a number or a count
    mean                 posterior mean of the expected response (of student-t, of its centre)
    mean_low, mean_high  interval of the expected response: how well it is known
    low, high            interval of a new observation, noise included: where an outcome will fall
  two classes (logistic)
    probability          posterior mean of the chance of the second class, or of `positive` in the spec
    low, high            interval of that chance: how well it is known
    predicted            the more probable class
  three or more classes (softmax)
    probability_CLASS    posterior mean of the chance of each
    predicted            the most probable class

example:
  isotherm sample spec.toml --out run
  isotherm predict run new.csv --out predictions.csv
  isotherm predict run new.csv --out wide.parquet --interval 0.99 --missing empty

exit status:
  0  the predictions are written
  1  they are written, and the verdict on the run is not to trust it yet
  2  bad input, or nothing could be written
"""
