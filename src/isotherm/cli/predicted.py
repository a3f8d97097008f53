"""What `isotherm predict` says about its predictions: sentences, and entries of its JSON object."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isotherm.tables.decision import Decision
    from isotherm.tables.fitted import Fitted
    from isotherm.tables.scored import Scored


def sentences(
    scored: "Scored", model: "Fitted", title: str, num_draws: int, decision: "Decision | None", unseen: str
) -> Iterator[str]:
    """Yield the lines about all rows."""
    yield f"{title}: {scored.rows:,} rows, {num_draws:,} draws"
    if scored.empty:
        why = " or an unknown level" if scored.unseen and unseen == "missing" else ""
        yield f"{scored.empty:,} rows have a missing value{why}; their predictions are empty"
    for name, (count, first) in scored.unseen.items():
        rows = ", ".join(f"{row + 1:,}" for row in first) + (", ..." if count > len(first) else "")
        taken = {
            "mean": ": the average of all levels was taken",
            "sample": ": their effects were drawn from the distribution of the levels",
        }.get(unseen, "")
        yield f"`{name}` has levels that the run has not seen in {count:,} rows ({rows}){taken}"
    if model.family.is_binary:
        yield f"`probability` is the probability of {model.target} = {model.classes[1]}"
    if scored.classes is not None and decision is not None:
        if decision.is_given and len(model.classes) == 2:
            yield f"{model.classes[1]} is predicted where its probability is above {decision.threshold:.3g}"
        elif not decision.is_given and (passed_over := scored.classes.passed_over()):
            yield passed_over
    if scored.scores is not None:
        yield f"\nscored against `{model.target}` of the table\n{scored.density}{scored.scores}"
        if scored.classes is not None and (found := scored.classes.found()):
            yield found


def class_record(scored: "Scored", model: "Fitted", decision: "Decision | None") -> dict[str, Any]:
    """Return the classes, what it costs to miss each, and how often each is predicted and expected."""
    record: dict[str, Any] = {"classes": list(model.classes)}
    if decision is None or scored.classes is None:
        return record
    counts = scored.classes
    by_class = lambda values: dict(zip(model.classes, values, strict=True))
    record |= {"costs": by_class(decision.costs), "rows_predicted": by_class(counts.predicted.tolist())}
    record |= {"rows_expected": by_class(counts.expected.tolist())}
    if counts.confusion.any():
        record["confusion"] = {c: by_class(counts.confusion[i].tolist()) for i, c in enumerate(model.classes)}
    return record


def scores_of(scored: "Scored") -> dict[str, Any] | None:
    """Return the scores by name; each error is the standard error over rows."""
    from isotherm.scores.regression import RegressionScores

    density, scores = scored.density, scored.scores
    if density is None or scores is None:
        return None
    record = {
        "rows": scores.num_rows,
        "log_likelihood": density.mean,
        "log_likelihood_error": density.standard_error,
    }
    if isinstance(scores, RegressionScores):
        (interval,) = scores.intervals
        record |= {"rmse": scores.rmse, "crps": scores.crps}
        return record | {
            "coverage": interval.coverage,
            "coverage_error": interval.error,
            "width": interval.width,
        }
    record |= {"accuracy": scores.accuracy, "accuracy_error": scores.accuracy_error}
    record |= {"brier": scores.brier, "brier_error": scores.brier_error}
    return record | {"calibration_error": scores.calibration_error}
