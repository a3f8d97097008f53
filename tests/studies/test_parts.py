"""Experiments in parts: finished parts survive a failure of the others; calls in worker processes."""

import ast
import json
import os
import signal
from pathlib import Path

import pytest
from rich.console import Console

import isotherm
from isotherm.studies.experiments import parts
from isotherm.studies.experiments.parts import Part, compute
from isotherm.studies.workers import LostWorkerError, side_by_side

PACKAGE = Path(isotherm.__file__).parent


def double(x, log, fail_at=None):
    """A part that records each call in a file."""
    if x == fail_at:
        raise RuntimeError(f"no {x}")
    with open(log, "a") as file:
        file.write(f"{x}\n")
    return {"twice": 2 * x}


def sum_or_die(x, y):
    if y == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return x + y


@pytest.fixture
def console():
    return Console(record=True, width=120)


@pytest.fixture
def one_by_one(monkeypatch):
    """Run calls in this process, in order."""
    serial = lambda function, arguments: ((i, function(*args)) for i, args in enumerate(arguments))
    monkeypatch.setattr(parts, "side_by_side", serial)


def parts_of(log, values, **options):
    return [Part(f"part-{x}", double, {"x": x, "log": str(log), **options}, passes=x) for x in values]


def calls(log):
    return sorted(int(line) for line in log.read_text().split()) if log.exists() else []


@pytest.mark.usefixtures("one_by_one")
def test_parts_are_computed_once(tmp_path, console):
    log, folder = tmp_path / "log", tmp_path / "parts"
    first = compute(parts_of(log, [1, 2, 3]), folder, title="test", console=console)
    again = compute(parts_of(log, [1, 2, 3, 4]), folder, title="test", console=console)
    assert first == {f"part-{x}": {"twice": 2 * x} for x in (1, 2, 3)}
    assert again == first | {"part-4": {"twice": 8}}
    assert list(again) == ["part-1", "part-2", "part-3", "part-4"]
    assert calls(log) == [1, 2, 3, 4]
    text = console.export_text()
    assert "3 of 4 parts were computed before" in text
    assert "data passes" in text
    assert " s left" in text


@pytest.mark.usefixtures("one_by_one")
def test_a_failure_loses_no_finished_part(tmp_path, console):
    """Longest first: 5 and 4 are finished when 3 fails, and are not computed again."""
    log, folder = tmp_path / "log", tmp_path / "parts"
    planned = [*parts_of(log, [5, 4]), *parts_of(log, [3], fail_at=3), *parts_of(log, [2])]
    with pytest.raises(RuntimeError, match="no 3"):
        compute(planned, folder, title="test", console=console)
    assert calls(log) == [4, 5]
    assert len(compute([*parts_of(log, [5, 4, 3, 2])], folder, title="test", console=console)) == 4
    assert calls(log) == [2, 3, 4, 5]


@pytest.mark.usefixtures("one_by_one")
@pytest.mark.parametrize("damage", ["half", "other arguments", "empty"])
def test_a_damaged_file_or_one_of_another_part_is_not_used(tmp_path, console, damage):
    log, folder = tmp_path / "log", tmp_path / "parts"
    compute(parts_of(log, [1]), folder, title="test", console=console)
    (file,) = folder.iterdir()
    if damage == "other arguments":
        record = json.loads(file.read_text())
        file.write_text(json.dumps({**record, "fingerprint": "of something else"}))
    else:
        file.write_text(file.read_text()[: len(file.read_text()) // 2] if damage == "half" else "")
    assert compute(parts_of(log, [1]), folder, title="test", console=console) == {"part-1": {"twice": 2}}
    assert calls(log) == [1, 1]


def test_the_fingerprint_depends_on_arguments_and_function(tmp_path):
    (one,), (same,), (other,) = (parts_of(tmp_path / "log", [x]) for x in (1, 1, 2))
    assert one.fingerprint == same.fingerprint != other.fingerprint
    assert Part("part-1", sum_or_die, one.arguments).fingerprint != one.fingerprint


def test_only_computing_code_enters_the_fingerprint(tmp_path, monkeypatch):
    monkeypatch.setattr(isotherm, "__file__", str(tmp_path / "__init__.py"))
    computing, presentation = tmp_path / "kernel.py", tmp_path / "studies/experiments/drbm/figures.py"
    presentation.parent.mkdir(parents=True)
    hashes = []
    for code, figure in (("a", "a"), ("a", "b"), ("b", "b")):
        computing.write_text(code)
        presentation.write_text(figure)
        hashes.append(parts._code_hash.__wrapped__())
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize("pattern", parts._PRESENTATION)
def test_every_presentation_pattern_matches_a_file(pattern):
    """A pattern that matches no file is stale: the files it stood for now enter the fingerprint."""
    assert list(PACKAGE.glob(pattern)), f"{pattern!r} matches no file of the package"


def presentation_files():
    return {path for pattern in parts._PRESENTATION for path in PACKAGE.glob(pattern)}


def test_presentation_files_are_those_of_reports_figures_and_commands():
    names = {path.relative_to(PACKAGE).as_posix() for path in presentation_files()}
    for folder in ("cli", "plots", "reporting"):
        assert {path.relative_to(PACKAGE).as_posix() for path in (PACKAGE / folder).rglob("*.py")} <= names
    for experiment in ("gaussian", "logistic", "drbm"):
        assert {
            f"studies/experiments/{experiment}/{name}.py" for name in ("claims", "figures", "report")
        } <= names
    computing = ("kernel.py", "sampling/sample.py", "studies/experiments/measures.py")
    for name in (*computing, *(f"studies/experiments/{e}/runs.py" for e in ("logistic", "drbm"))):
        assert (PACKAGE / name).is_file()
        assert name not in names


@pytest.mark.parametrize(
    "module", ["logistic/runs.py", "logistic/problem.py", "drbm/runs.py", "drbm/choice.py"]
)
def test_the_code_of_a_part_imports_no_presentation_file(module):
    """Otherwise a saved result could survive a change of the code that computed it."""
    for node in ast.walk(ast.parse((PACKAGE / "studies" / "experiments" / module).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "isotherm":
            base = PACKAGE.parent.joinpath(*node.module.split("."))
            imported = {base.with_suffix(".py"), *(base / f"{alias.name}.py" for alias in node.names)}
            assert not imported & presentation_files()


@pytest.mark.slow
def test_parallel_processes_and_one_that_is_killed():
    assert dict(side_by_side(sum_or_die, [(1, 2), (3, 4), (5, 6)])) == {0: 3, 1: 7, 2: 11}
    lost = dict(side_by_side(sum_or_die, [(1, 0), (3, 0)]))
    assert all(isinstance(result, LostWorkerError) for result in lost.values())
    with pytest.raises(TypeError):
        list(side_by_side(sum_or_die, [(1, 2), (3, "text")]))


def test_no_call_or_one_call_needs_no_process():
    assert list(side_by_side(sum_or_die, [])) == []
    assert list(side_by_side(sum_or_die, [(1, 2)])) == [(0, 3)]
