"""The log-likelihoods of rows from the effects of their own levels alone.

Indexing a leaf by level in the log-likelihood of a row makes gathers of windows, and scatters in the gradient. They
take a CPU ten times as long as gathers of single numbers, which is what is done here.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from isotherm.posterior import Posterior
from isotherm.readable import Readable


class OwnLevels(Readable, eqx.Module):
    """Which leaves have levels, and which leaves of the rows hold their numbers, by position among all leaves."""

    leaves: tuple[int, ...] = eqx.field(static=True)
    columns: tuple[int, ...] = eqx.field(static=True)

    def row_log_likelihoods(self, posterior: Posterior, theta: PyTree, rows: PyTree) -> Float[Array, " n"]:
        """Return one for each row."""
        leaves, columns = jax.tree.leaves(theta), jax.tree.leaves(rows)
        own = [taken(leaves[i], columns[j]) for i, j in zip(self.leaves, self.columns, strict=True)]
        return jax.vmap(lambda own, row: self.log_likelihood(posterior, theta, own, row))(own, rows)

    def log_likelihood(
        self, posterior: Posterior, theta: PyTree, own: list[Array], row: PyTree
    ) -> Float[Array, ""]:
        """Return that of a row whose own levels have the effects `own`. Those in `theta` are not used.

        A leaf with levels has a single one here, the row's own, which is number 0.
        """
        leaves, structure = jax.tree.flatten(theta)
        columns, kind = jax.tree.flatten(row)
        for i, j, effects in zip(self.leaves, self.columns, own, strict=True):
            leaves[i] = effects.reshape(1, *leaves[i].shape[1:])
            columns[j] = jnp.zeros(columns[j].shape, columns[j].dtype)
        return posterior.one_log_likelihood(structure.unflatten(leaves), kind.unflatten(columns))


def taken(leaf: Float[Array, "L ..."], level: Int[Array, " n"]) -> Float[Array, "n q"]:
    """Return the effects of the levels of rows."""
    flat = leaf.reshape(leaf.shape[0], -1)
    columns = [flat[:, i].at[level].get(mode="promise_in_bounds") for i in range(flat.shape[1])]
    return jnp.stack(columns, axis=1)


def summed(terms: Float[Array, "n ..."], level: Int[Array, " n"], count: int) -> Float[Array, "L ..."]:
    """Return the sums of the terms of the rows of each level."""
    flat = terms.reshape(terms.shape[0], -1).T
    add = lambda x: jnp.zeros(count, terms.dtype).at[level].add(x, mode="promise_in_bounds")
    return jax.lax.map(add, flat).T.reshape(count, *terms.shape[1:])
