"""Whole files to damage: draws, stored runs, folders of `isotherm sample`, data sets and parts, from small runs."""

import contextlib
import dataclasses
import gzip
import hashlib
import lzma
import os
import random
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import isotherm as iso
from isotherm.cli.folder import write_run, write_settings
from isotherm.cli.spec import Spec
from isotherm.draws.record import About
from isotherm.files import write_json
from isotherm.store import zarr_layout
from isotherm.store.saved import ABOUT, run_of
from isotherm.studies.experiments import parts
from isotherm.sums.journal import Journal
from support import stored_run
from support.made_forecast import made_forecast, table
from support.made_run import made_diagnosis, made_draws

DRAWS, LONGER = 60, 90
CHUNK_BYTES = 2**11  # so that a short run has several chunks
DATA = b"1 1:0.5 3:2\n3 2:-1\n" * 500
COMPRESSED = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}
PASSES = 4


@dataclasses.dataclass(frozen=True)
class Original:
    """A folder of whole files.

    - `name`: what it is: a key of `reading.READERS`.
    - `folder`: the files; `older`: the folder as it was at earlier times; `other`: a like folder of another run.
    """

    name: str
    folder: Path
    older: tuple[Path, ...] = ()
    other: Path | None = None


def made(folder: Path, *, whole: bool = True) -> list[Original]:
    """Write files of every kind to a folder. If not `whole`, leave out the slow ones."""
    (folder / "ready").mkdir(parents=True)
    made_draws(3).save(folder / "made" / "draws.iso")
    first = _run(folder, "first", seed=5)
    second = _run(folder, "second", seed=6)
    iso.load(first[-1]).save(folder / "drawn" / "draws.iso")
    ended = first[: len(first) // 2]
    found = [
        Original("draws", folder / "made"),
        Original("draws", folder / "drawn"),
        Original("run", first[-1], tuple(first[2:-1]), second[-1]),
        Original("ended", ended[-1], tuple(ended[2:-1]), second[len(second) // 2]),
        _passes(folder / "passes"),
        _sampled(folder),
        _data(folder / "data"),
        _part(folder / "part"),
    ]
    return found if not whole else [*found, _with_a_warm_up(folder)]


def _run(folder: Path, name: str, *, seed: int) -> list[Path]:
    """Return copies of a run's folder after each file that it wrote; it is resumed once for more draws."""
    target = folder / name
    with _copied(target, folder / f"{name}-copies") as copies, small_chunks():
        stored_run.run("by_hand", target, DRAWS, seed=seed)
        posterior, rows = stored_run.posterior(), stored_run.rows(stored_run.ROWS)
        iso.resume(target, posterior, rows, num_draws=LONGER, progress=False)
    about = {"about": dataclasses.asdict(About(f"run {seed}")), "labels": {}, "runs": [run_of(target)]}
    write_json(target / ABOUT, about)
    return [*copies, target]


@contextlib.contextmanager
def small_chunks() -> Iterator[None]:
    """Store few draws in a chunk."""
    before, zarr_layout._CHUNK_BYTES = zarr_layout._CHUNK_BYTES, CHUNK_BYTES
    try:
        yield
    finally:
        zarr_layout._CHUNK_BYTES = before


@contextlib.contextmanager
def _copied(folder: Path, copies: Path) -> Iterator[list[Path]]:
    """Copy a folder each time that a state has been written in the block; its run has the same identity each time."""
    replace, token, found = os.replace, secrets.token_hex, []
    rng = random.Random(folder.name)
    secrets.token_hex = lambda count: rng.randbytes(count).hex()

    def copying(source: str, target: str) -> None:
        replace(source, target)
        if Path(target).name.startswith("state"):
            found.append(copies / f"{len(found):03}")
            shutil.copytree(folder, found[-1])

    os.replace = copying
    try:
        yield found
    finally:
        os.replace, secrets.token_hex = replace, token


def _with_a_warm_up(folder: Path) -> Original:
    """Return a run whose setup is that of a warm-up, and holds a pytree."""
    stored_run.run("tuned", folder / "tuned", DRAWS)
    return Original("tuned", folder / "tuned")


def _passes(folder: Path) -> Original:
    """Return results of passes, as a warm-up stores them."""
    journal = Journal(folder)
    for i in range(PASSES):
        journal.recall(f"pass {i}", lambda i=i: pass_result(i))
    return Original("passes", folder)


def pass_result(number: int) -> dict[str, np.ndarray]:
    """Return what a pass computes."""
    rng = np.random.default_rng(number)
    return {"value": rng.normal(size=()), "gradient": rng.normal(size=(4,)).astype(np.float32)}


def _sampled(folder: Path) -> Original:
    """Return a folder of `isotherm sample`, and one of another model."""
    for name, shift in (("sampled", 0.0), ("sampled-other", 2.0)):
        draws = made_forecast("linear", shift=shift)
        draws.save(folder / name / "draws.iso")
        write_run(folder / name, draws, draws.summary(), made_diagnosis(draws))
        shutil.rmtree(folder / name / "figures", ignore_errors=True)
        (folder / name / "report.html").unlink()
        spec = Spec(folder=folder / name, model="linear", data={"path": "t.csv", "target": "y"})
        write_settings(folder / name, spec, seed=int(shift), effort=1.0)
    pd.DataFrame(table(20, seed=1)).to_csv(folder / "new.csv", index=False)
    return Original("sampled", folder / "sampled", other=folder / "sampled-other")


def _data(folder: Path) -> Original:
    """Return data sets with checksums beside them."""
    for suffix, compress in COMPRESSED.items():
        folder.mkdir(exist_ok=True)
        path = folder / f"set{suffix}"
        path.write_bytes(compress(DATA))
        path.with_name(path.name + ".sha256").write_text(f"{hashlib.sha256(DATA).hexdigest()}  set\n")
    return Original("data", folder)


def _part(folder: Path) -> Original:
    """Return the results of two parts of an experiment."""
    folder.mkdir()
    for i in range(2):
        parts._write(folder / f"{i}.json", f"part {i}", {"error": i / 3, "path": [1.0, 2.0]})
    return Original("part", folder)
