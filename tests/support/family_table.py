"""The table of families in docs/families.md, from the families themselves.

`python -m support.family_table`, in `tests/`, prints it.
"""

from isotherm.tables.families import MODELS, Prior, family_of

_EVERYWHERE = ("offset", "weights")


def row(model):
    """Return the line of a family."""
    family = family_of(model)
    given = [f"`{x}`" if x in family.needs else f"[`{x}`]" for x in family.roles if x not in _EVERYWHERE]
    given += [f"[`{name}`]" for name in family.settings]
    priors = Prior().describe(family, standardize=True)
    own = [f"`{x.name}`: {priors[x.name]}" for x in family.auxiliaries]
    ratio = "" if family.effect.ratio is None else family.effect.ratio
    return f"| `{model}` | {family.target.words} | {', '.join(given)} | {ratio} | {'; '.join(own)} |"


def rows():
    """Return the lines of all families of the library."""
    return [row(model) for model in MODELS]


if __name__ == "__main__":
    print("\n".join(rows()))
