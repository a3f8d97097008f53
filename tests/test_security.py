"""What docs/security.md promises of files that come from others, where no other test does."""

import ast
import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import pickle
import re
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

import isotherm as iso
from isotherm.data.sets.catalogue import File
from isotherm.data.sets.fetch import read
from isotherm.errors import DamagedFileError
from isotherm.files import write_json
from isotherm.store import plain
from isotherm.tables.reader import open_table, read_table
from support.made_run import made_draws

ROOT = Path(__file__).parent.parent
SOURCES = sorted(Path(iso.__file__).parent.rglob("*.py"))
BOMB = 2**27  # bytes
COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


class Planted:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


def test_nothing_is_unpickled_or_evaluated():
    forbidden = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib"}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not forbidden & {name.partition(".")[0] for name in names}, path
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("eval", "exec", "os.system"), path
                options = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
                assert called != "np.load" or options.get("allow_pickle") == "False", path
                assert options.get("shell") is None, path


@pytest.mark.parametrize("name", ["t.npy", "t.npz"])
def test_pickled_objects_in_files_are_refused_unread(name, tmp_path):
    array = np.array([Planted(tmp_path / "planted")], object)
    (np.save if name.endswith("npy") else np.savez)(tmp_path / name, array, allow_pickle=True)
    readers = [read_table, open_table, iso.load] + ([iso.data.npy] if name.endswith("npy") else [])
    for reader in readers:
        with pytest.raises(ValueError, match=r"cannot be read|are not read|is damaged"):
            reader(tmp_path / name)
    assert not (tmp_path / "planted").exists()
    pickle.loads(pickle.dumps(array))  # it would have been made
    assert (tmp_path / "planted").exists()


def test_a_forged_size_allocates_nothing(tmp_path):
    """The checksums of the forged record are right."""
    path = tmp_path / "draws.iso"
    made_draws(1).save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    record = json.loads(members["record.json"])
    record["arrays"][0]["shape"] = [2**40, 2**10]
    members["record.json"] = json.dumps(record).encode()
    members["record.sha256"] = hashlib.sha256(members["record.json"]).hexdigest().encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    tracemalloc.start()
    with pytest.raises(DamagedFileError, match="does not have the length"):
        iso.load(path)
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


def test_a_compressed_archive_is_refused(tmp_path):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("record.json", b"0" * 2**20)
    (tmp_path / "draws.iso").write_bytes(file.getvalue())
    with pytest.raises(DamagedFileError, match="must not be compressed"):
        iso.load(tmp_path / "draws.iso")


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_compressed_file_is_not_held_beyond_its_published_size(suffix, tmp_path):
    path, content = tmp_path / f"rows{suffix}", bytes(BOMB)
    path.write_bytes(COMPRESS[suffix](content))
    file = File("rows", "https://example.org/rows", size=2**20, sha256=hashlib.sha256(content).hexdigest())
    del content
    tracemalloc.start()
    with pytest.raises(DamagedFileError, match="it has more than 1,048,576 bytes uncompressed"):
        read(path, file)
    assert tracemalloc.get_traced_memory()[1] < BOMB / 4
    tracemalloc.stop()


def test_a_data_set_without_a_published_checksum_is_refused_until_the_user_vouches_for_it(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(b"content")
    file = File("rows", "https://example.org/rows")
    with pytest.raises(DamagedFileError, match="cannot be checked, since no checksum of rows was published"):
        read(path, file)
    (tmp_path / "rows.sha256").write_text(hashlib.sha256(b"content").hexdigest())
    assert read(path, file) == b"content"
    (tmp_path / "rows.sha256").write_text("0" * 64)
    with pytest.raises(DamagedFileError, match="is not rows as it was published"):
        read(path, file)


def test_a_json_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "settings.json"
    write_json(path, {"a": 1})
    before = path.read_bytes()

    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr("isotherm.files.os.replace", full)
    with pytest.raises(OSError, match="disk full"):
        write_json(path, {"a": 2})
    assert path.read_bytes() == before
    assert [x.name for x in tmp_path.iterdir()] == ["settings.json"]


@pytest.mark.parametrize(
    "name", ["os:system", "subprocess:Popen", "isotherm.files:write_text", "builtins:eval"]
)
def test_stored_objects_are_of_no_other_classes_than_those_of_the_library(name):
    node = {"class": name, "fields": {}}
    with pytest.raises(ValueError, match=r"is not a (data )?class"):
        plain.decode(node, [])


def test_the_page_names_tests_that_exist():
    page = (ROOT / "docs" / "security.md").read_text()
    named = re.findall(r"`(tests/[\w./]+)`", page)
    assert len(named) > 8
    assert [name for name in named if not (ROOT / name).exists()] == []
