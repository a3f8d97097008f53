"""What priors say of a target, in sentences, and whether that is absurd."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from isotherm.tables.families.base import LocationFamily
from isotherm.tables.fitted import Fitted

_MIDDLE = (0.05, 0.95)
_WIDE = 100.0  # widths of the middle of the data: beyond that, values are absurd
_HIGH = 1000.0  # times the largest value of the data, for positive targets
_CERTAIN = 0.01  # of a probability of 0 or 1
_LOOSE = (
    "A smaller `coefficients` or `intercept` in [prior], in Python `Prior(coefficients=0.5)`, is tighter."
)


def judged(
    model: Fitted,
    response: Float[np.ndarray, "draw row ..."],
    made: Float[np.ndarray, "draw row"],
    data: Float[np.ndarray, " row"],
    rows: Mapping[str, np.ndarray],
) -> tuple[list[str], list[str]]:
    """Return what is ordinary under the priors, and warnings."""
    family, target = model.family, model.target
    if family.has_classes or family.name in ("beta", "binomial"):
        shares = response / rows["trials"] if family.name == "binomial" else response
        return _of_probabilities(model, shares, data)
    low, high = np.quantile(made, _MIDDLE)
    data_low, data_high = np.quantile(data, _MIDDLE)
    kind = "counts" if family.target.is_whole else "values"
    sentences = [
        f"Under the priors, 9 of 10 {kind} of `{target}` lie between {low:.3g} and {high:.3g}; 9 of 10 of "
        f"the data lie between {data_low:.3g} and {data_high:.3g}."
    ]
    warnings = []
    if isinstance(family, LocationFamily):
        ratio = (high - low) / max(data_high - data_low, 1e-30)
        if ratio > _WIDE:
            warnings.append(
                f"The priors spread `{target}` {ratio:,.0f} times as wide as the data are. {_LOOSE}"
            )
    elif high > _HIGH * (largest := float(data.max())):
        share = float(np.mean(made > _HIGH * largest))
        warnings.append(
            f"Under the priors, {_percent(share)} of the {kind} are more than 1,000 times the largest of the data, "
            f"{largest:.3g}. {_LOOSE}"
        )
    return sentences, warnings


def _of_probabilities(
    model: Fitted, shares: Float[np.ndarray, "draw row ..."], data: Float[np.ndarray, " row"]
) -> tuple[list[str], list[str]]:
    """Return sentences on probabilities, or on shares."""
    if model.family.has_probabilities:
        what, certain = (
            f"the most probable class of `{model.target}` has",
            float(np.mean(shares.max(axis=-1) > 1 - _CERTAIN)),
        )
        text = f"Under the priors, {what} a probability above 99 % in {_percent(certain)} of the rows."
    else:
        certain = float(np.mean((shares < _CERTAIN) | (shares > 1 - _CERTAIN)))
        what = (
            "the probability of a success"
            if model.family.name == "binomial"
            else f"the mean of `{model.target}`"
        )
        if model.family.is_binary:
            what = f"the probability that `{model.target}` is `{model.classes[1]}`"
        low, high = np.quantile(shares, _MIDDLE)
        text = (
            f"Under the priors, {what} is below 1 % or above 99 % in {_percent(certain)} of the rows, and between "
            f"{low:.3g} and {high:.3g} in 9 of 10."
        )
    sentences = [text]
    if model.family.is_binary:
        sentences.append(
            f"In the data, `{model.target}` is `{model.classes[1]}` in {_percent(float(data.mean()))}."
        )
    if certain <= 0.5:
        return sentences, []
    return sentences, [f"The priors take most rows to be all but certain before the data are seen. {_LOOSE}"]


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.2g} %" if percent < 1 else f"{percent:.0f} %"
