"""The report of a run on one page: verdict, figures, tables and provenance."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isotherm.draws.record import RunRecord
from isotherm.judging.diagnosis import Diagnosis
from isotherm.judging.summary import Summary
from isotherm.plots.chains import draw_traces
from isotherm.plots.density import draw_marginals
from isotherm.plots.parameters import shown_at
from isotherm.plots.style import to_png
from isotherm.plots.temperatures import draw_temperatures
from isotherm.reporting import citation, page
from isotherm.reporting.page import Html, Section
from isotherm.reporting.regression import answers, figures, with_fit
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
    title: str | None = None,
) -> Path:
    """Write a report on `draws` to `path`: one HTML file that needs no network. Returns the path.

    **Arguments:**

    - `diagnosis`: the result of `iso.diagnose(draws)`. If `None`, the report uses `draws.summary()`.
    - `data`: the file that holds the data, whose name and SHA-256 are shown; or names and values to show instead.
    - `title`: the title of the page; that of `draws.about` if `None`.

    If `draws.about.model` and `draws.labels` have the `description` and `labels` of a regression, the page begins
    with the effects of its columns. Figures need the extra `plots`. Without it the page says that there are none.
    """
    if isinstance(data, str | os.PathLike):
        from isotherm.tables.reader import fingerprint

        file = Path(data)
        data = {"file": file.name, "bytes": file.stat().st_size, "sha256": fingerprint(file)}
    draws = with_fit(draws)
    summary = draws.summary() if diagnosis is None else diagnosis.summary
    title = draws.about.title if title is None else title
    text = run_page(draws, summary, images(draws, summary), diagnosis=diagnosis, data=data, title=title)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return path


def images(draws: "Draws", summary: Summary) -> dict[str, bytes] | None:
    """The figures as PNGs, by name; `None` without matplotlib."""
    try:
        import matplotlib as _  # noqa: F401
    except ImportError:
        return None
    if not summary.rows:
        return {}
    drawn = figures(draws, summary)
    worst = shown_at(draws, by_r_hat(summary.rows)[:_TRACES])
    drawn["traces"] = draw_traces(worst, narrow=True)
    drawn["marginals"] = draw_marginals(shown_at(draws, _some_of_each(draws)), narrow=True)
    if "kinetic_temperature" in draws.stats:
        drawn["temperatures"] = draw_temperatures(draws, narrow=True)
    return {name: to_png(figure) for name, figure in drawn.items()}


def _some_of_each(draws: "Draws") -> list[int]:
    """Indices of the parameters to show: the first of every leaf, then the second, and so on up to the limit."""
    sizes = [int(np.prod(x.shape[2:])) for x in draws.flat().values()]
    starts = np.cumsum([0, *sizes])
    in_turn = sorted(
        (k, int(starts[leaf]) + k) for leaf, size in enumerate(sizes) for k in range(min(size, _MARGINALS))
    )
    return sorted(i for _, i in in_turn[:_MARGINALS])


def run_page(
    draws: "Draws",
    summary: Summary,
    pictures: Mapping[str, bytes] | None,
    *,
    diagnosis: Diagnosis | None,
    data: Mapping[str, Any] | None,
    title: str,
) -> str:
    """The HTML document."""
    judged = summary if diagnosis is None else diagnosis
    record = draws.record
    sentence, evidence = _first_sentence(judged.verdict)
    if record.interrupted:  # the end says so
        sentence, evidence = judged.verdict, ""
    advice, first = (
        Section("What to do", list(_advice(draws, judged.problems))),
        answers(draws, summary, pictures or {}),
    )
    sections = [
        *([advice, *first] if judged.problems else [*first, advice]),
        Section("What the chains did", _figures(pictures, summary)),
        Section("Parameters", list(parameters(draws, summary))),
        Section("Diagnosis", [*_paragraph(evidence), *findings(draws, summary, diagnosis)]),
        Section("Model and data", [page.definitions(_flat(_model_and_data(draws, data)))]),
        Section("Settings of the run", [page.definitions(_flat(_run_settings(record)))]),
    ]
    if record.setup_passes:
        rows = list(record.reasons)
        cost = f"{record.setup_passes:g} passes over the data, {record.setup_seconds:.1f} s."
        choices = page.table(("choice", "value", "why"), rows)
        sections.append(Section("What the warm-up chose, and why", [choices, page.paragraph(cost)]))
    entries = (citation.PAPER, citation.software(record.versions["isotherm"]))
    sections += [
        Section("Versions", [page.definitions(record.versions)]),
        Section("To cite", [page.verbatim("\n\n".join(entries))]),
    ]
    badge = page.badge("not passed", "bad") if judged.problems else page.badge("passed", "good")
    return page.page(title, Html(f"{badge} {page.prose(sentence)}"), sections)


def _first_sentence(verdict: str) -> tuple[str, str]:
    """Return the first sentence, and the rest."""
    first, _, rest = verdict.partition(". ")
    return (f"{first}.", rest) if rest else (verdict, "")


def _paragraph(text: str) -> list[Html]:
    return [page.paragraph(page.prose(text))] if text else []


def _advice(draws: "Draws", problems: Sequence[str]) -> Iterator[Html]:
    if problems:
        yield page.paragraph("Fix these problems before you use the draws, in this order:")
        yield page.bullets([page.prose(text[:1].upper() + text[1:] + ".") for text in problems])
        return
    count = int(np.sum(draws.complete)) * draws.num_draws
    yield page.paragraph(
        f"No problem was found with these {count:,} draws. Read means and intervals from the table below. The checks "
        "and their precision are under Diagnosis. Whether the model is right is for you to judge."
    )


def _figures(pictures: Mapping[str, bytes] | None, summary: Summary) -> list[Html]:
    if pictures is None:
        return [page.paragraph("There are no figures: they need matplotlib (pip install 'isotherm[plots]').")]
    if not pictures:
        return [page.paragraph("There are no figures: there are no draws to show.")]
    captions = {
        "traces": (
            "Draws of each chain in order, and their density, one panel for each parameter shown",
            f"The {min(_TRACES, len(summary.rows))} parameters with the largest R-hat, one colour per chain, with "
            "their densities on the right. The chains should overlap and show no trend: one that stays apart or "
            "drifts has not reached the distribution of the others.",
        ),
        "temperatures": (
            "Kinetic temperature and thermostat variable of each chain over the run, with the bands of theory",
            "Dots are draws and lines are means over a fiftieth of the run, with densities on the right. 95 % of the "
            "dots should lie in the grey band, and the lines near its centre. ξ is the friction that the thermostat "
            "applies. A trend at the start calls for a longer burn-in.",
        ),
        "marginals": (
            "Density of each chain and of all chains for each parameter shown, with the middle 90 percent shaded",
            "The middle 90 % of all draws is darker. The densities of the chains should agree up to noise."
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
    for name in ("column sd", "class counts"):
        shown.pop(name, None)
    source = dict(draws.about.data if data is None else data)
    if "rows" in source:
        source["rows in the table"] = source.pop("rows")
    return {"rows used": record.num_data} | shown | source | {"parameters": record.num_parameters}


def _run_settings(record: RunRecord) -> dict[str, Any]:
    """The settings of the run, without those in other sections and those that only a program reads."""
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
    """Names and values as text, with nested mappings flattened."""
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
