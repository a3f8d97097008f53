"""The further columns of a row: offset, exposure and weights, and those that a family asks for."""

from typing import NamedTuple

import numpy as np

from isotherm.tables.checks import POSITIVE, Rule

ALWAYS, NEVER, WITH_TARGET = "always", "never", "with target"


class Role(NamedTuple):
    """A further column: what its values must be, its name in the rows, and whether new rows need it.

    Offset and exposure have no name, since they enter the linear predictor. New rows need a column `ALWAYS`, `NEVER`
    or `WITH_TARGET`, where predictions are compared with the target.
    """

    rule: Rule | None
    row_name: str | None = None
    needed: str = ALWAYS


ROLES = {
    "offset": Role(None),
    "exposure": Role(POSITIVE),
    "weights": Role(POSITIVE, "weight", NEVER),
    "trials": Role(Rule("whole numbers of at least 1", lambda x: (x >= 1) & (x == np.round(x))), "trials"),
    "censored": Role(
        Rule("0 or 1, or true or false", lambda x: (x == 0) | (x == 1)), "censored", WITH_TARGET
    ),
}
