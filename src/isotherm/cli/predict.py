"""`isotherm predict`: predict the rows of a new table from a run."""

import argparse
import dataclasses
import json
import time
from pathlib import Path

from isotherm.cli.arguments import Subparsers, add_command, add_csv, costs, csv_options, probability, seed
from isotherm.cli.messages import complain, fail, printer, say
from isotherm.progress import Progress
from isotherm.signals import deferred

_SUFFIXES = (".csv", ".parquet")


def add_predict(commands: Subparsers) -> None:
    """Add `isotherm predict RUN TABLE`, which predicts new rows with intervals."""
    parser = add_command(
        commands,
        "predict",
        help="predict the rows of a new table from a run of `isotherm sample`",
        description="Predict the target of a regression for each row of TABLE, using only the draws in RUN, and "
        "write one line per row, in order. TABLE needs the features of the model, and its exposure and offset if it "
        "has them; other columns are ignored. If TABLE also has the target, the predictions are scored against it.",
        example=_EXAMPLE,
    )
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder that `isotherm sample` wrote")
    parser.add_argument(
        "table",
        metavar="TABLE",
        help="new rows: a .csv, .tsv, .parquet, .npz or .npy file, or a folder of Parquet files or its URI",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("predictions.csv"),
        metavar="FILE",
        help="file to write, .csv or .parquet (default: predictions.csv)",
    )
    parser.add_argument("--force", action="store_true", help="replace an existing file")
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
        help="if a row has a missing value: refuse the table (default), or leave the predictions of that row empty",
    )
    parser.add_argument(
        "--unseen",
        choices=("error", "missing", "mean", "sample"),
        default="error",
        help="if a row has a level that the run has not seen: refuse the table (default), leave the predictions of "
        "that row empty, or take the average of the coefficients of all levels; for a level of a group, `mean` is an "
        "effect of zero, and `sample` draws its effects from the distribution of the levels",
    )
    parser.add_argument(
        "--precision",
        type=probability,
        metavar="SHARE",
        help="use as few draws as give each mean a Monte Carlo error of this share of its posterior sd, such as 0.05 "
        "(default: use all draws)",
    )
    parser.add_argument(
        "--keep",
        type=lambda text: [name.strip() for name in text.split(",")],
        default=[],
        metavar="COLUMN,...",
        help="columns of TABLE, such as an identifier, to copy into the output before the predictions (default: "
        "none; rows of the output are in the order of TABLE)",
    )
    parser.add_argument(
        "--threshold",
        type=probability,
        metavar="P",
        help="predict the second of two classes if its probability is above P (default: 0.5, which predicts the more "
        "probable class: where one is rare, often the other one in every row)",
    )
    parser.add_argument(
        "--cost",
        type=costs,
        metavar="CLASS=COST,...",
        help="predict the class of least expected cost, given what it costs to miss each class (default: 1), such as "
        "yes=10,no=1; for two classes also false_negative=10,false_positive=1, the second being the positive one",
    )
    add_csv(parser, "as in the spec of the run")
    parser.add_argument(
        "--function",
        metavar="NAME",
        help="for a model of your own: file.py:function or module:function, which takes the columns of TABLE as "
        "arrays by name and returns (f, rows), where f(params, rows) has a value for each row",
    )
    parser.add_argument(
        "--seed", type=seed, default=0, help="seed of the noise in new observations (default: 0)"
    )
    parser.add_argument("--json", action="store_true", help="print a single JSON object and nothing else")
    parser.set_defaults(run=predict)


def predict(options: argparse.Namespace) -> int:
    """Predict and write the predictions; the exit code says whether to trust the run behind them."""
    if options.out.suffix not in _SUFFIXES:
        return fail(options, f"--out must end in {' or '.join(_SUFFIXES)}; got {options.out}")
    if options.out.exists() and not options.force:
        return fail(
            options, f"{options.out} already exists; use --force to replace it, or --out to write elsewhere"
        )
    ignored = {"threshold": None, "cost": None, "precision": None, "keep": [], "unseen": "error"}
    if options.function is not None:
        for name, default in ignored.items():
            if getattr(options, name) != default:
                return fail(options, f"--{name} must be left out with --function, which decides by itself")
    if options.out.resolve() == Path(options.table).resolve():
        return fail(options, f"{options.out} is the input table; use --out to write elsewhere")
    try:
        with deferred():
            return _run(options)
    except (ImportError, OSError, ValueError, TypeError, KeyError) as error:
        return fail(options, str(error))


def _run(options: argparse.Namespace) -> int:
    began, tell = time.perf_counter(), printer(options)
    with Progress("reading the draws", show=not options.json):
        from isotherm.cli.folder import read_run
        from isotherm.cli.predict_own import predict_own
        from isotherm.cli.predicted import class_record, scores_of, sentences
        from isotherm.cli.written import write_predictions
        from isotherm.tables.csv_file import CsvFormat
        from isotherm.tables.decision import decision_of
        from isotherm.tables.fitted import fitted
        from isotherm.tables.forecasting import forecasts
        from isotherm.tables.identifiers import table_as_written
        from isotherm.tables.reader import is_csv, open_table
        from isotherm.tables.scored import Scored

        draws, summary, diagnosis = read_run(options.run_folder)
    assessment, given = summary if diagnosis is None else diagnosis, csv_options(options)
    if options.function is not None:
        form = CsvFormat(**given) if given else None
        return predict_own(options, draws, assessment.problems, assessment.verdict, form)
    scored = Scored()
    model = fitted(draws)  # refuse an unsuitable run before a large table is read
    decision = decision_of(model, options.threshold, options.cost)
    form = dataclasses.replace(model.csv, **given) if is_csv(options.table) or given else None
    with Progress("reading the new rows", show=not options.json):
        table = open_table(options.table, form)
        keep_from = table_as_written(table, options.table, form or model.csv, options.keep)
    parts = forecasts(
        draws,
        table,
        interval=options.interval,
        seed=options.seed,
        missing=options.missing,
        unseen=options.unseen,
        threshold=options.threshold,
        costs=options.cost,
        precision=options.precision,
        keep=options.keep,
        keep_from=keep_from,
        progress=True,
    )
    names, num_draws = write_predictions(options.out, parts, scored)
    code = 1 if assessment.problems else 0
    if code:
        complain(assessment.verdict)
    for sentence in sentences(scored, model, draws.about.title, num_draws, decision, options.unseen):
        tell(sentence)
    if num_draws < (total := int(draws.complete.sum()) * draws.num_draws):
        tell(
            f"{num_draws:,} of {total:,} draws give the means to {options.precision:.2g} of their posterior sd"
        )
    tell(f"predictions {options.out}: {', '.join(names)}")
    if options.json:
        from isotherm.reporting.to_json import plain

        record = {
            "exit_code": code,
            "ok": code == 0,
            "verdict": assessment.verdict,
            "problems": list(assessment.problems),
            "rows": scored.rows,
            "rows_without_prediction": scored.empty,
            "rows_with_unseen_levels": {name: count for name, (count, _) in scored.unseen.items()},
            "draws_used": num_draws,
            "interval": options.interval,
            "columns": names,
            **class_record(scored, model, decision),
            "scores": scores_of(scored),
            "seconds": round(time.perf_counter() - began, 1),
            "files": [str(options.out)],
        }
        say(json.dumps(plain(record)))
    return code


_EXAMPLE = """\
columns of the output:
  for a number or a count
    mean                 posterior mean of the expected response (for
                         student-t, of the centre; for quantile, of the
                         quantile)
    mean_low, mean_high  interval of the expected response: how precisely it
                         is known
    low, high            interval of a new observation, noise included: where
                         an outcome will fall
  for two classes
    probability          posterior mean of the probability of the second
                         class, or of `positive` in the spec
    low, high            interval of that probability: how precisely it is known
    predicted            the more probable class, or the one that --threshold or
                         --cost decides for
  for three or more classes
    probability_CLASS    posterior mean of the probability of each class
    predicted            the most probable class, or the one of least --cost
  the columns that --keep names come first
  in CSV files an apostrophe goes before text that a spreadsheet would take
  for a formula

example:
  isotherm sample spec.toml --out run
  isotherm predict run new.csv --out predictions.csv
  isotherm predict run new.csv --out wide.parquet --interval 0.99
  isotherm predict run new.csv --cost false_negative=10,false_positive=1

exit status:
  0  the predictions are written
  1  the predictions are written, but the verdict on the run is not to trust
     it yet
  2  bad input, or the predictions could not be written
"""
