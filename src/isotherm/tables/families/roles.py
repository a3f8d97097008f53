"""The further columns of a row: offset, exposure and weights, and those that a family asks for."""

from typing import NamedTuple

from isotherm.tables.checks import POSITIVE, Rule


class Role(NamedTuple):
    """A further column: what its values must be, its name in the rows, and whether predictions need it.

    Offset and exposure enter the linear predictor together.
    """

    rule: Rule | None
    row_name: str | None = None
    predicts: bool = True


ROLES = {
    "offset": Role(None),
    "exposure": Role(POSITIVE),
    "weights": Role(POSITIVE, "weight", predicts=False),
}
