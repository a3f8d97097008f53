"""Scores of a network: of trained ones, of their average, and of draws from the posterior."""

import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from isotherm.compilation import compile_fully
from isotherm.draws import Draws
from isotherm.interop.networks import Network, Params
from isotherm.networks import judged
from isotherm.networks.judged import Score
from isotherm.prediction.blocks import chosen, in_a_row


def scores_of(
    net: Network, starts: tuple[Params, ...], draws: Draws, rows: PyTree, power: float | None
) -> tuple[Score, ...]:
    """Return scores of the starts, of their average, and of the draws.

    Probabilities of the draws are raised to `power`, or to the one that fits these rows best.
    """
    y, found = np.asarray(rows["y"]), []

    def plain(name: str, params: PyTree) -> Score:
        values = judged.log_likelihoods(net.posterior, params, rows)
        p = mean_of(net, params, rows["x"]) if net.likelihood.classes else None
        return judged.score(name, judged.predictive(values), p, y)

    if starts:
        each = [jax.tree.map(lambda x: x[None], theta) for theta in starts]
        found.append(judged.averaged("trained", [plain("", theta) for theta in each]))
    if len(starts) > 1:
        found.append(plain("trained, averaged", jax.tree.map(lambda *x: jnp.stack(x), *starts)))
    if not draws.complete.any() or draws.num_draws == 0:
        return tuple(found)
    if not net.likelihood.classes:
        return (*found, plain("sampled", in_a_row(chosen(draws))))
    p = mean_of(net, in_a_row(chosen(draws)), rows["x"])
    q = judged.recalibrated(p, judged.sharpest(p, y) if power is None else power)
    return (*found, judged.score("sampled", judged.of_classes(q, y), q, y))


def mean_of(net: Network, params: PyTree, x: PyTree) -> np.ndarray:
    """Return the mean of y for each row, averaged over `params`, whose leaves are (draw, ...)."""
    total, count = np.zeros(()), 0
    for value in judged.values_at(functools.partial(_of_rows, net), params, x):
        total, count = total + value, count + 1
    return total / count


@compile_fully
def _of_rows(net: Network, params: Params, x: PyTree) -> Array:
    return net.mean(params, x)


def table(scores: tuple[Score, ...]) -> Iterator[Any]:
    """Yield scores as a table for Rich."""
    from isotherm.terminal import Table

    table = Table(box=None, header_style="bold")
    table.add_column(f"{len(scores[0].losses):,} rows")
    for title in ("loss", "", "accuracy", "calibration error"):
        table.add_column(title, justify="right")
    for row in scores:
        plain = lambda x: "" if x is None else f"{x:.4f}"
        cells = (plain(row.accuracy), plain(row.calibration_error))
        table.add_row(row.name, f"{row.loss:.4f}", f"± {row.error:.4f}", *cells)
    yield table
