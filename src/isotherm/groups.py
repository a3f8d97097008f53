"""Groups of rows with effects of their own: regions, patients, words.

A group's effect is a leaf of the parameters with a leading axis of levels, of which each row uses the one that a
column of the data names. Given all other parameters the levels are independent. The warm-up uses that: its work and
its memory grow with the number of levels, not with its square.
"""

from typing import Any

import equinox as eqx

from isotherm.errors import check_flag, must
from isotherm.readable import Readable


class Group(Readable, eqx.Module):
    """Which level of a leaf of the parameters a row uses.

    **Arguments:**

    - `rows`: the name of the leaf of the data that holds the number of the level of each row, from 0. If `None`, the
      leaf of the parameters is one block of effects, such as the coefficients of a spline: it has the shape (k,),
      every row uses all of it, and no column of the data belongs to it.
    - `scale`: the name of the positive parameter that is the standard deviation of the effects, if their prior is
      normal: a number, or one for each of the effects of a level. The warm-up then chooses for each level how far its
      effect is divided by the scale. Any other prior is sampled correctly as well, but slowly.
    - `correlations`: the name of the parameter that holds the correlations of the effects of a level, if they have
      any: `isotherm.transforms.Correlations`, or the Cholesky factor of the matrix of correlations.
    - `location`: the mean of that prior, the same for all levels: the name of a parameter, or a number.
    - `standardized`: whether the model is written non-centred, with a standard normal leaf that rows multiply by the
      scale (and by the Cholesky factor, from the left).
    """

    rows: str | None = eqx.field(default=None, static=True)
    scale: str | None = eqx.field(default=None, static=True, kw_only=True)
    correlations: str | None = eqx.field(default=None, static=True, kw_only=True)
    location: str | float = eqx.field(default=0.0, static=True, kw_only=True)
    standardized: bool = eqx.field(default=False, static=True, kw_only=True)

    def __check_init__(self) -> None:
        for name in ("rows", "scale", "correlations"):
            value = getattr(self, name)
            if not isinstance(value, str) and value is not None:
                raise must(f"{name}` of `Group", "the name of a leaf, or `None`", value, error=TypeError)
        if self.rows is None and self.scale is None:
            repair = "A block of coefficients without a scale needs no group."
            raise must("scale` of `Group", "given if `rows` is not", self.scale, repair, error=TypeError)
        if not isinstance(self.location, str | int | float) or isinstance(self.location, bool):
            rule = "the name of a parameter, or a number"
            raise must("location` of `Group", rule, self.location, error=TypeError)
        check_flag("standardized` of `Group", self.standardized)
        for name, value in (
            ("correlations", self.correlations),
            ("location", self.location or None),
            ("standardized", self.standardized or None),
        ):
            if value is not None and self.scale is None:
                raise must(f"{name}` of `Group", "given together with `scale`", value, error=TypeError)
        if self.standardized and self.location != 0:
            raise must("location` of `Group", "left out if `standardized`", self.location, error=TypeError)

    @property
    def moved(self) -> bool:
        """Whether the leaf is not the effect itself, with its prior around zero."""
        return self.standardized or self.location != 0

    @property
    def parameters(self) -> dict[str, str]:
        """The names of the parameters that the prior depends on, by argument."""
        named = {"scale": self.scale, "correlations": self.correlations, "location": self.location}
        return {name: value for name, value in named.items() if isinstance(value, str)}


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
