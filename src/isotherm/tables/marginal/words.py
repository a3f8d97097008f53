"""What a regression predicts, in words."""

from isotherm.tables.fitted import Fitted


def response_words(model: Fitted) -> str:
    """Return what the expected response is: "mean of cost", or "probability that ill is yes"."""
    if model.family.is_binary:
        return f"probability that {model.target} is {model.classes[1]}"
    if model.family.has_probabilities:
        return f"probability of each {model.target}"
    if model.family.name == "quantile":
        return f"{model.settings.get('quantile', 0.5):g} quantile of {model.target}"
    return f"{'centre' if model.family.name == 'student-t' else 'mean'} of {model.target}"


def has_ratios(model: Fitted) -> bool:
    """Return whether expected responses are positive, so that their ratios mean something."""
    return model.family.effect.ratio is not None or model.family.has_classes
