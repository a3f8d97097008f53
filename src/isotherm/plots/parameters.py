"""The parameters that a figure shows: the ones that were named, or the ones with the largest R-hat."""

import dataclasses
import itertools
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float

from isotherm.draws import Draws
from isotherm.draws.convergence import r_hats
from isotherm.draws.elements import elements_of, labels_of
from isotherm.errors import must
from isotherm.prediction.blocks import chosen

_Element = tuple[str, int]  # a leaf's name, and an index into its ravelled elements


@dataclasses.dataclass(frozen=True, eq=False)
class Parameter:
    """One scalar parameter: its label, its draws (chain, draw) and its R-hat."""

    name: str
    values: Float[np.ndarray, "chain draw"]
    r_hat: float


@dataclasses.dataclass(frozen=True, eq=False)
class Shown:
    """What a figure shows: draws of the chains that did not fail, some of their parameters, a note on the rest."""

    draws: Draws
    parameters: tuple[Parameter, ...]
    note: str


def shown(draws: Draws, names: Sequence[str] | None, most: int) -> Shown:
    """Select at most `most` parameters.

    `names` are leaves or single elements such as `w[2]`. `None` selects the ones with the largest R-hat.
    """
    complete = chosen(draws)
    leaves, labels, elements = complete.flat(), labels_of(complete), _elements(complete)
    selected = elements if names is None else _named(names, labels, elements)
    if names is not None and not 1 <= len(selected) <= most:
        raise must(
            "names", f"the names of 1 to {most} parameters", tuple(names), "Name single ones, such as `w[0]`."
        )
    if len(selected) > most:
        r_hats = np.concatenate([_split_r_hat(leaf) for leaf in leaves.values()])
        worst = np.sort(np.argsort(-np.nan_to_num(r_hats, nan=np.inf), kind="stable")[:most])
        selected = [elements[k] for k in worst]
    notes = [left_out(draws)]
    if len(selected) < len(elements) and names is None:
        notes.insert(0, f"{len(selected)} of {len(elements):,} parameters, those with the largest R-hat")
    return Shown(complete, _parameters(complete, selected), "; ".join(note for note in notes if note))


def shown_at(draws: Draws, positions: Iterable[int]) -> Shown:
    """Select parameters by their positions among all elements of `draws.flat()`."""
    complete = chosen(draws)
    elements = _elements(complete)
    return Shown(complete, _parameters(complete, [elements[k] for k in positions]), left_out(draws))


def left_out(draws: Draws) -> str:
    """A note on failed chains, empty if there are none."""
    failed = int(np.sum(~draws.complete))
    return f"{failed} of {draws.num_chains} chains failed and are left out" if failed else ""


def side_by_side(leaf: np.ndarray) -> Float[np.ndarray, "chain draw number"]:
    """A leaf with its elements along one axis, in float64."""
    return np.asarray(leaf, np.float64).reshape(*leaf.shape[:2], -1)


def _elements(draws: Draws) -> list[_Element]:
    return [(name, i) for name, leaf in draws.flat().items() for i in range(int(np.prod(leaf.shape[2:])))]


def _named(names: Sequence[str], labels: dict[str, list[str]], elements: list[_Element]) -> list[_Element]:
    by_label = {labels[leaf][i]: (leaf, i) for leaf, i in elements}
    selected = []
    for name in names:
        matches = [by_label[name]] if name in by_label else [pair for pair in elements if pair[0] == name]
        if not matches:
            raise must("names", "names of parameters", name, f"There are {', '.join(list(by_label)[:10])}.")
        selected += matches
    return selected


def _parameters(draws: Draws, selected: Sequence[_Element]) -> tuple[Parameter, ...]:
    leaves, labels = draws.flat(), labels_of(draws)
    return tuple(_parameter(leaves[name], i, labels[name][i]) for name, i in selected)


def _parameter(leaf: np.ndarray, i: int, label: str) -> Parameter:
    values = next(itertools.islice(elements_of(leaf), i, None)).astype(np.float64)
    return Parameter(label, values, float(r_hats(values[None])[0]))


def _split_r_hat(leaf: np.ndarray) -> Float[np.ndarray, " number"]:
    """The split R-hat of every element of a leaf, without rank normalisation."""
    half = leaf.shape[1] // 2
    if half < 2:
        return np.full(int(np.prod(leaf.shape[2:])), np.nan)
    x = side_by_side(leaf)
    halves = np.concatenate([x[:, :half], x[:, -half:]])
    within, between = halves.var(axis=1, ddof=1).mean(axis=0), halves.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((half - 1) / half + between / within)
