"""Files that are replaced completely or not at all."""

import os

from isotherm.files import write_text


def test_a_file_and_its_name_are_flushed_in_order(tmp_path, monkeypatch):
    """The content is on the disk before it gets its name, and the name before `write_text` returns."""
    path, events = tmp_path / "file", []
    flush, rename = os.fsync, os.replace

    def flushed(handle):
        events.append(os.fstat(handle).st_ino)
        flush(handle)

    def renamed(old, new):
        events.append("renamed")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", renamed)
    write_text(path, "content")
    assert path.read_text() == "content"
    assert events == [path.stat().st_ino, "renamed", tmp_path.stat().st_ino]
