"""An experiment in parts: each is computed once, kept as a file, and found again after an interruption."""

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

import isotherm
from isotherm.studies.progress import Progress
from isotherm.studies.workers import LostWorkerError, side_by_side
from isotherm.versions import versions

_SHOWING = (
    "cli.py",
    "report.py",
    "plots/*.py",
    "progress.py",
    "*_claims.py",
    "*_figures.py",
    "*_report.py",
    "*_table.py",
)


@dataclasses.dataclass(frozen=True)
class Part:
    """`function(**arguments)`, a function at the top of a module, of plain JSON to plain JSON.

    - `passes`: over the data, of all its chains together.
    - `cost`: of a pass, relative to other parts; for the estimate of the time that is left.
    """

    name: str
    function: Callable[..., dict[str, Any]]
    arguments: dict[str, Any]
    passes: int | float = 0
    cost: int | float = 1

    @property
    def fingerprint(self) -> str:
        """Of all that the result depends on: function, arguments, the code of the package, versions."""
        what = {
            "function": f"{self.function.__module__}.{self.function.__qualname__}",
            "arguments": self.arguments,
            "code": _code(),
            "versions": versions(),
        }
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()

    @property
    def file(self) -> str:
        """Where the result is kept; a part of the same name with other arguments has another."""
        return f"{self.name}.{self.fingerprint[:8]}.json"


def compute(
    parts: Sequence[Part], folder: Path, *, title: str, console: Console
) -> dict[str, dict[str, Any]]:
    """The result of every part by its name. Those that `folder` holds already are read, the others run side by side.

    An interruption, or a part that fails, loses the parts in flight and no other.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results, missing = {}, []
    for part in parts:
        kept = _read(folder / part.file, part.fingerprint)
        if kept is None:
            missing.append(part)
        else:
            results[part.name] = kept
    if results:
        console.print(f"{title}: {len(results)} of {len(parts)} parts are there already", highlight=False)
    # The longest first, so that the last to end is a short one.
    missing.sort(key=lambda part: -part.passes * part.cost)
    work = sum(part.passes * part.cost for part in missing)
    with Progress(title, work, console, unit="data passes") as progress:
        progress.start(f"{len(missing)} parts")
        for i, result in side_by_side(_run, [(p.function, p.arguments) for p in missing]):
            part = missing[i]
            if isinstance(result, LostWorkerError):
                raise LostWorkerError(f"{result} The same command goes on from the parts that are done.")
            _write(folder / part.file, part.fingerprint, result)
            results[part.name] = result
            progress.advance(part.passes * part.cost, units=part.passes)
            progress.milestone(part.name)
    return {part.name: results[part.name] for part in parts}


@functools.cache
def _code() -> str:
    """Of the package, less what only shows results: a new figure computes nothing again."""
    root, digest = Path(isotherm.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if not any(path.match(pattern) for pattern in _SHOWING):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _run(function: Callable[..., dict[str, Any]], arguments: dict[str, Any]) -> dict[str, Any]:
    return function(**arguments)


def _read(path: Path, fingerprint: str) -> dict[str, Any] | None:
    """What a file holds, if it is whole and of this very part."""
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return record["result"] if record.get("fingerprint") == fingerprint else None


def _write(path: Path, fingerprint: str, result: dict[str, Any]) -> None:
    text = json.dumps({"fingerprint": fingerprint, "result": result}, allow_nan=False)
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(text)
    os.replace(temporary, path)
