"""Experiments in parts: what is done is kept, whatever happens to the rest; work in processes of its own."""

import json
import os
import signal

import pytest
from rich.console import Console

from isotherm.studies.experiments import parts
from isotherm.studies.experiments.parts import Part, compute
from isotherm.studies.workers import LostWorkerError, side_by_side


def double(x, log, fail_at=None):
    """A part that notes each call in a file."""
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
    """In this process, in order."""
    serial = lambda function, arguments: ((i, function(*own)) for i, own in enumerate(arguments))
    monkeypatch.setattr(parts, "side_by_side", serial)


def of(log, values, **more):
    return [Part(f"part-{x}", double, {"x": x, "log": str(log), **more}, passes=x) for x in values]


def calls(log):
    return sorted(int(line) for line in log.read_text().split()) if log.exists() else []


@pytest.mark.usefixtures("one_by_one")
def test_parts_are_computed_once(tmp_path, console):
    log, folder = tmp_path / "log", tmp_path / "parts"
    first = compute(of(log, [1, 2, 3]), folder, title="test", console=console)
    again = compute(of(log, [1, 2, 3, 4]), folder, title="test", console=console)
    assert first == {f"part-{x}": {"twice": 2 * x} for x in (1, 2, 3)}
    assert again == first | {"part-4": {"twice": 8}}
    assert list(again) == ["part-1", "part-2", "part-3", "part-4"]
    assert calls(log) == [1, 2, 3, 4]
    text = console.export_text()
    assert "3 of 4 parts are there already" in text
    assert "data passes" in text
    assert " s left" in text


@pytest.mark.usefixtures("one_by_one")
def test_what_fails_loses_no_other_part(tmp_path, console):
    """The longest runs first: 5 and 4 are done when 3 fails, and are not done again."""
    log, folder = tmp_path / "log", tmp_path / "parts"
    todo = [*of(log, [5, 4]), *of(log, [3], fail_at=3), *of(log, [2])]
    with pytest.raises(RuntimeError, match="no 3"):
        compute(todo, folder, title="test", console=console)
    assert calls(log) == [4, 5]
    assert len(compute([*of(log, [5, 4, 3, 2])], folder, title="test", console=console)) == 4
    assert calls(log) == [2, 3, 4, 5]


@pytest.mark.usefixtures("one_by_one")
@pytest.mark.parametrize("harm", ["half", "other arguments", "empty"])
def test_a_file_that_is_not_of_this_part_is_not_used(tmp_path, console, harm):
    log, folder = tmp_path / "log", tmp_path / "parts"
    compute(of(log, [1]), folder, title="test", console=console)
    (file,) = folder.iterdir()
    if harm == "other arguments":
        record = json.loads(file.read_text())
        file.write_text(json.dumps({**record, "fingerprint": "of something else"}))
    else:
        file.write_text(file.read_text()[: len(file.read_text()) // 2] if harm == "half" else "")
    assert compute(of(log, [1]), folder, title="test", console=console) == {"part-1": {"twice": 2}}
    assert calls(log) == [1, 1]


def test_the_fingerprint_is_of_arguments_and_function(tmp_path):
    (one,), (same,), (other,) = (of(tmp_path / "log", [x]) for x in (1, 1, 2))
    assert one.fingerprint == same.fingerprint != other.fingerprint
    assert Part("part-1", sum_or_die, one.arguments).fingerprint != one.fingerprint


@pytest.mark.slow
def test_processes_side_by_side_and_one_that_is_killed():
    assert dict(side_by_side(sum_or_die, [(1, 2), (3, 4), (5, 6)])) == {0: 3, 1: 7, 2: 11}
    lost = dict(side_by_side(sum_or_die, [(1, 0), (3, 0)]))
    assert all(isinstance(result, LostWorkerError) for result in lost.values())
    with pytest.raises(TypeError):
        list(side_by_side(sum_or_die, [(1, 2), (3, "text")]))


def test_no_work_and_one_piece_need_no_process():
    assert list(side_by_side(sum_or_die, [])) == []
    assert list(side_by_side(sum_or_die, [(1, 2)])) == [(0, 3)]
