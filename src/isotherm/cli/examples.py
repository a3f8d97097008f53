"""Spec files to start from: `isotherm sample --example MODEL`."""

import dataclasses

from isotherm.tables.families.prior import Prior
from isotherm.tables.families.registry import family_of

_ROLES = {
    "positive": '# positive = "yes"          # the value whose probability is modelled; default: the second in order',
    "exposure": '# exposure = "years"        # a column that multiplies the rate',
    "offset": '# offset = "known"          # a column added to the linear predictor',
    "trials": 'trials = "n"                # the column of the numbers of trials',
    "censored": '# censored = "lost"         # a column: 1 where the event had not happened yet, 0 where it had',
    "order": '# order = ["low", "mid", "high"]  # classes of text from the lowest; numbers need no order',
    "weights": '# weights = "weight"        # a column that multiplies the log-likelihood of its row',
}


def example(model: str) -> str:
    """Return a commented spec for this model."""
    family = family_of(model)
    lines = [
        _line(f'model = "{model}"', "or another: see `isotherm sample --help`"),
        "",
        "[data]",
        'path = "table.csv"          # or .tsv, .parquet, .npz, .npy; relative to this file',
        f'target = "y"                # {family.target.words}',
        '# features = ["a", "b"]     # default: all other columns; text columns become categories',
        '# exclude = ["id"]          # or: all other columns except these',
        '# categorical = ["a"]       # columns of numbers that are categories',
        '# separator = ";"           # of a CSV file; also decimal = "," and encoding = "cp1252"',
        '# missing = "drop"          # drop rows with a missing value; by default they are an error',
    ]
    lines += [line for role, line in _ROLES.items() if role in family.roles]
    of_prior = [field.name for field in dataclasses.fields(Prior)]
    settings = {
        field.name: _line(f"# {field.name} = {getattr(family, field.name)}", family.settings[field.name])
        for field in dataclasses.fields(family)
    }
    lines += [line for name, line in settings.items() if name not in of_prior]
    lines += [
        "# standardize = true        # priors are on standardised columns; coefficients are per unit either way",
        "",
        "[prior]                     # scales, per standard deviation of a column",
        "# coefficients = 2.5        # normal",
        "# intercept = 5.0           # normal",
    ]
    for auxiliary in family.auxiliaries:
        if auxiliary.scale is not None:
            lines.append(_line(f"# {auxiliary.name} = {auxiliary.scale}", auxiliary.comment))
    lines += [line for name, line in settings.items() if name in of_prior]
    lines += [
        "",
        "[sample]                    # the warm-up chooses what is left out",
        "num_draws = 1000            # per chain",
        "num_chains = 4",
        "seed = 0",
        "# batch_size = 500",
    ]
    return "\n".join(lines)


def _line(entry: str, comment: str) -> str:
    return f"{entry:<26}  # {comment}"
