"""What commands that sample do after it, and how they explain its end."""

import argparse
import dataclasses
import json
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from isotherm.cli.distributed import is_first
from isotherm.cli.messages import complain, fail, printer, say
from isotherm.errors import IsothermWarning
from isotherm.loading import UnsuitableFunctionError
from isotherm.progress import Progress
from isotherm.signals import check
from isotherm.text import visible_lines

if TYPE_CHECKING:
    from isotherm.cli.cost import Cost
    from isotherm.cli.spec import Problem
    from isotherm.draws import Draws


def finish(
    options: argparse.Namespace,
    problem: "Problem",
    draws: "Draws",
    *,
    seed: int,
    effort: float,
    began: float,
    cost: "Cost | None" = None,
) -> int:
    """Summarise and diagnose draws, write and print what was found, and return the exit code."""
    import isotherm as iso
    from isotherm.cli.folder import save_draws, write_run
    from isotherm.reporting.regression import with_fit

    first = is_first(options)
    draws = dataclasses.replace(draws, about=problem.about, labels=problem.labels)
    interrupted = draws.record.interrupted
    if not interrupted:
        try:
            draws = with_fit(draws)
        except KeyboardInterrupt:
            interrupted = True
    if first:
        save_draws(options.out, draws)
    with Progress("summary", show=first and not options.json):
        summary, diagnosis = draws.summary(), None
    if not interrupted:
        try:
            diagnosis = iso.diagnose(draws, effort=effort, seed=seed)
        except KeyboardInterrupt:
            interrupted = True
    files = []
    if first:
        with Progress("writing figures and the report", show=not options.json):
            files = write_run(options.out, draws, summary, diagnosis)
    assessment = summary if diagnosis is None else diagnosis
    code = 130 if interrupted else 1 if assessment.problems else 0
    if not first:
        return code
    if options.json:
        from isotherm.reporting.to_json import summary_to_json

        say(
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
    tell = printer(options)
    tell(f"\n{summary}" if diagnosis is None else f"\n{summary}\n{diagnosis}")
    for file in files:
        tell(f"{file.stem:9} {file}")
    if not (options.out / "figures").exists():
        tell("The report has no figures: they need the extra `plots` (pip install 'isotherm[plots]').")
    if draws.record.interrupted:
        tell(f"To go on where the run stopped: isotherm resume {options.out}")
    return code


def explained(options: argparse.Namespace, work: Callable[[], int], *, own_code: Callable[[], bool]) -> int:
    """Return the exit code of `work`, and say why if it did not come to its end.

    `own_code` tells whether the user's functions were called, in which case an error is shown with its place.
    """
    from isotherm.chains.interruption import TERMINATED

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", IsothermWarning)
            warnings.showwarning = _warn  # pyrefly: ignore
            code = work()
        check()
        return code
    except KeyboardInterrupt:
        return fail(options, f"interrupted; {_what_is_left(options)}", code=130)
    except SystemExit as end:
        if end.code != TERMINATED:
            raise
        return fail(options, f"ended by SIGTERM; {_what_is_left(options)}", code=TERMINATED)
    except (ImportError, OSError, UnsuitableFunctionError) as error:
        return fail(options, str(error))
    except Exception as error:
        if own_code():
            sys.stderr.write(visible_lines(traceback.format_exc()))
        return fail(options, str(error) or type(error).__name__)


def _what_is_left(options: argparse.Namespace) -> str:
    """Return what the user can do with what was written."""
    from isotherm.cli.folder import DRAWS, SETTINGS, STORE

    if not options.begun:  # what there is in the folder is of an earlier run
        return "nothing was written"
    if (options.out / DRAWS).exists():
        return f"the draws are in {options.out / DRAWS}"
    if (options.out / SETTINGS).exists() and (options.out / STORE).exists():
        return f"`isotherm resume {options.out}` goes on where it stopped"
    return "nothing was written"


def _warn(message: Any, *_: object) -> None:
    complain(str(message))
