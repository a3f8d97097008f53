"""The rows of a regression, how well it describes them, and which of its columns depend on each other."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from isotherm.reporting import page
from isotherm.reporting.page import Html
from isotherm.tables.coefficients import correlations
from isotherm.tables.fit import Fit
from isotherm.tables.fitted import Fitted
from isotherm.typed_json import typed

if TYPE_CHECKING:
    from isotherm.draws import Draws

_CLASSES, _PAIRS = 20, 5
_DEPENDENT = 0.9  # correlation of coefficients that is named


def stored_fit(draws: "Draws") -> Fit | None:
    """Return how well the regression describes its data; `None` if that was not measured."""
    return typed(Fit, draws.about.fit, "about.fit") if draws.about.fit else None


def rows_used(model: Fitted, count: int) -> Iterator[str | Html]:
    """Yield how many rows were used, and how many are of each class."""
    dropped = model.rows_dropped
    yield (
        f"{count:,} of {count + dropped:,} rows were used: {dropped:,} have a missing value and were left out."
        if dropped
        else f"{count:,} rows were used."
    )
    if len(model.class_counts) == 2:
        rate = f"{_percent(model.class_counts[1], count)} of them ({model.class_counts[1]:,} rows)"
        yield page.prose(f"The base rate: `{model.target}` is `{model.classes[1]}` in {rate}.")
    elif model.class_counts:
        shares = [
            f"`{name}` {_percent(n, count)}"
            for name, n in zip(model.classes[:_CLASSES], model.class_counts, strict=False)
        ]
        yield page.prose(f"The classes of `{model.target}`: {', '.join(shares)}.")


def _percent(part: int, whole: int) -> str:
    percent = 100 * part / whole
    return f"{percent:.2g} %" if percent < 1 else f"{percent:.1f} %"


def description(draws: "Draws", model: Fitted, pictures: Mapping[str, bytes]) -> Iterator[Html]:
    """Yield AUC and calibration of classes, or the data beside replicated data."""
    fit = stored_fit(draws)
    if fit is None:
        yield page.paragraph(
            "It was not measured: the run was ended early, or the draws were loaded from a file without their rows."
        )
        return
    if "weights" in draws.about.model:
        yield page.paragraph("Every row counts once here, whatever its weight.")
    part = "all rows" if fit.num_rows == draws.record.num_data else f"{fit.num_rows:,} of the rows"
    if fit.auc is not None:
        yield page.paragraph(
            page.prose(
                f"AUC {fit.auc:.3f} ± {fit.auc_error:.3f}, on {part} that the model was fitted to. It is the "
                f"probability that a row with `{model.classes[1]}` is given a higher probability than one with "
                f"`{model.classes[0]}`: 0.5 by chance, and 1 if the classes are separated without error."
            )
        )
    if fit.curve is not None:
        curve = fit.curve.as_scores()
        yield page.paragraph(
            f"The calibration error, on {part}, is {curve.calibration_error:.4f}: the mean difference between "
            f"predicted probabilities and observed shares. Chance alone gives {curve.by_chance:.4f}."
        )
    if "calibration" in pictures:
        yield page.figure(
            pictures["calibration"],
            alt="Observed shares against predicted probabilities",
            caption="Observed shares against predicted probabilities, in ten groups of equally many rows. Points "
            "should be on the line within their bars, which are two standard errors.",
            kind="narrow",
        )
    if not fit.checks and fit.curve is None:
        why = (
            f"some of `{model.target}` are censored"
            if model.censored is not None
            else f"it is a model of one property of `{model.target}`, not of its whole distribution"
        )
        yield page.paragraph(
            page.prose(f"The data are not compared with data that the model makes up: {why}.")
        )
    if fit.checks:
        wrong = [check.statistic for check in fit.checks if not check.holds]
        outcome = (
            f"They differ in: {', '.join(wrong)}. Conclusions about these cannot be drawn from this model."
            if wrong
            else "They agree in all of these."
        )
        yield page.paragraph(
            f"{model.target} of {part} beside {fit.num_draws} data sets that the model made up for them. {outcome}"
        )
        rows = [
            (
                c.statistic,
                f"{c.data:.4g}",
                f"{c.mean:.4g}",
                f"{c.low:.4g} to {c.high:.4g}",
                "yes" if c.holds else "no",
            )
            for c in fit.checks
        ]
        header = ("statistic", "data", "replicated", "99 % interval", "inside")
        yield page.numbers(header, rows, caption="The data beside data replicated from the model")


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def dependence(draws: "Draws") -> str:
    """Return a sentence on columns whose effects the data hardly tell apart."""
    found = correlations(draws)
    if not found:
        return "There are too few or too many columns to compare them."
    close = [pair for pair in found if abs(pair[2]) > _DEPENDENT]
    named = lambda pair: f"`{pair[0]}` and `{pair[1]}` ({pair[2]:.2f})"
    if not close:
        return (
            f"The data tell all effects apart: no posterior correlation of two coefficients exceeds {_DEPENDENT:g}. "
            f"The largest is that of {named(found[0])}."
        )
    more = f" and {len(close) - _PAIRS:,} more pairs" if len(close) > _PAIRS else ""
    return (
        "The data hardly tell the effects of these columns apart, as the posterior correlations of their "
        f"coefficients show: {', '.join(map(named, close[:_PAIRS]))}{more}. Their effects together are known better "
        "than each."
    )
