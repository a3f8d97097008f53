"""Reading damaged files as users do, and what it may end in."""

import contextlib
import dataclasses
import hashlib
import io
import re
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import isotherm as iso
import isotherm.cli.folder
from campaigns.damaged.json_damage import FORGED
from campaigns.damaged.originals import COMPRESSED, DATA, PASSES, pass_result, small_chunks
from isotherm.chains import recording
from isotherm.cli import main as command
from isotherm.cli.watch import look
from isotherm.data.sets import fetch
from isotherm.data.sets.catalogue import File
from isotherm.errors import DamagedFileError
from isotherm.studies.experiments import parts
from isotherm.sums import journal
from support.stored_run import ROWS, contents, posterior, rows

GOOD = ("same", "said", "forged")
BAD = ("silent", "raw", "hang", "crash", "memory")
Answer = dict[str, Any]

_PATIENCE_S = 60
_SENTENCES = (DamagedFileError, ValueError, OSError, FileNotFoundError, PermissionError, IsADirectoryError,
              NotADirectoryError, FileExistsError)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Ending:
    """What reading ended in, and the text of its error."""

    outcome: str
    text: str = ""


class HangError(Exception):
    """Raised when reading takes too long."""


def _of_draws(draws: iso.Draws) -> Answer:
    found = {**contents(draws), "status": draws.status, "labels": draws.labels, "about": draws.about}
    return found | {"derived": dict(draws.derived), "interrupted": draws.record.interrupted}


def _load(folder: Path) -> Answer:
    return _of_draws(iso.load(folder))


def _load_file(folder: Path) -> Answer:
    return _of_draws(iso.load(folder / "draws.iso"))


def _resume(folder: Path) -> Answer:
    recording._SECONDS, recording._SHARE = 0.0, 0  # as when the original was made
    with small_chunks():
        draws = iso.resume(folder, posterior(), rows(ROWS), progress=False)
        return _of_draws(dataclasses.replace(draws, about=iso.load(folder).about))


def _watch(folder: Path) -> Answer:
    text, ended = look(folder)
    return {
        "text": re.sub(r"\d+ s$", "", text, count=1, flags=re.MULTILINE),
        "ended": ended,
    }  # not the seconds


def _report(folder: Path) -> Answer:
    if _called("report", folder) != 0:
        raise AssertionError("a report that fails has a reason")
    return {"page": (folder / "report.html").read_text()}


def _predict(folder: Path) -> Answer:
    out = folder / "predictions.csv"
    code = _called("predict", folder, folder.parent / "new.csv", "--out", out)
    return {"code": code, "predictions": out.read_text()}


def _called(*arguments: Any) -> int:
    """Return the exit code of a command of isotherm; raise what it printed if it failed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(printed):
        code = command([str(x) for x in arguments])
    if code == 2:
        raise ValueError(printed.getvalue())
    return code


def _settings(folder: Path) -> Answer:
    return {"settings": isotherm.cli.folder.read_settings(folder)}


def _data(folder: Path) -> Answer:
    """Read files of unknown size whose checksum is beside them."""
    return {suffix: fetch.read(folder / f"set{suffix}", File("set", "")) for suffix in COMPRESSED}


def _known_data(folder: Path) -> Answer:
    """Read files whose checksum and size are known."""
    file = File("set", "", len(DATA), hashlib.sha256(DATA).hexdigest())
    return {suffix: fetch.read(folder / f"set{suffix}", file) for suffix in COMPRESSED}


def _passes(folder: Path) -> Answer:
    stored = journal.Journal(folder)
    return {str(i): stored.recall(f"pass {i}", lambda i=i: pass_result(i)) for i in range(PASSES)}


def _part(folder: Path) -> Answer:
    """A part that cannot be read is computed again."""
    computed = lambda i: {"error": i / 3, "path": [1.0, 2.0]}
    found = {str(i): parts._read(folder / f"{i}.json", f"part {i}") for i in range(2)}
    return {i: computed(int(i)) if x is None else x for i, x in found.items()}


READERS: dict[str, dict[str, Callable[[Path], Answer]]] = {
    "draws": {"load": _load_file},
    "run": {"load": _load, "resume": _resume, "watch": _watch},
    "ended": {"load": _load, "resume": _resume, "watch": _watch},
    "tuned": {"load": _load, "watch": _watch},
    "sampled": {"report": _report, "predict": _predict, "settings": _settings},
    "data": {"beside": _data, "known": _known_data},
    "passes": {"recall": _passes},
    "part": {"read": _part},
}

OPTIONAL = {
    "load": ["about.json"],
    "resume": ["about.json"],
    "report": ["diagnosis.json"],
    "predict": ["diagnosis.json"],
}


@contextlib.contextmanager
def without_figures() -> Iterator[None]:
    """Leave figures out of reports, which take seconds, and keep no compiled programs."""
    images = isotherm.cli.folder.images
    isotherm.cli.folder.images = lambda *_: None
    keeps = iso.keep_compiled
    iso.keep_compiled = lambda *_: None
    try:
        yield
    finally:
        isotherm.cli.folder.images, iso.keep_compiled = images, keeps


def judged(
    read: Callable[[Path], Answer], folder: Path, expected: list[Answer], damaged: list[str], label: str
) -> Ending:
    """Read a folder whose files `damaged` were damaged, and return what that ended in."""
    try:
        with _in_time(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = read(folder)
    except HangError:
        return Ending("hang")
    except Exception as error:
        return _of_error(error, folder, damaged)
    if any(equal(found, x) for x in expected) or _is_behind(found, expected[0]):
        return Ending("same")
    return Ending("forged" if FORGED in label else "silent", _difference(found, expected[0]))


@contextlib.contextmanager
def _in_time() -> Iterator[None]:
    def late(*_: Any) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(_PATIENCE_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _of_error(error: Exception, folder: Path, damaged: list[str]) -> Ending:
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, MemoryError):
        return Ending("memory", text)
    names = [str(folder), *(Path(name).name for name in damaged)]
    if type(error) in _SENTENCES and any(name in str(error) for name in names):
        return Ending("said", text)
    return Ending("raw", f"{text} [{traceback.format_tb(error.__traceback__)[-1].strip()}]")


def equal(one: Any, other: Any) -> bool:
    """Return whether two answers are the same, bit for bit."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[k], other[k]) for k in one)
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        one, other = np.asarray(one), np.asarray(other)
        same = one.shape == other.shape and one.dtype == other.dtype
        return same and one.tobytes() == other.tobytes()
    return type(one) is type(other) and one == other


def _is_behind(found: Answer, expected: Answer) -> bool:
    """Return whether these are the first of the expected draws, with the word that the run has not ended.

    An older state that is whole is where the run was, and a resumption goes on from there.
    """
    if "text" in found:
        return (
            re.match(r"ended early: [\d,]+ of [\d,]+ steps|ended in its warm-up", found["text"]) is not None
        )
    if not found.get("interrupted") or not all("steps so far" in x for x in found["status"]):
        return False
    drawn = lambda x: {k: v for k, v in x.items() if k.startswith(("posterior", "stats")) and v.ndim > 1}
    found, expected = drawn(found), drawn(expected)
    return found.keys() == expected.keys() and all(
        equal(x, expected[k][:, : x.shape[1]]) for k, x in found.items()
    )


def _difference(found: Answer, expected: Answer) -> str:
    keys = [k for k in {**found, **expected} if not equal(found.get(k), expected.get(k))]
    return "; ".join(f"{k}: {' instead of '.join(_apart(found.get(k), expected.get(k)))}" for k in keys[:2])


def _apart(one: Any, other: Any) -> list[str]:
    """Return two values as short text that begins a little before the first difference."""
    texts = [re.sub(r"\s+", " ", str(x)) for x in (one, other)]
    pairs = enumerate(zip(*texts, strict=False))
    place = max(0, next((i for i, (a, b) in pairs if a != b), 0) - 40)
    return [text[place : place + 120] for text in texts]
