"""A power cut loses what was not flushed: from every disk that it may leave, a run goes on to the same bits."""

import os
import random
from pathlib import Path

import numpy as np
import pytest

from isotherm.chains import recording
from isotherm.store import zarr_layout
from support.stored_run import contents, run
from support.torn import Disk, Operation, disks, recorded

DRAWS = 40
SAMPLE = 10
SEED = 1

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Store states whenever there is something new, and several chunks of draws."""
    monkeypatch.setattr(recording, "_SECONDS", 0.0)
    monkeypatch.setattr(recording, "_SHARE", 0)
    monkeypatch.setattr(zarr_layout, "_CHUNK_BYTES", 2**10)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # the disk of the test need not survive
    monkeypatch.setattr("isotherm.chains.drive._Pace.record", lambda *_: None)  # chunks of 32 steps


def whole(folder):
    """Return the result of a run that was never ended, and what it did on the disk."""
    with recorded(folder) as operations:
        draws = run("by_hand", folder, DRAWS)
    return contents(draws), disks(operations)


def faults(expected, left, folder):
    """Return what is wrong with runs that go on from some disks."""
    found = []
    for i, disk in enumerate(left):
        disk.write(folder / str(i))
        try:
            result = contents(run("by_hand", folder / str(i) / "whole", DRAWS))
        except (OSError, ValueError) as error:
            found.append(f"{disk.when}: {error}")
            continue
        if not all(np.array_equal(x, expected[k], equal_nan=True) for k, x in result.items()):
            found.append(f"{disk.when}: other draws")
    return found


@pytest.mark.slow
def test_a_run_goes_on_from_some_torn_disks(tmp_path):
    expected, left = whole(tmp_path / "whole")
    assert len(left) > 100
    # Before the first state there is little to lose.
    later = [x for x in left if any(path.name.startswith("state") for path, _ in x.entries)]
    rng = random.Random(SEED)
    rng.shuffle(later)
    later.sort(key=lambda disk: not disk.reordered)  # those that a missing flush allows come first
    assert faults(expected, later[:SAMPLE], tmp_path) == []


@pytest.mark.slow
def test_a_run_goes_on_from_every_torn_disk(tmp_path):
    expected, left = whole(tmp_path / "whole")
    assert faults(expected, left, tmp_path) == []


def test_the_disks_have_every_part_of_what_was_not_flushed():
    """A file is renamed before its folder is flushed: the old one, the new one, or both names may be there."""
    folder, new, old = Path("f"), Path("f/.new"), Path("f/file")
    operations = [
        Operation("make", folder),
        Operation("sync", Path()),
        Operation("create", old, content=b"old"),
        Operation("flush", old),
        Operation("sync", folder),
        Operation("create", new, content=b"newer"),
        Operation("rename", old, source=new),
    ]
    seen = {dict(disk.entries).get(old) for disk in disks(operations)}
    assert seen == {None, b"", b"o", b"\0\0\0", b"old", b"ne", b"newer"[:0], bytes(5)}
    flushed = [*operations[:6], Operation("flush", new), operations[6], Operation("sync", folder)]
    last = disks(flushed)[-1]
    assert isinstance(last, Disk)
    assert {dict(disk.entries).get(old) for disk in disks(flushed)} == {
        None,
        b"",
        b"o",
        b"\0\0\0",
        b"old",
        b"newer",
    }
    assert dict(last.entries) == {folder: None, old: b"newer"}
