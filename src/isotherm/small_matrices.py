"""Lower triangular factors of many small matrices.

Those of up to `WRITTEN_OUT` rows are written out, element by element: a library's loop over matrices takes a hundred
times as long, and so do sums over a short last axis. Larger ones, and those of which there are few, are left to the
library: second derivatives of what is written out take long to compile.
"""

from collections.abc import Iterable

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from isotherm.readable import Readable

WRITTEN_OUT = 8
_TINY, _FEW = 2, 64  # rows that are written out in any case, and matrices up to which larger ones are not


def total(terms: Iterable[Array]) -> Array:
    """Return the sum of arrays, 0 if there are none."""
    return sum(terms, start=jnp.zeros(()))


def _is_written_out(matrices: Float[Array, "G q q"]) -> bool:
    count, size, _ = matrices.shape
    return size <= _TINY or (size <= WRITTEN_OUT and count > _FEW)


def products(matrices: Float[Array, "G q q"], x: Float[Array, "G q"]) -> Float[Array, "G q"]:
    """Return each matrix times its vector."""
    if not _is_written_out(matrices):
        return jnp.einsum("gij,gj->gi", matrices, x)
    rows = range(x.shape[1])
    return jnp.stack([total(matrices[:, i, j] * x[:, j] for j in rows) for i in rows], axis=1)


class Lower(Readable, eqx.Module):
    """The lower triangular matrices K. Elements above the diagonal are not read."""

    matrices: Float[Array, "G q q"]

    def solve(self, x: Float[Array, "G q"]) -> Float[Array, "G q"]:
        """Return K^-1 x."""
        if not self._is_small:
            return solve_triangular(self.matrices, x[..., None], lower=True)[..., 0]
        K, out = self.matrices, []
        for i in range(self._size):
            rest = total(K[:, i, j] * out[j] for j in range(i))
            out.append((x[:, i] - rest) / K[:, i, i])
        return jnp.stack(out, axis=1)

    def solve_transposed(self, x: Float[Array, "G q"]) -> Float[Array, "G q"]:
        """Return K^-T x."""
        if not self._is_small:
            return solve_triangular(self.matrices, x[..., None], lower=True, trans="T")[..., 0]
        K, out = self.matrices, {}
        for i in reversed(range(self._size)):
            rest = total(K[:, j, i] * out[j] for j in range(i + 1, self._size))
            out[i] = (x[:, i] - rest) / K[:, i, i]
        return jnp.stack([out[i] for i in range(self._size)], axis=1)

    def times(self, x: Float[Array, "G q"]) -> Float[Array, "G q"]:
        """Return K x."""
        K, size = self.matrices, self._size
        if not self._is_small:
            return jnp.einsum("gij,gj->gi", jnp.tril(K), x)
        return jnp.stack([total(K[:, i, j] * x[:, j] for j in range(i + 1)) for i in range(size)], axis=1)

    def log_determinants(self) -> Float[Array, " G"]:
        """Return log det K."""
        return jnp.sum(jnp.log(jnp.diagonal(self.matrices, axis1=1, axis2=2)), axis=1)

    @property
    def _size(self) -> int:
        return self.matrices.shape[1]

    @property
    def _is_small(self) -> bool:
        return _is_written_out(self.matrices)


def reversed_cholesky(matrices: Float[Array, "G q q"]) -> Lower:
    """Return K with K' K = each matrix."""
    size = matrices.shape[1]
    if not _is_written_out(matrices):
        turned = jnp.linalg.cholesky(matrices[:, ::-1, ::-1])
        return Lower(jnp.swapaxes(turned[:, ::-1, ::-1], 1, 2))
    K: dict[tuple[int, int], Array] = {}
    for i in reversed(range(size)):
        below = range(i + 1, size)
        K[i, i] = jnp.sqrt(matrices[:, i, i] - total(K[k, i] ** 2 for k in below))
        for j in range(i):
            K[i, j] = (matrices[:, i, j] - total(K[k, i] * K[k, j] for k in below)) / K[i, i]
    above = jnp.zeros_like(matrices[:, 0, 0])
    rows = [[K.get((i, j), above) for j in range(size)] for i in range(size)]
    return Lower(jnp.stack([jnp.stack(row, axis=1) for row in rows], axis=1))
