"""The folder of a run: draws, summary, diagnosis, figures and report."""

from pathlib import Path
from typing import TYPE_CHECKING

from isotherm.files import read_json, refusing_damage, write_json
from isotherm.reporting.report import images, run_page
from isotherm.reporting.to_json import diagnosis_from_json, diagnosis_to_json, summary_to_json
from isotherm.storage import write_text

if TYPE_CHECKING:
    from isotherm.draws import Draws
    from isotherm.judging.diagnosis import Diagnosis
    from isotherm.judging.summary import Summary

DRAWS, SUMMARY, DIAGNOSIS, REPORT = "draws.iso", "summary.json", "diagnosis.json", "report.html"
_REPAIR = "Restore it from a copy, or delete it to go on without the diagnosis."


def write_run(folder: Path, draws: "Draws", summary: "Summary", diagnosis: "Diagnosis | None") -> list[Path]:
    """Write all files of a run except the draws, which are saved earlier; return the paths of all its files."""
    write_json(folder / SUMMARY, summary_to_json(summary))
    if diagnosis is not None:
        write_json(folder / DIAGNOSIS, diagnosis_to_json(diagnosis))
    write_report(folder, draws, summary, diagnosis)
    names = (DRAWS, SUMMARY, DIAGNOSIS, REPORT)
    return [folder / name for name in names if (folder / name).exists()]


def write_report(folder: Path, draws: "Draws", summary: "Summary", diagnosis: "Diagnosis | None") -> Path:
    """Write the figures and the page of a run; return the path of the page."""
    pictures = images(draws, summary)
    for name, image in (pictures or {}).items():
        (folder / "figures").mkdir(exist_ok=True)
        (folder / "figures" / f"{name}.png").write_bytes(image)
    page = run_page(draws, summary, pictures, diagnosis=diagnosis, data=None, title=draws.about.title)
    write_text(folder / REPORT, page)
    return folder / REPORT


def remove_results(folder: Path) -> None:
    """Delete the results of an earlier run, which do not describe the new draws."""
    for name in (SUMMARY, DIAGNOSIS, REPORT):
        (folder / name).unlink(missing_ok=True)


def read_run(folder: Path) -> "tuple[Draws, Summary, Diagnosis | None]":
    """Return the draws and the summary of a run, and its diagnosis if there is one."""
    import isotherm as iso

    if not (folder / DRAWS).is_file():
        raise FileNotFoundError(f"{folder} is not the folder of a run: it has no {DRAWS}")
    draws = iso.load(folder / DRAWS)
    summary, path = draws.summary(), folder / DIAGNOSIS
    if not path.is_file():
        return draws, summary, None
    record = read_json(path, _REPAIR)
    with refusing_damage(path, _REPAIR):
        return draws, summary, diagnosis_from_json(record, summary)
