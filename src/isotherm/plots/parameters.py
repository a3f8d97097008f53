"""Which numbers of the parameters a figure shows: those asked for, or those that have mixed worst."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from isotherm.draws import Draws
from isotherm.errors import must
from isotherm.judging.summary import labels_of
from isotherm.prediction.blocks import chosen


@dataclasses.dataclass(frozen=True, eq=False)
class Parameter:
    """One number of the parameters: its name, its draws (chain, draw), its R-hat."""

    name: str
    values: Float[np.ndarray, "chain draw"]
    r_hat: float


@dataclasses.dataclass(frozen=True, eq=False)
class Shown:
    """What a figure is of: the chains that did not fail, some of their parameters, and a line that says so."""

    draws: Draws
    parameters: tuple[Parameter, ...]
    note: str


def shown(draws: Draws, names: Sequence[str] | None, most: int) -> Shown:
    """`names` are leaves or single numbers such as `w[2]`; `None` takes `most`, those with the largest R-hat."""
    whole = chosen(draws)
    leaves, labels = whole.flat(), labels_of(whole)
    every = [(name, i) for name, leaf in leaves.items() for i in range(int(np.prod(leaf.shape[2:])))]
    picked = every if names is None else _asked(names, labels, every)
    if names is not None and not 1 <= len(picked) <= most:
        raise must("names", f"of 1 to {most} parameters", tuple(names), "Name single ones, such as `w[0]`.")
    if len(picked) > most:
        worst = np.concatenate([_split_r_hat(leaf) for leaf in leaves.values()])
        kept = np.sort(np.argsort(-np.nan_to_num(worst, nan=np.inf), kind="stable")[:most])
        picked = [every[k] for k in kept]
    parameters = tuple(_parameter(leaves[name], i, labels[name][i]) for name, i in picked)
    notes = [left_out(draws)]
    if len(parameters) < len(every) and names is None:
        notes.insert(0, f"{len(picked)} of {len(every):,} parameters, those with the largest R-hat")
    return Shown(whole, parameters, "; ".join(note for note in notes if note))


def left_out(draws: Draws) -> str:
    """A line on chains that failed, empty where there are none."""
    failed = int(np.sum(~draws.complete))
    return f"{failed} of {draws.num_chains} chains failed and are left out" if failed else ""


def side_by_side(leaf: np.ndarray) -> Float[np.ndarray, "chain draw number"]:
    """A leaf as numbers side by side, in 64 bits."""
    return leaf.reshape(*leaf.shape[:2], -1).astype(np.float64)


def _asked(
    names: Sequence[str], labels: dict[str, list[str]], every: list[tuple[str, int]]
) -> list[tuple[str, int]]:
    known = {labels[name][i]: (name, i) for name, i in every}
    out = []
    for asked in names:
        found = [known[asked]] if asked in known else [pair for pair in every if pair[0] == asked]
        if not found:
            raise must("names", "names of parameters", asked, f"There are {', '.join(list(known)[:10])}.")
        out += found
    return out


def _parameter(leaf: np.ndarray, i: int, label: str) -> Parameter:
    from arviz_stats.base import array_stats

    stats: Any = array_stats
    values = side_by_side(leaf)[:, :, i]
    enough = values.shape[1] >= 4 and np.ptp(values) > 0
    r_hat = float(stats.rhat(values, chain_axis=0, draw_axis=1)) if enough else float("nan")
    return Parameter(label, values, r_hat)


def _split_r_hat(leaf: np.ndarray) -> Float[np.ndarray, " number"]:
    """Without ranks, for all numbers of a leaf at once: half chains against each other."""
    half = leaf.shape[1] // 2
    if half < 2:
        return np.full(int(np.prod(leaf.shape[2:])), np.nan)
    x = side_by_side(leaf)
    halves = np.concatenate([x[:, :half], x[:, -half:]])
    within, between = halves.var(axis=1, ddof=1).mean(axis=0), halves.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((half - 1) / half + between / within)
