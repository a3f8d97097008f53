"""The page that shows what the priors of a regression say of its target."""

from collections.abc import Mapping
from pathlib import Path

from isotherm.plots.priors import prior_predictive as draw_priors
from isotherm.plots.style import to_png
from isotherm.reporting import page
from isotherm.reporting.page import Html, Section
from isotherm.storage import write_text
from isotherm.tables.priors.predictive import PriorPredictive


def write_priors(
    figure: Path, path: Path, title: str, found: PriorPredictive, priors: Mapping[str, str]
) -> None:
    """Write the figure and the page."""
    figure.parent.mkdir(parents=True, exist_ok=True)
    image = to_png(draw_priors(found))
    figure.write_bytes(image)
    write_text(path, priors_page(title, found, priors, image))


def priors_page(title: str, found: PriorPredictive, priors: Mapping[str, str], image: bytes) -> str:
    """Return the page: sentences and warnings, the figure, statistics, and the priors in words."""
    badge = page.badge("absurd", "fair") if found.warnings else page.badge("ordinary", "good")
    texts = [*found.sentences, *found.warnings]
    caption = (
        "Grey: a statistic of the target at each draw from the priors; the black line is that of the data. Thin "
        "lines: expected responses along a column at 40 draws, the other columns at typical values; the grey band "
        "holds 9 of 10 of the data. Axes with powers of ten are logarithmic away from zero."
    )
    header = ["statistic", "data", "5 %", "50 %", "95 %"]
    rows = [[x.name, f"{x.data:.4g}", *(f"{q:.4g}" for q in x.quantiles())] for x in found.statistics]
    count = f"{len(found.target):,} draws from the priors for {found.target.shape[1]:,} rows"
    sections = [
        Section("In words", [page.paragraph(page.prose(text)) for text in texts]),
        Section(
            "Pictures",
            [page.figure(image, alt="The target under the priors, beside the data", caption=caption)],
        ),
        Section("Statistics", [page.numbers(header, rows, caption=f"Statistics of the target: {count}")]),
        Section("The priors", [page.definitions(priors)]),
    ]
    lead = "What the model expects before it sees the target. Nothing was fitted."
    return page.page(f"Priors: {title}", Html(f"{badge} {page.prose(lead)}"), sections)
