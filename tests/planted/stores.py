"""Mistakes in files: checksums that are not looked at, and names that a power cut may lose."""

from planted.bug import Bug

DAMAGED = ("test_damaged_files.py::test_damaged_files_give_the_same_numbers_or_a_sentence",)
TORN = ("test_torn_writes.py::test_a_run_goes_on_from_some_torn_disks",)

STORES = (
    Bug(
        "checksum-of-an-array-ignored",
        "Draws with other numbers are loaded if the zip they are in is whole.",
        "_read",
        "or hashlib.sha256(view).hexdigest() != digest",
        "",
        ("test_draws.py::test_an_array_in_a_zip_that_is_whole_is_held_against_its_checksum",),
    ),
    Bug(
        "checksum-of-a-chunk-ignored",
        "Draws of a stored run are read whatever is in their chunks.",
        "checked_chunk",
        "if _checksum(chunk) != checksums[number, layout.leaves.index(leaf)]:",
        "if False:",
        (*DAMAGED, "test_stored_array.py"),
    ),
    Bug(
        "files-of-two-runs-mixed",
        "A run goes on with the setup, the state or the result of another run.",
        "check_seals",
        "any(after.get(name) != seal for name, seal in earlier)",
        "False",
        DAMAGED,
    ),
    Bug(
        "diagnosis-of-other-draws",
        "A report shows the diagnosis of another run.",
        "read_run",
        'if record.get("draws") != _digest(draws):',
        "if False:",
        ("test_run_folder.py::test_the_diagnosis_of_other_draws_is_refused",),
    ),
    Bug(
        "name-of-a-file-not-flushed",
        "A file is counted as stored before its name is on the disk.",
        "replacing",
        "sync_folder(target.parent)",
        "pass",
        ("test_files.py::test_a_file_and_its_name_are_flushed_in_order",),
    ),
    Bug(
        "name-of-a-folder-not-flushed",
        "A power cut takes a new folder away with all draws in it.",
        "make_folder",
        "sync_folder(folder.parent)",
        "pass",
        TORN,
    ),
    Bug(
        "state-before-its-draws",
        "A state is stored before the draws that it counts.",
        "DrawsWriter.flush",
        "        if rest:\n            self._write()\n",
        "        if rest:\n",
        TORN,
    ),
)
