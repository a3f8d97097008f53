"""The expansion of all rows around the center, by which batches of rows estimate the force."""

import numpy as np
from jaxtyping import PyTree

from isotherm import tree
from isotherm.arrow import ArrowPreconditioner
from isotherm.centring import Charted
from isotherm.data.stream import Stream
from isotherm.gradients.arrow_variate import ArrowSums, ArrowVariate, Between, Effects
from isotherm.posterior import Posterior
from isotherm.tuning.groups.derivatives import Blocks, blocks
from isotherm.tuning.groups.layout import Layout, PairIndex
from isotherm.tuning.newton import whitening


def expansion(
    posterior: Posterior,
    data: PyTree | Stream,
    layout: Layout,
    pairs: list[PairIndex],
    chart: Charted,
    frame: ArrowPreconditioner,
) -> ArrowVariate:
    """Return control variates around the center of `frame`, in the precision of its numbers: one pass.

    `posterior` has the density of the free parameters.
    """
    found = blocks(posterior, data, frame.center, layout, pairs)
    sums = _sums(found, layout, pairs, tree.dtype_of(frame.center))
    return ArrowVariate(posterior, frame.center, sums, chart, frame)


def _sums(found: Blocks, layout: Layout, pairs: list[PairIndex], dtype: np.dtype) -> ArrowSums:
    put = lambda x: tree.put(x, dtype)
    matrix = -np.asarray(found.dense_dense, np.float64)
    unused = np.diag(matrix) == 0  # the rows do not depend on the scale of a prior
    root, to_white = whitening(matrix + np.diag(unused.astype(float)), 0.0, 1e-16)
    factors = tuple(
        Effects(factor.leaf, factor.column, put(gradient), put(hessian), put(by_dense @ root))
        for factor, gradient, hessian, by_dense in zip(
            layout.factors, found.levels, found.levels_levels, found.levels_dense, strict=True
        )
    )
    between = tuple(
        Between(tree.put(pair.first, np.int32), tree.put(pair.second, np.int32), put(values))
        for pair, values in zip(pairs, found.between, strict=True)
    )
    return ArrowSums(
        value=put(found.value),
        to_white=put(to_white),
        gradient=put(root.T @ found.dense),
        hessian=put(root.T @ found.dense_dense @ root),
        factors=factors,
        pairs=layout.pairs,
        between=between,
    )
