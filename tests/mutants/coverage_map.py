"""Which test files run which lines of the library: measured once and kept as JSON."""

import dataclasses
import hashlib
import importlib.util
import json
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from support.copies import FAST, ROOT, SLOW, TestRun, copy_of_the_tree, run_pytest, workers

DEFAULT = ROOT / ".pytest_cache" / "mutants-coverage.json"
_LIMIT_SECONDS = 3600.0  # for one file
_CONFIGURATION = "[run]\nparallel = true\ndata_file = {data}\nsource = {source}\npatch = subprocess\n"


@dataclasses.dataclass(frozen=True)
class Covered:
    """The lines that the fast or the slow tests of one file run, each file in a process of its own.

    - `digest`: of the test file, so that a changed file is measured again.
    - `lines`: by file of the library, relative to `src/isotherm`; `sources` has the digests of these files.
    - `tests`: seconds of each test. `failing` are those that failed without any mutant.
    """

    file: str
    slow: bool
    digest: str
    lines: Mapping[str, list[int]]
    tests: Mapping[str, float]
    failing: list[str]
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def label(self) -> str:
        """The file as it was measured, and which of its tests."""
        return f"{self.file} {'slow' if self.slow else 'fast'} {self.digest}"

    @property
    def can_run(self) -> bool:
        """Whether there are tests, and pytest can import them."""
        return bool(self.tests) and all("::" in test for test in self.failing)

    @property
    def seconds(self) -> float:
        """Seconds of all its tests together, without starting Python."""
        return sum(self.tests.values())


def load(path: Path) -> dict[tuple[str, bool], Covered]:
    """Return the measurements in a file by test file and speed, or none if there is no such file."""
    entries = [Covered(**entry) for entry in json.loads(path.read_text())] if path.exists() else []
    return {(entry.file, entry.slow): entry for entry in entries}


def measure(
    path: Path,
    files: list[str],
    *,
    slow: bool,
    jobs: int,
    may_go_on: Callable[[], bool],
) -> list[Covered]:
    """Measure the fast, and if `slow` the slow, tests of files that `path` does not have or that changed since.

    Without the package `coverage` nothing is measured: the map is one from another machine.
    """
    kept, lock = load(path), threading.Lock()
    parts = [(file, slow_ones) for slow_ones in (False, True)[: 1 + slow] for file in files]
    stale = [part for part in parts if part not in kept or kept[part].digest != digest(ROOT / part[0])]

    def one(part: tuple[str, bool]) -> None:
        if not may_go_on():
            return
        entry = _measured(*part)
        with lock:
            kept[part] = entry
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps([dataclasses.asdict(kept[p]) for p in sorted(kept)]))
            failing = f", failing: {' '.join(entry.failing)}" if entry.failing else ""
            print(f"{entry.seconds:6.0f} s  {len(entry.tests)} tests, {entry.label}{failing}", flush=True)

    if importlib.util.find_spec("coverage") is not None:
        with workers(jobs) as pool:
            list(pool.map(one, stale))
    return [kept[part] for part in parts if part in kept]


def digest(path: Path) -> str:
    """Return a digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _measured(file: str, slow: bool) -> Covered:
    import coverage

    if slow and "slow" not in (ROOT / file).read_text():
        return Covered(file, slow, digest(ROOT / file), {}, {}, [])
    with tempfile.TemporaryDirectory(prefix="covered-") as folder:
        copy = copy_of_the_tree(Path(folder))
        source = (copy / "src" / "isotherm").resolve()
        configuration, data = Path(folder) / "coveragerc", Path(folder) / "data"
        configuration.write_text(_CONFIGURATION.format(data=data, source=source))
        command = ("-m", "coverage", "run", f"--rcfile={configuration}", "-m", "pytest")
        options = [*(SLOW if slow else FAST), file]
        run = run_pytest(copy, options, limit=_LIMIT_SECONDS, command=command)
        lines: dict[str, set[int]] = {}
        for part in Path(folder).glob("data.*"):  # one of each process
            measured = coverage.CoverageData(str(part))
            measured.read()
            for name in measured.measured_files():
                relative = Path(name).relative_to(source).as_posix()
                lines.setdefault(relative, set()).update(measured.lines(name) or ())
        ran = {name: sorted(numbers) for name, numbers in lines.items() if numbers}
        sources = {name: digest(source / name) for name in ran}
    return Covered(file, slow, digest(ROOT / file), ran, run.seconds_of, _failing(run), sources)


def _failing(run: TestRun) -> list[str]:
    return [*run.failed, *([run.stopped_in] if run.stopped_in else []), *([run.output] if run.output else [])]
