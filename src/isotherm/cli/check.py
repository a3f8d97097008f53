"""`isotherm check`: all faults of a table at once, and a spec for it."""

import argparse
import dataclasses
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from isotherm.cli.arguments import Subparsers, add_command
from isotherm.cli.messages import complain, fail, printer, say
from isotherm.progress import Progress
from isotherm.signals import deferred

if TYPE_CHECKING:
    from isotherm.tables.inspection.findings import Finding
    from isotherm.tables.inspection.judge import Inspection

_MOST_SHOWN = 100  # findings
_NAME_WIDTH = 20


def add_check(commands: Subparsers) -> None:
    """Add `isotherm check TABLE`, which lists the faults of a table and proposes a spec."""
    parser = add_command(
        commands,
        "check",
        help="list all faults of a table, and propose a spec for it",
        description="Read TABLE once and list everything in it that would stop or spoil a regression, each with the "
        "rows where it occurs and a repair. Propose a spec that uses the table as it is, and try it: its rows are "
        "read and checked as `isotherm sample` does. TABLE may be larger than memory.",
        example=_EXAMPLE,
    )
    parser.add_argument(
        "table",
        metavar="TABLE",
        help="a .csv, .tsv, .parquet, .npz or .npy file, or a folder of Parquet files or its URI",
    )
    parser.add_argument(
        "--target",
        metavar="COLUMN",
        help="the column to predict (default: one that is named like a target, or the last)",
    )
    parser.add_argument(
        "--write", type=Path, metavar="SPEC", help="write the proposed spec to this .toml file"
    )
    parser.add_argument("--html", type=Path, metavar="PAGE", help="write the result to this .html file, too")
    parser.add_argument("--force", action="store_true", help="replace existing files")
    parser.add_argument("--json", action="store_true", help="print a single JSON object and nothing else")
    parser.set_defaults(run=check)


def check(options: argparse.Namespace) -> int:
    """Print the faults and the spec; the exit code says whether the table can be sampled as proposed."""
    for name, out, suffix in (("--write", options.write, ".toml"), ("--html", options.html, ".html")):
        if out is not None and out.suffix != suffix:
            return fail(options, f"{name} must end in {suffix}; got {out}")
        if out is not None and out.exists() and not options.force:
            return fail(options, f"{out} already exists; use --force to replace it, or name another file")
    try:
        with deferred():
            return _run(options)
    except (ImportError, OSError, ValueError) as error:
        return fail(options, str(error))


def _run(options: argparse.Namespace) -> int:
    from isotherm.files import write_text

    with Progress("loading", show=not options.json):
        from isotherm.tables.inspection.inspect import inspect
    began, tell, out = time.perf_counter(), printer(options), options.write
    result = inspect(options.table, options.target, progress=not options.json)
    spec = None if result.proposal is None else result.proposal.toml(_path_in(out, result.path))
    if out is not None and spec is not None:
        write_text(out, spec)
    if options.html is not None:
        from isotherm.reporting.check_page import check_page

        write_text(options.html, check_page(result, options.table, spec))
    code = 0 if result.ok else 1
    if options.json:
        files = [str(x) for x in (None if spec is None else out, options.html) if x is not None]
        say(json.dumps(_record(result, spec, code, files, time.perf_counter() - began)))
        return code
    tell(f"{options.table}: {result.rows:,} rows, {result.columns:,} columns\n")
    if options.html is not None:
        tell(f"page: {options.html}\n")
    _show(result.findings)
    if options.target is None:
        tell(f"The target is taken to be `{result.target}`; choose another with --target.")
    if spec is None:
        complain("no spec is proposed: repair what is listed above first")
        return code
    say(f"Proposed spec:\n\n{spec}" if out is None else f"Proposed spec: {out}\n\n{spec}")
    if result.used_rows is not None:
        kept = "all" if result.used_rows == result.rows else f"{result.used_rows:,} of {result.rows:,}"
        tell(f"Tried: it uses {kept} rows, and has {len(result.names):,} coefficients besides the intercept.")
    if code:
        complain("the table must be repaired before it can be sampled: see above")
    elif out is not None:
        tell(f"Next: isotherm sample {out}")
    return code


def _path_in(spec: Path | None, table: str) -> str:
    """Return the path of the table as a spec in this place names it."""
    if "://" in table:
        return table
    folder = Path.cwd() if spec is None else spec.parent
    return table if os.path.isabs(table) else Path(os.path.relpath(table, folder)).as_posix()


def _show(findings: "Sequence[Finding]") -> None:
    """Print the findings, those that must be repaired first at the top."""
    from isotherm.terminal import Table, new_console

    console = new_console()
    if not findings:
        console.print("Nothing was found.\n")
    for title, blocks in (("To be repaired before the table can be sampled", True), ("Found", False)):
        some = [finding for finding in findings if finding.blocks == blocks]
        if not some:
            continue
        grid = Table(title=title, title_justify="left", title_style="bold", box=None, show_header=False)
        grid.add_column(max_width=_NAME_WIDTH, overflow="fold")
        grid.add_column(overflow="fold")
        last: object = ""
        for finding in some[:_MOST_SHOWN]:
            name = "the table" if finding.column is None else finding.column
            grid.add_row("" if name == last else name, _sentence(finding))
            last = name
        if len(some) > _MOST_SHOWN:
            grid.add_row("", f"and {len(some) - _MOST_SHOWN:,} more: --json lists all")
        console.print(grid)
        console.print()


def _sentence(finding: "Finding") -> str:
    where = f" ({finding.where})" if finding.where else ""
    fault = finding.fault
    for end in (".", ":"):
        if where and fault.endswith(end):
            fault = f"{fault[:-1]}{where}." if end == "." else f"{fault} {finding.where}."
            break
    return f"{fault} {finding.repair}"


def _record(
    result: "Inspection", spec: str | None, code: int, files: list[str], seconds: float
) -> dict[str, object]:
    return {
        "exit_code": code,
        "ok": code == 0,
        "rows": result.rows,
        "columns": result.columns,
        "target": result.target,
        "model": result.guess.model,
        "rows_used": result.used_rows,
        "coefficients": list(result.names),
        "findings": [dataclasses.asdict(finding) for finding in result.findings],
        "spec": spec,
        "seconds": round(seconds, 1),
        "files": files,
    }


_EXAMPLE = """\
example:
  isotherm check patients.csv --target pressure --write spec.toml
  isotherm sample spec.toml --out run

Row 1 is the first row after the names.

exit status:
  0  the table can be sampled as proposed
  1  it cannot, until what is listed is repaired
  2  bad input, or the table cannot be read
"""
