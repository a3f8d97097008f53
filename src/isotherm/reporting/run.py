"""The report of a run: a verdict, figures, tables and where it all comes from, on one page."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isotherm.draws.record import RunRecord
from isotherm.judging.record import Diagnosis
from isotherm.judging.summary import Summary
from isotherm.reporting import citation, figures, page
from isotherm.reporting.page import Html, Section
from isotherm.reporting.tables import by_r_hat, findings, parameters
from isotherm.storage import write_text

if TYPE_CHECKING:
    from isotherm.draws import Draws

_TRACES, _MARGINALS = 4, 8


def report(
    draws: "Draws",
    path: str | os.PathLike[str],
    *,
    diagnosis: Diagnosis | None = None,
    data: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    title: str = "Posterior draws",
) -> Path:
    """Write a page on `draws` to `path`: one HTML file that needs no network.

    **Arguments:**

    - `diagnosis`: of `iso.diagnose(draws)`; where `None` the page rests on `draws.summary()`.
    - `data`: the file that the data are from, whose name and SHA-256 are shown; or names and values to show instead.
    - `title`: of the page.

    Without the extra `plots` there are no figures, and the page says so.
    """
    if isinstance(data, str | os.PathLike):
        from isotherm.tables.reader import fingerprint

        file = Path(data)
        data = {"file": file.name, "bytes": file.stat().st_size, "sha256": fingerprint(file)}
    summary = draws.summary() if diagnosis is None else diagnosis.summary
    text = run_page(draws, summary, images(draws, summary), diagnosis=diagnosis, data=data, title=title)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return path


def images(draws: "Draws", summary: Summary) -> dict[str, bytes] | None:
    """The figures as PNG by name; `None` without matplotlib."""
    try:
        import matplotlib as _  # noqa: F401
    except ImportError:
        return None
    if not summary.rows:
        return {}
    numbered = [(row.name, i) for i, row in enumerate(summary.rows)]
    worst = [numbered[i] for i in by_r_hat(summary.rows)[:_TRACES]]
    found = {
        "traces": figures.traces(draws, worst),
        "marginals": figures.marginals(draws, [numbered[i] for i in _some_of_each(draws)]),
        "temperatures": figures.temperatures(draws),
    }
    return {name: figures.to_png(figure) for name, figure in found.items() if figure is not None}


def _some_of_each(draws: "Draws") -> list[int]:
    """Numbers of the parameters to show: the first of every leaf, then the second, as many as there is room for."""
    sizes = [int(np.prod(x.shape[2:])) for x in draws.flat().values()]
    begins = np.cumsum([0, *sizes])
    turns = sorted(
        (k, int(begins[leaf]) + k) for leaf, size in enumerate(sizes) for k in range(min(size, _MARGINALS))
    )
    return sorted(i for _, i in turns[:_MARGINALS])


def run_page(
    draws: "Draws",
    summary: Summary,
    pictures: Mapping[str, bytes] | None,
    *,
    diagnosis: Diagnosis | None,
    data: Mapping[str, Any] | None,
    title: str,
) -> str:
    """The whole document."""
    judged = summary if diagnosis is None else diagnosis
    record = draws.record
    sections = [
        Section("What to do", list(_advice(draws, judged.problems))),
        Section("What the chains did", _figures(pictures, summary)),
        Section("Parameters", list(parameters(summary))),
        Section("Diagnosis", list(findings(draws, summary, diagnosis))),
        Section("Model and data", [page.definitions(_flat(_model_and_data(draws, data)))]),
        Section("Settings of the run", [page.definitions(_flat(_run_settings(record)))]),
    ]
    if record.setup_passes:
        rows = list(record.reasons)
        cost = f"{record.setup_passes:g} passes over the data, {record.setup_seconds:.1f} s."
        found = page.table(("choice", "value", "why"), rows)
        sections.append(Section("What the warm-up chose, and why", [found, page.paragraph(cost)]))
    entries = (citation.PAPER, citation.software(record.versions["isotherm"]))
    sections += [
        Section("Versions", [page.definitions(record.versions)]),
        Section("To cite", [page.verbatim("\n\n".join(entries))]),
    ]
    badge = page.badge("not passed", "bad") if judged.problems else page.badge("passed", "good")
    return page.page(title, Html(f"{badge} {page.prose(judged.verdict)}"), sections)


def _advice(draws: "Draws", problems: Sequence[str]) -> Iterator[Html]:
    if problems:
        yield page.paragraph("Before these draws are used, mend this, first things first:")
        yield page.bullets([page.prose(text[:1].upper() + text[1:] + ".") for text in problems])
        return
    count = int(np.sum(draws.complete)) * draws.num_draws
    yield page.paragraph(
        f"Nothing found speaks against these {count:,} draws. Read means and intervals from the table below. What "
        "was looked at, and how closely, is under Diagnosis; that the model is right is for you to judge."
    )


def _figures(pictures: Mapping[str, bytes] | None, summary: Summary) -> list[Html]:
    if pictures is None:
        return [page.paragraph("There are no figures: they need matplotlib (pip install 'isotherm[plots]').")]
    if not pictures:
        return [page.paragraph("There are no figures: there is nothing to draw.")]
    captions = {
        "traces": (
            "Draws of each chain in order, one panel for each parameter shown",
            f"The {min(_TRACES, len(summary.rows))} parameters with the largest R-hat, a colour a chain. Look for "
            "chains that lie on each other, without drift: one that stays apart or wanders has not found what the "
            "others have.",
        ),
        "temperatures": (
            "Kinetic temperature and thermostat variable of each chain over the run, with bands",
            "Temperatures belong in the band: 5 % around their target, and xi, the friction that the thermostat "
            "applies, in the range where theory has it 95 % of the time. A drift at the start asks for a longer "
            "burn-in.",
        ),
        "marginals": (
            "Histogram of each chain for each parameter shown, with the middle 90 percent shaded",
            "The middle 90 % is shaded. Histograms of the chains should agree up to noise."
            + (
                f" {_MARGINALS} of {len(summary.rows):,} parameters."
                if len(summary.rows) > _MARGINALS
                else ""
            ),
        ),
    }
    shown = [
        page.figure(pictures[name], alt=alt, caption=caption, kind="narrow")
        for name, (alt, caption) in captions.items()
        if name in pictures
    ]
    return [page.side_by_side(shown)]


def _model_and_data(draws: "Draws", data: Mapping[str, Any] | None) -> dict[str, Any]:
    record, shown = draws.record, dict(draws.about.model)
    if levels := shown.pop("levels", None):
        shown["reference levels"] = ", ".join(f"{name}={first}" for name, (first, *_) in levels.items())
    shown |= draws.about.data if data is None else data
    return {"rows": record.num_data} | shown | {"parameters": record.num_parameters}


def _run_settings(record: RunRecord) -> dict[str, Any]:
    """What was run, without what other sections show and what only a program reads."""
    hidden = (
        "versions",
        "num_data",
        "num_parameters",
        "key",
        "s",
        "reasons",
        "setup_passes",
        "setup_seconds",
    )
    shown = {name: value for name, value in record.to_json().items() if name not in hidden}
    shown["sampler"] = {"name": record.sampler.name, **record.sampler.settings}
    return shown


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Names and values, one level deep, in words."""
    shown = {}
    for name, value in values.items():
        label = f"{prefix}{name}".replace("_", " ")
        if isinstance(value, Mapping):
            shown |= _flat(value, f"{label}: ")
        elif value is not None:
            shown[label] = _text(value)
    return shown


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        more = f" and {len(value) - 20} more" if len(value) > 20 else ""
        return ", ".join(str(x) for x in value[:20]) + more
    return str(value)
