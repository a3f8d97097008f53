"""Spec files to start from: `isotherm sample --example MODEL`."""

from isotherm.tables.families import COUNTS, MODELS

_TARGETS = {
    "linear": "a number",
    "student-t": "a number, with outliers",
    "logistic": "two values, such as 0 and 1, or no and yes",
    "softmax": "three or more classes, as text or numbers",
    "poisson": "a count: 0, 1, 2, ...",
    "negative-binomial": "a count: 0, 1, 2, ... that varies more than a Poisson variable",
}


def example(model: str) -> str:
    """A commented spec of this model."""
    lines = [
        f'model = "{model}"'.ljust(28) + f"# or {', '.join(m for m in MODELS if m != model)}",
        "",
        "[data]",
        'path = "table.csv"          # or .parquet, .npz, .npy; seen from the folder of this file',
        f'target = "y"                # {_TARGETS[model]}',
        '# features = ["a", "b"]     # all other columns where this is left out; text becomes categories',
        '# exclude = ["id"]          # or all other columns but these',
        '# categorical = ["a"]       # columns of numbers that stand for categories',
        '# missing = "drop"          # leave out rows that lack a value; they are refused without this',
    ]
    if model == "logistic":
        lines.append(
            '# positive = "yes"          # the value whose chance is modelled; else the second in order'
        )
    if model in COUNTS:
        lines.append('# exposure = "years"        # a column by which the rate is multiplied')
    if model != "softmax":
        lines.append('# offset = "known"          # a column that is added to the linear predictor')
    lines += [
        '# weights = "weight"        # a column by which the log-likelihood of a row is multiplied',
        "# standardize = true        # priors on standardised columns; coefficients are per unit either way",
        "",
        "[prior]                     # scales, per standard deviation of a column",
        "# coefficients = 2.5        # normal",
        "# intercept = 5.0           # normal",
    ]
    if model in ("linear", "student-t"):
        lines.append("# sigma = 1.0               # exponential, with this mean, in sd of the target")
    if model == "student-t":
        lines.append("# degrees_of_freedom = 4.0  # fixed")
    if model == "negative-binomial":
        lines.append(
            "# dispersion = 1.0          # variance = mean + dispersion mean^2; its root is half-normal"
        )
    lines += [
        "",
        "[sample]                    # what is left out is found by a warm-up",
        "num_draws = 1000            # of each chain",
        "num_chains = 4",
        "seed = 0",
        "# batch_size = 500",
    ]
    return "\n".join(lines)
