"""Groups of rows with effects of their own: regions, patients, words.

A group's effect is a leaf of the parameters with a leading axis of levels, of which each row uses the one that a
column of the data names. Given all other parameters the levels are independent. The warm-up uses that: its work and
its memory grow with the number of levels, not with its square.
"""

from typing import Any

import equinox as eqx

from isotherm.errors import must
from isotherm.readable import Readable


class Group(Readable, eqx.Module):
    """Which level of a leaf of the parameters a row uses.

    **Arguments:**

    - `rows`: the name of the leaf of the data that holds the number of the level of each row, from 0. If `None`, the
      leaf of the parameters is one block of effects, such as the coefficients of a spline: it has the shape (k,),
      every row uses all of it, and no column of the data belongs to it.
    - `scale`: the name of the positive parameter that is the standard deviation of the effects, if their prior is
      normal with mean zero: a number, or one for each of the effects of a level. The warm-up then chooses for each
      level how far its effect is divided by the scale. Any other prior is sampled correctly as well, but slowly.
    - `correlations`: the name of the parameter that holds the correlations of the effects of a level, if they have
      any: `isotherm.transforms.Correlations`.
    """

    rows: str | None = eqx.field(default=None, static=True)
    scale: str | None = eqx.field(default=None, static=True, kw_only=True)
    correlations: str | None = eqx.field(default=None, static=True, kw_only=True)

    def __check_init__(self) -> None:
        for name in ("rows", "scale", "correlations"):
            value = getattr(self, name)
            if not isinstance(value, str) and value is not None:
                raise must(f"{name}` of `Group", "the name of a leaf, or `None`", value, error=TypeError)
        if self.rows is None and self.scale is None:
            repair = "A block of coefficients without a scale needs no group."
            raise must("scale` of `Group", "given if `rows` is not", self.scale, repair, error=TypeError)
        if self.correlations is not None and self.scale is None:
            raise must(
                "correlations` of `Group", "given together with `scale`", self.correlations, error=TypeError
            )


Groups = tuple[tuple[str, Group], ...]


def as_groups(value: Any) -> Groups:
    """Return the groups of a posterior by the name of their leaf of the parameters."""
    if value is None:
        return ()
    pairs = value.items() if isinstance(value, dict) else value
    if not isinstance(pairs, type({}.items())) and not isinstance(pairs, tuple):
        raise must(
            "groups",
            "a dictionary from leaves of the parameters to leaves of the data",
            value,
            error=TypeError,
        )
    found = []
    for name, group in pairs:
        if not isinstance(name, str) or not isinstance(group, str | Group):
            rule = "a dictionary from names of leaves to names of leaves of the data or `iso.Group`s"
            raise must("groups", rule, value, error=TypeError)
        found.append((name, Group(group) if isinstance(group, str) else group))
    return tuple(found)
