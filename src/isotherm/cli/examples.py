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
    """Return a commented spec for this model."""
    lines = [
        f'model = "{model}"'.ljust(28) + f"# or {', '.join(m for m in MODELS if m != model)}",
        "",
        "[data]",
        'path = "table.csv"          # or .tsv, .parquet, .npz, .npy; relative to this file',
        f'target = "y"                # {_TARGETS[model]}',
        '# features = ["a", "b"]     # default: all other columns; text columns become categories',
        '# exclude = ["id"]          # or: all other columns except these',
        '# categorical = ["a"]       # columns of numbers that are categories',
        '# separator = ";"           # of a CSV file; also decimal = "," and encoding = "cp1252"',
        '# missing = "drop"          # drop rows with a missing value; by default they are an error',
    ]
    if model == "logistic":
        lines.append(
            '# positive = "yes"          # the value whose probability is modelled; default: the second in order'
        )
    if model in COUNTS:
        lines.append('# exposure = "years"        # a column that multiplies the rate')
    if model != "softmax":
        lines.append('# offset = "known"          # a column added to the linear predictor')
    lines += [
        '# weights = "weight"        # a column that multiplies the log-likelihood of its row',
        "# standardize = true        # priors are on standardised columns; coefficients are per unit either way",
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
            "# dispersion = 1.0          # variance = mean + dispersion mean^2; its square root is half-normal"
        )
    lines += [
        "",
        "[sample]                    # the warm-up chooses what is left out",
        "num_draws = 1000            # per chain",
        "num_chains = 4",
        "seed = 0",
        "# batch_size = 500",
    ]
    return "\n".join(lines)
