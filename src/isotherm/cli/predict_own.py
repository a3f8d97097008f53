"""`isotherm predict --function`: predictions of a model of your own, by a function of yours."""

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isotherm.cli.messages import complain, fail, printer, say
from isotherm.errors import must
from isotherm.loading import UnsuitableFunctionError, load_function
from isotherm.progress import Progress
from isotherm.tables.csv_file import CsvFormat
from isotherm.tables.reader import read_table
from isotherm.tables.table import Columns
from isotherm.text import visible_lines

if TYPE_CHECKING:
    from isotherm.draws import Draws


def predict_own(
    options: argparse.Namespace,
    draws: "Draws",
    problems: tuple[str, ...],
    verdict: str,
    form: CsvFormat | None,
) -> int:
    """Predict by the function that `options` name, write the predictions, and return the exit code."""
    import isotherm as iso
    from isotherm.cli.written import write_columns

    began, tell = time.perf_counter(), printer(options)
    with Progress("reading the new rows", show=not options.json):
        columns = read_table(options.table, form).columns
    complain(f"running code of {options.function} in {Path.cwd()}")
    levels = ((1 - options.interval) / 2, (1 + options.interval) / 2)
    try:
        f, rows = _made(options.function, columns)
        found = iso.predict(draws, f, rows, quantiles=levels, progress=not options.json)
    except UnsuitableFunctionError:
        raise
    except Exception as error:  # of the user's code, which is shown with its place
        sys.stderr.write(visible_lines(traceback.format_exc()))
        return fail(options, str(error) or type(error).__name__)
    names = write_columns(options.out, _columns(found.mean, *found.quantiles))
    code = 1 if problems else 0
    if code:
        complain(verdict)
    tell(f"{draws.about.title}: {len(found):,} rows, {found.num_draws:,} draws")
    tell(f"predictions {options.out}: {', '.join(names)}")
    if options.json:
        record = {
            "exit_code": code,
            "ok": code == 0,
            "verdict": verdict,
            "problems": list(problems),
            "rows": len(found),
            "interval": options.interval,
            "columns": names,
            "seconds": round(time.perf_counter() - began, 1),
            "files": [str(options.out)],
        }
        say(json.dumps(record))
    return code


def _made(name: str, columns: Columns) -> tuple[Callable[..., Any], Any]:
    """Return what the user's function makes of the columns."""
    made = load_function(name, Path.cwd())(columns)
    try:
        f, rows = made
    except (TypeError, ValueError):
        f = rows = None
    if not callable(f):
        rule = (
            "a function of the columns that returns (f, rows), where f(params, rows) has a value for each row"
        )
        raise must("--function", rule, made, error=UnsuitableFunctionError)
    return f, rows


def _columns(mean: np.ndarray, low: np.ndarray, high: np.ndarray) -> dict[str, np.ndarray]:
    """Return columns of predictions, which are numbered if there are several values in a row."""
    parts = {"mean": mean, "low": low, "high": high}
    if mean.ndim == 1:
        return parts
    flat = {name: x.reshape(len(x), -1) for name, x in parts.items()}
    return {f"{name}_{i}": x[:, i] for i in range(flat["mean"].shape[1]) for name, x in flat.items()}
