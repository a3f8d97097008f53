"""`predict`: a function of the parameters at every row, averaged over the draws."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm.data.checks import unmasked
from isotherm.data.opening import as_source
from isotherm.data.rows import checked_rows
from isotherm.draws import Draws
from isotherm.errors import check_count, must
from isotherm.keys import as_key
from isotherm.prediction.blocks import blocks, chosen, in_a_row
from isotherm.prediction.record import Prediction, checked_levels, joined, over_draws
from isotherm.progress import Progress
from isotherm.signals import deferred


def predict(
    draws: Draws,
    f: Callable[..., Array],
    x: PyTree,
    *,
    quantiles: Sequence[float] = (0.05, 0.5, 0.95),
    observed: Array | np.ndarray | None = None,
    draws_used: int | None = None,
    seed: int | Key[Array, ""] | None = None,
    rows_at_once: int | None = None,
    progress: bool = False,
) -> Prediction:
    """Mean, standard deviation and quantiles of `f` over the draws, for each row of `x`.

    Rows are processed in blocks, so that the values of all rows at all draws are never in memory at once. The
    quantiles are exact. Failed chains are left out.

    **Arguments:**

    - `f`: `(params, x) -> array (row, ...)`, such as the probability of each class. With a `seed`,
      `(params, x, key) -> array (row, ...)`, which may draw an outcome. The intervals are then those of outcomes,
      noise included, rather than those of expectations.
    - `x`: pytree of arrays whose leading axis is the rows, or a source.
    - `observed`: outcomes, in the shape of the prediction. Adds `pit` and `crps`, for `iso.scores.regression`.
    - `draws_used`: the largest number of draws to use, evenly spaced. `None` uses all.
    - `rows_at_once`: the number of rows in a block. `None` takes as many as give 16 million values. Take fewer if `f`
      itself needs much memory.
    - `progress`: show how many rows are done, on a terminal or in a notebook.
    """
    levels = checked_levels(quantiles)
    if not callable(f):
        raise must("f", "a function of parameters and rows", f, error=TypeError)
    if rows_at_once is not None:
        check_count("rows_at_once", rows_at_once, minimum=1)
    key = None if seed is None else as_key(seed)
    source = as_source(x)
    x, num_rows = (source, source.num_rows) if source else checked_rows(x, argument="x")[:2]
    y = None if observed is None else np.asarray(unmasked("observed", observed))
    if y is not None and (y.ndim == 0 or len(y) != num_rows):
        raise must("observed", f"an array of {num_rows} rows, as many as `x`", y)
    params = in_a_row(chosen(draws, draws_used))
    parts = []
    with deferred(), Progress("predictions", num_rows, show=progress) as bar:
        for rows, values in blocks(f, params, x, rows_at_once=rows_at_once, key=key):
            if y is not None and y.shape[1:] != values.shape[2:]:
                raise must("observed", f"of the shape of a prediction, {(num_rows, *values.shape[2:])}", y)
            parts.append(over_draws(values, levels, None if y is None else y[rows]))
            bar.count_rows(rows.stop - rows.start)
    return joined(parts)
