"""The folder of a run: draws, summary, diagnosis, figures and report."""

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np

from isotherm.files import read_json, refusing_damage, write_json
from isotherm.reporting.report import images, run_page
from isotherm.reporting.to_json import diagnosis_from_json, diagnosis_to_json, summary_to_json
from isotherm.storage import REPAIR as SAMPLE_AGAIN
from isotherm.storage import write_text

if TYPE_CHECKING:
    from isotherm.cli.spec import Spec
    from isotherm.draws import Draws
    from isotherm.judging.diagnosis import Diagnosis
    from isotherm.judging.summary import Summary

DRAWS, SUMMARY, DIAGNOSIS, REPORT = "draws.iso", "summary.json", "diagnosis.json", "report.html"
STORE, SETTINGS, FIGURES = "store", "settings.json", "figures"
_REPAIR = "Restore it from a copy, or delete it to go on without the diagnosis."


def write_run(folder: Path, draws: "Draws", summary: "Summary", diagnosis: "Diagnosis | None") -> list[Path]:
    """Write all files of a run except the draws, which are saved earlier; return the paths of all its files."""
    write_json(folder / SUMMARY, summary_to_json(summary))
    if diagnosis is not None:
        write_json(folder / DIAGNOSIS, diagnosis_to_json(diagnosis) | {"draws": _digest(draws)})
    write_report(folder, draws, summary, diagnosis)
    names = (DRAWS, STORE, SUMMARY, DIAGNOSIS, REPORT)
    return [folder / name for name in names if (folder / name).exists()]


def write_report(folder: Path, draws: "Draws", summary: "Summary", diagnosis: "Diagnosis | None") -> Path:
    """Write the figures and the page of a run; return the path of the page."""
    pictures = images(draws, summary)
    for name, image in (pictures or {}).items():
        (folder / FIGURES).mkdir(exist_ok=True)
        (folder / FIGURES / f"{name}.png").write_bytes(image)
    page = run_page(draws, summary, pictures, diagnosis=diagnosis, data=None, title=draws.about.title)
    write_text(folder / REPORT, page)
    return folder / REPORT


def forget(folder: Path) -> None:
    """Delete the results of an earlier run, so that they are never taken for those of a new one."""
    for name in (DRAWS, SUMMARY, DIAGNOSIS, REPORT, SETTINGS):
        (folder / name).unlink(missing_ok=True)
    for name in (STORE, FIGURES):
        if (folder / name).is_dir():
            shutil.rmtree(folder / name)


def is_run(folder: Path) -> bool:
    """Return whether a folder holds draws, or the store of a run."""
    return any((folder / name).exists() for name in (DRAWS, STORE))


def remove_if_empty(folder: Path) -> None:
    """Delete the settings of a run that was refused, and the folder if there is nothing else in it."""
    if not (folder / STORE).exists():
        (folder / SETTINGS).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()


def write_settings(folder: Path, spec: "Spec", *, seed: int, effort: float) -> None:
    """Write what `isotherm resume` needs to know of a run."""
    plain = dataclasses.asdict(spec) | {"folder": str(spec.folder)}
    write_json(folder / SETTINGS, {"spec": plain, "seed": seed, "effort": effort})


def read_settings(folder: Path) -> "tuple[Spec, int, float]":
    """Return the spec of a run, its seed and the effort of its diagnosis."""
    from isotherm.cli.spec import Spec

    path = folder / SETTINGS
    if not path.is_file():
        raise _not_a_run(folder, f"it has no {SETTINGS}")
    content = read_json(path, SAMPLE_AGAIN)
    with refusing_damage(path, SAMPLE_AGAIN):
        spec = Spec(**content["spec"] | {"folder": Path(content["spec"]["folder"])})
        return spec, int(content["seed"]), float(content["effort"])


def _not_a_run(folder: Path, missing: str) -> FileNotFoundError:
    """Return the error for a folder that `isotherm sample` did not write."""
    from isotherm.store.saved import parts

    if next(parts(folder), None) is not None:
        return FileNotFoundError(
            f"{folder} holds a run of Python, which the command cannot go on with: it has neither the model nor the "
            f'data. Call `iso.resume("{folder}", posterior, data)`, or '
            f'`iso.report(iso.load("{folder}"), "report.html")`'
        )
    return FileNotFoundError(f"{folder} is not the folder of a run: {missing}")


def _digest(draws: "Draws") -> str:
    """Return a hash that tells draws from those of any other run: of their record and their moments."""
    digest = hashlib.sha256(json.dumps(draws.record.to_json(), sort_keys=True).encode())
    for x in jax.tree.leaves((draws.moments.count, draws.moments.mean, draws.moments.variance)):
        digest.update(np.ascontiguousarray(x).tobytes())
    return digest.hexdigest()


def save_draws(folder: Path, draws: "Draws") -> None:
    """Write what the draws are about into their store, and the draws to one file unless they fill the memory."""
    from isotherm.store.saved import ABOUT, parts, run_of
    from isotherm.store.stored_array import StoredArray

    runs = [run_of(part) for part in parts(folder / STORE)]
    about = {"about": dataclasses.asdict(draws.about), "labels": draws.labels, "runs": runs}
    write_json(folder / STORE / ABOUT, about)
    if not any(isinstance(x, StoredArray) for x in jax.tree.leaves(draws.posterior)):
        draws.save(folder / DRAWS)


def read_run(folder: Path) -> "tuple[Draws, Summary, Diagnosis | None]":
    """Return the draws and the summary of a run, and its diagnosis if there is one."""
    import isotherm as iso
    from isotherm.tables.fitted import fitted

    path = folder / DRAWS if (folder / DRAWS).is_file() else folder / STORE
    if not path.exists():
        raise _not_a_run(folder, f"it has no {DRAWS} and no {STORE}")
    draws = iso.load(path)
    if {"model", "levels"} <= draws.about.model.keys():
        with refusing_damage(path, SAMPLE_AGAIN):
            fitted(draws)
    summary, path = draws.summary(), folder / DIAGNOSIS
    if not os.path.lexists(path):
        return draws, summary, None
    record = read_json(path, _REPAIR)
    with refusing_damage(path, _REPAIR):
        if record.get("draws") != _digest(draws):
            raise ValueError("it is the diagnosis of other draws than those of the folder")
        return draws, summary, diagnosis_from_json(record, summary)
