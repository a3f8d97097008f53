"""All faults of a table, found in one pass, and a spec that is tried in a second."""

import dataclasses
import os
import warnings

from isotherm.errors import IsothermWarning
from isotherm.progress import Progress
from isotherm.tables.inspection.facts import facts_of
from isotherm.tables.inspection.findings import Finding, found
from isotherm.tables.inspection.judge import Inspection, dropped_rows, judged
from isotherm.tables.reader import is_csv, open_table
from isotherm.tables.regressions import regression
from isotherm.tables.separation import SEPARATED


def inspect(path: str | os.PathLike[str], target: str | None = None, *, progress: bool = True) -> Inspection:
    """Return what is wrong with a table, and a spec for it.

    All rows are read once, in bounded memory. If nothing has to be repaired first, the spec is then tried: its rows
    are read and checked as `isotherm sample` does. Without a `target`, a column that is named like one is taken, or
    the last.
    """
    path = os.fspath(path)
    result = judged(path, facts_of(path, target, progress=progress))
    if result.proposal is None or result.large or any(finding.blocks for finding in result.findings):
        return result
    return _tried(result, progress=progress)


def _tried(result: Inspection, *, progress: bool) -> Inspection:
    """Return the result with what reading the rows by the proposed spec has shown."""
    proposal = result.proposal
    assert proposal is not None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", IsothermWarning)
        try:
            loads = is_csv(result.path)
            with Progress("trying the spec", show=progress and loads):  # others show a bar
                table = open_table(result.path, proposal.form if loads else None)
            made = regression(
                proposal.model, table, proposal.target, **proposal.arguments(), progress=progress
            )
        except ValueError as error:
            fault = f"The proposed spec is refused: {error}"
            more = found(None, "refused", fault, "Correct the table, or the spec by hand.", blocks=True)
            return dataclasses.replace(result, findings=(more, *result.findings))
    more = tuple(_warned(str(x.message)) for x in caught if issubclass(x.category, IsothermWarning))
    dropped, rows = made.description.get("rows dropped", 0), result.rows
    # Texts that stand for a missing value leave out more rows than the first pass could count.
    exact = {"fault": dropped_rows(dropped, rows), "count": dropped}
    findings = [dataclasses.replace(x, **exact) if x.kind == "dropped" else x for x in result.findings]
    names = tuple(made.labels["coefficients"][-1][1:])
    return dataclasses.replace(result, findings=(*more, *findings), used_rows=rows - dropped, names=names)


def _warned(text: str) -> Finding:
    if SEPARATED in text:
        fault, repair = text.split(". ", 1)
        return found(None, "separated", f"{fault}.", repair)
    return found(None, "dependent", text, "Predictions are not affected.")
