"""Lower triangular factors of many small matrices.

Those of up to `WRITTEN_OUT` rows are written out, element by element: a library's loop over matrices takes a hundred
times as long, and so do sums over a short last axis. Larger ones, of which there are few, are left to the library.
"""

from collections.abc import Iterable

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from isotherm.readable import Readable

WRITTEN_OUT = 8


def total(terms: Iterable[Array]) -> Array:
    """Return the sum of arrays, 0 if there are none."""
    return sum(terms, start=jnp.zeros(()))


def products(matrices: Float[Array, "G q q"], x: Float[Array, "G q"]) -> Float[Array, "G q"]:
    """Return each matrix times its vector."""
    if x.shape[1] > WRITTEN_OUT:
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

    def times_transposed(self, x: Float[Array, "G q"]) -> Float[Array, "G q"]:
        """Return K' x."""
        K, size = self.matrices, self._size
        if not self._is_small:
            return jnp.einsum("gji,gj->gi", jnp.tril(K), x)
        return jnp.stack([total(K[:, j, i] * x[:, j] for j in range(i, size)) for i in range(size)], axis=1)

    def log_determinants(self) -> Float[Array, " G"]:
        """Return log det K."""
        return total(jnp.log(self.matrices[:, i, i]) for i in range(self._size))

    @property
    def _size(self) -> int:
        return self.matrices.shape[1]

    @property
    def _is_small(self) -> bool:
        return self._size <= WRITTEN_OUT


def cholesky(matrices: Float[Array, "G q q"]) -> Lower:
    """Return K with K K' = each matrix."""
    size = matrices.shape[1]
    if size > WRITTEN_OUT:
        return Lower(jnp.linalg.cholesky(matrices))
    K: list[list[Array]] = []
    for i in range(size):
        row: list[Array] = []
        for j in range(i):
            rest = total(row[k] * K[j][k] for k in range(j))
            row.append((matrices[:, i, j] - rest) / K[j][j])
        row.append(jnp.sqrt(matrices[:, i, i] - total(x**2 for x in row)))
        K.append(row)
    above = jnp.zeros_like(matrices[:, 0, 0])
    full = [jnp.stack([*row, *[above] * (size - len(row))], axis=1) for row in K]
    return Lower(jnp.stack(full, axis=1))
