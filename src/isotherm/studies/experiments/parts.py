"""Split an experiment into parts. Each is computed once and saved, so that an interrupted run can resume."""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

import isotherm
from isotherm.files import read_json, write_json
from isotherm.progress import Progress
from isotherm.studies.workers import LostWorkerError, side_by_side
from isotherm.terminal import literal
from isotherm.versions import versions

# Files of the package that only present results, as glob patterns relative to it: no part depends on them.
_PRESENTATION = (
    "cli/**/*.py",
    "plots/**/*.py",
    "reporting/**/*.py",
    "**/progress.py",
    "studies/experiments/verdicts.py",
    "studies/experiments/*/claims.py",
    "studies/experiments/*/figures.py",
    "studies/experiments/*/report.py",
    "studies/experiments/*/table.py",
)


@dataclasses.dataclass(frozen=True)
class Part:
    """A call `function(**arguments)` of a module-level function whose arguments and result are plain JSON.

    - `passes`: the number of passes over the data, summed over its chains.
    - `cost`: the cost of one pass relative to other parts, for the estimate of the remaining time.
    """

    name: str
    function: Callable[..., dict[str, Any]]
    arguments: dict[str, Any]
    passes: int | float = 0
    cost: int | float = 1

    @property
    def fingerprint(self) -> str:
        """Hash of everything the result depends on: function, arguments, code of the package, versions."""
        dependencies = {
            "function": f"{self.function.__module__}.{self.function.__qualname__}",
            "arguments": self.arguments,
            "code": _code_hash(),
            "versions": versions(),
        }
        return hashlib.sha256(json.dumps(dependencies, sort_keys=True).encode()).hexdigest()

    @property
    def file(self) -> str:
        """Name of the file that holds the result; parts with the same name and other arguments have other files."""
        return f"{self.name}.{self.fingerprint[:8]}.json"


def compute(
    parts: Sequence[Part], folder: Path, *, title: str, console: Console
) -> dict[str, dict[str, Any]]:
    """Return the results of all parts by name. Results saved in `folder` are read; other parts run in parallel.

    An interruption or an error loses only the parts that were running.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results, missing = {}, []
    for part in parts:
        saved = _read(folder / part.file, part.fingerprint)
        if saved is None:
            missing.append(part)
        else:
            results[part.name] = saved
    if results:
        console.print(literal(f"{title}: {len(results)} of {len(parts)} parts were computed before"))
    # Longest first, so that no core is left waiting for a long part at the end.
    missing.sort(key=lambda part: -part.passes * part.cost)
    work, passes = sum(part.passes * part.cost for part in missing), 0
    with Progress(title, work, console=console, lines=True) as progress:
        progress.say(f"{len(missing)} parts")
        for i, result in side_by_side(_run, [(p.function, p.arguments) for p in missing]):
            part = missing[i]
            if isinstance(result, LostWorkerError):
                raise LostWorkerError(
                    f"{result} Run the same command again to resume from the finished parts."
                )
            _write(folder / part.file, part.fingerprint, result)
            results[part.name] = result
            progress.advance(part.passes * part.cost)
            passes += part.passes
            progress.say(f"{passes:,.0f} data passes")
            progress.milestone(f"{part.name}, {passes:,.0f} data passes")
    return {part.name: results[part.name] for part in parts}


@functools.cache
def _code_hash() -> str:
    """Hash of the package without its presentation files, so that a new figure forces no recomputation."""
    package, digest = Path(isotherm.__file__).parent, hashlib.sha256()
    presentation = {path for pattern in _PRESENTATION for path in package.glob(pattern)}
    for path in sorted(package.rglob("*.py")):
        if path not in presentation:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _run(function: Callable[..., dict[str, Any]], arguments: dict[str, Any]) -> dict[str, Any]:
    return function(**arguments)


def _read(path: Path, fingerprint: str) -> dict[str, Any] | None:
    """Return the result saved in a file, or `None` if the file is missing, damaged or of another part."""
    try:
        record = read_json(path, "")
    except OSError:
        return None
    return record.get("result") if record.get("fingerprint") == fingerprint else None


def _write(path: Path, fingerprint: str, result: dict[str, Any]) -> None:
    write_json(path, {"fingerprint": fingerprint, "result": result})
