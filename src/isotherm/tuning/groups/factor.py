"""The Cholesky factor of an arrow: the Hessian of U over the head and the levels of the largest group."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float
from scipy import linalg, sparse  # SciPy comes with JAX

from isotherm.tuning.groups.derivatives import Blocks, PriorBlocks
from isotherm.tuning.groups.layout import Layout, PairIndex
from isotherm.tuning.newton import whitening

_FLOOR = 1e-10  # smallest eigenvalue of a level's block, relative to its diagonal

Inner = tuple[np.ndarray, np.ndarray]  # vectors over head and largest group


@dataclasses.dataclass(frozen=True, eq=False)
class Arrow:
    """A point's derivatives of U / T, and the factor of its Hessian.

    - `gradient`: of the log-density over head and largest group, and `outer_gradient` over the outer parameters.
    - `by_outer`: derivatives of `gradient` along each outer parameter; `outer_hessian` those of `outer_gradient`.
    - `border`: the Hessian's block between levels and head, (G q, h).
    - `between`: the same by pair, for each crossed factor.
    - `information`: by factor, minus the Hessian of the log-likelihood of each level's rows, made positive.
    - `rows_depend`: on which outer parameters the log-likelihood depends.
    - `group_root`: R_g with R_g R_g' the inverse of a level's block; `head_root` that of the Schur complement.
    """

    value: float
    gradient: Inner
    outer_gradient: Float[np.ndarray, " o"]
    by_outer: Inner
    outer_hessian: Float[np.ndarray, "o o"]
    border: sparse.csr_matrix
    group_root: Float[np.ndarray, "G q q"]
    group_inverse: Float[np.ndarray, "G q q"]
    head_root: Float[np.ndarray, "h h"]
    head_inverse: Float[np.ndarray, "h h"]
    information: list[np.ndarray]
    rows_depend: Bool[np.ndarray, " o"]
    between: list[np.ndarray]

    def expected(self, head: Float[np.ndarray, "h ..."]) -> Float[np.ndarray, "G q ..."]:
        """Return how levels follow the head: minus the inverse of their blocks times the border times the head."""
        G, q, _ = self.group_root.shape
        return -self._times_covariance((self.border @ head).reshape(G, q, *head.shape[1:]))

    def solve(self, right: Inner) -> Inner:
        """Return the inverse of the Hessian times `right`, whose vectors may have a trailing axis."""
        head, group = right
        alone = self._times_covariance(group)
        rest = head - self.border.T @ alone.reshape(-1, *alone.shape[2:])
        head = self.head_root @ (self.head_root.T @ rest)
        return head, alone + self.expected(head)

    def spread(self, v: Inner) -> Inner:
        """Return L^-T v, which has the inverse of the Hessian as its covariance if v is standard normal."""
        head = self.head_root @ v[0]
        return head, np.einsum("gij,gj...->gi...", self.group_root, v[1]) + self.expected(head)

    def length(self, step: Inner) -> float:
        """Return the root mean square of a step, in standard deviations."""
        head = self.head_inverse @ step[0]
        group = np.einsum("gij,gj->gi", self.group_inverse, step[1] - self.expected(step[0]))
        return float(np.sqrt((head @ head + np.sum(group**2)) / (head.size + group.size)))

    def _times_covariance(self, x: Float[np.ndarray, "G q ..."]) -> Float[np.ndarray, "G q ..."]:
        inner = np.einsum("gji,gj...->gi...", self.group_root, x)
        return np.einsum("gij,gj...->gi...", self.group_root, inner)


def arrow(
    layout: Layout, pairs: Sequence[PairIndex], rows: Blocks, prior: PriorBlocks, temperature: float
) -> Arrow:
    """Return the factor from the derivatives of the log-likelihood of all rows and of the log-prior."""
    k, T = layout.num_outer, temperature
    total = lambda a, b: (np.asarray(a, np.float64) + b) / T
    dense, dense_dense = total(rows.dense, prior.dense), total(rows.dense_dense, prior.dense_dense)
    levels, blocks, by_dense = (
        [total(a, b) for a, b in zip(*x, strict=True)]
        for x in (
            (rows.levels, prior.levels),
            (rows.levels_levels, prior.levels_levels),
            (rows.levels_dense, prior.levels_dense),
        )
    )
    own = -blocks[-1]
    group_root, group_inverse = _roots(own)
    head_gradient = np.concatenate([dense[k:], *(x.ravel() for x in levels[:-1])])
    by_outer = np.concatenate([dense_dense[k:, :k], *(x[..., :k].reshape(-1, k) for x in by_dense[:-1])])
    between = _between(layout, rows, T)
    border = _border(layout, pairs, between, by_dense)
    covariance = _block_diagonal(group_root @ np.swapaxes(group_root, 1, 2))
    schur = _head(layout, pairs, rows, dense_dense, blocks, by_dense, T)
    schur -= (border.T @ (covariance @ border)).toarray()
    head_root, head_inverse = _root(schur)
    return Arrow(
        value=float(rows.value + prior.value) / T,
        gradient=(head_gradient, levels[-1]),
        outer_gradient=dense[:k],
        by_outer=(by_outer, by_dense[-1][..., :k]),
        outer_hessian=dense_dense[:k, :k],
        border=border,
        group_root=group_root,
        group_inverse=group_inverse,
        head_root=head_root,
        head_inverse=head_inverse,
        information=[_positive(-np.asarray(x, np.float64) / T) for x in rows.levels_levels],
        rows_depend=np.any(np.asarray(rows.dense_dense)[:k] != 0, axis=1) | (np.asarray(rows.dense)[:k] != 0),
        between=between,
    )


def _positive(matrices: Float[np.ndarray, "L q q"]) -> Float[np.ndarray, "L q q"]:
    """Return the matrices with their negative eigenvalues set to zero."""
    values, vectors = np.linalg.eigh((matrices + np.swapaxes(matrices, 1, 2)) / 2)
    return (vectors * np.maximum(values, 0)[:, None, :]) @ np.swapaxes(vectors, 1, 2)


def _between(layout: Layout, rows: Blocks, T: float) -> list[np.ndarray]:
    """Return the Hessian's blocks between levels of the largest group and of each crossed one, by pair."""
    last = len(layout.factors) - 1
    numbers = [layout.pairs.index((i, last)) for i in range(last)]
    return [-np.swapaxes(np.asarray(rows.between[k], np.float64), 1, 2) / T for k in numbers]


def _border(
    layout: Layout, pairs: Sequence[PairIndex], between: list[np.ndarray], by_dense: list[np.ndarray]
) -> sparse.csr_matrix:
    """Return the Hessian's block between the levels of the largest group and the head."""
    k, last = layout.num_outer, len(layout.factors) - 1
    group = layout.factors[last]
    parts = [sparse.csr_matrix(-by_dense[last][..., k:].reshape(group.num_levels * group.width, -1))]
    for i, factor in enumerate(layout.factors[:-1]):
        number = layout.pairs.index((i, last))
        values = np.swapaxes(between[i], 1, 2)  # (pair, effect of the factor, of the largest)
        first, second = pairs[number].first, pairs[number].second
        down = second[:, None, None] * group.width + np.arange(group.width)[None, None, :]
        across = first[:, None, None] * factor.width + np.arange(factor.width)[None, :, None]
        index = tuple(np.broadcast_to(x, values.shape).ravel() for x in (down, across))
        shape = (group.num_levels * group.width, factor.num_levels * factor.width)
        parts.append(sparse.csr_matrix((values.ravel(), index), shape=shape))
    return sparse.csr_matrix(sparse.hstack(parts))


def _head(
    layout: Layout,
    pairs: Sequence[PairIndex],
    rows: Blocks,
    dense_dense: np.ndarray,
    blocks: list[np.ndarray],
    by_dense: list[np.ndarray],
    T: float,
) -> Float[np.ndarray, "h h"]:
    """Return the Hessian over the head."""
    k, crossed = layout.num_outer, layout.factors[:-1]
    out = np.zeros((layout.num_head, layout.num_head))
    p = layout.num_dense - k
    out[:p, :p] = -dense_dense[k:, k:]
    starts = [layout.start(factor) for factor in crossed]
    for i, (factor, start) in enumerate(zip(crossed, starts, strict=True)):
        L, q = factor.num_levels, factor.width
        at = start + np.arange(L * q).reshape(L, q)
        out[at[:, :, None], at[:, None, :]] = -blocks[i]
        side = -by_dense[i][..., k:].reshape(L * q, p)
        out[start : start + L * q, :p], out[:p, start : start + L * q] = side, side.T
    for number, (i, j) in enumerate(layout.pairs):
        if j < len(crossed):
            a, b, pair = crossed[i], crossed[j], pairs[number]
            down = starts[i] + pair.first[:, None] * a.width + np.arange(a.width)
            across = starts[j] + pair.second[:, None] * b.width + np.arange(b.width)
            values = -np.asarray(rows.between[number], np.float64) / T
            out[down[:, :, None], across[:, None, :]] = values
            out[across[:, :, None], down[:, None, :]] = np.swapaxes(values, 1, 2)
    return out


def _roots(matrices: Float[np.ndarray, "G q q"]) -> tuple[np.ndarray, np.ndarray]:
    """Return R with R R' the inverse of each matrix, made positive, and the inverse of R."""
    scale = np.sqrt(np.maximum(np.abs(np.diagonal(matrices, axis1=1, axis2=2)), 1e-300))
    values, vectors = np.linalg.eigh(matrices / (scale[:, :, None] * scale[:, None, :]))
    values = np.maximum(np.abs(values), _FLOOR)
    # The symmetric root, whose axes are the effects themselves as far as possible.
    root = (vectors / np.sqrt(values)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    inverse = (vectors * np.sqrt(values)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    return root / scale[:, :, None], inverse * scale[:, None, :]


def _root(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return R with R R' the inverse of a matrix, made positive if it is not, and the inverse of R."""
    try:
        factor = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return whitening(matrix, 0.0, 1e-16)
    inverse = np.asarray(linalg.solve_triangular(factor, np.eye(len(factor)), lower=True))
    return np.ascontiguousarray(inverse.T), np.ascontiguousarray(factor.T)


def _block_diagonal(blocks: Float[np.ndarray, "G q q"]) -> sparse.csr_matrix:
    G, q, _ = blocks.shape
    indices = (np.arange(G)[:, None, None] * q + np.arange(q)[None, None, :]) + np.zeros((1, q, 1), int)
    return sparse.csr_matrix(
        (blocks.ravel(), indices.ravel(), np.arange(0, G * q * q + 1, q)), shape=(G * q, G * q)
    )
