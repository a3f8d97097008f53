"""`Problem`: a posterior with its rows and a starting point, checked once."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.data.checks import InfiniteRows, holds_infinity
from isotherm.data.fingerprint import fingerprint
from isotherm.data.stream import Stream, some_rows, taken
from isotherm.posterior import Posterior
from isotherm.readable import Readable
from isotherm.sums import precision

_CHECKED_ROWS = 4096  # rows whose log-likelihood must be finite at the starts
_NUMBERS = 2**22  # in the gradients of rows that are computed at once


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Problem(Readable):
    """What chains are run on. `isotherm.sampling.prepare` makes one.

    - `posterior`: as the user gave it, over constrained parameters.
    - `density`: the density of the free parameters, which chains hold in 32 bits or more.
    - `data`, `num_data`: the rows on the device, or a stream of them, and their number.
    - `init`: free parameters to start from, with a leading axis of chains if `per_chain`.
    - `infinite`: which rows hold infinite values.
    - `float64`: whether chains run in float64 although JAX is set to float32.
    """

    posterior: Posterior
    density: Posterior
    data: PyTree[Array] | Stream
    num_data: int
    init: PyTree[Array]
    per_chain: bool = False
    infinite: tuple[InfiniteRows, ...] = ()
    float64: bool = False

    @functools.cached_property
    def why_not_float64(self) -> str | None:
        """Why sums over rows are not taken in float64; `None` if they are."""
        start = jax.tree.map(lambda x: x[0], self.init) if self.per_chain else self.init
        return precision.why_not_float64(self.density, self.data, start)

    @property
    def temperature(self) -> float:
        """The temperature T of the posterior."""
        return float(self.posterior.temperature)

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of the rows, to recognise other data."""
        return fingerprint(self.data)

    def remember_rows(self) -> None:
        """Hash the rows now. JAX may share the memory of a NumPy array, whose owner may change it later."""
        _ = self.fingerprint

    def check_starts(self, positions: PyTree[Array]) -> None:
        """Raise if the log-density is not finite at one of the starts, one per chain.

        A few thousand rows are checked, and a few thousand of those with infinite values.
        """
        for name, x in tree.named_leaves(positions):
            if not np.all(np.isfinite(np.asarray(x))):  # in NumPy, which compiles nothing
                raise ValueError(
                    f"`init{'.' + name if name else ''}` must be finite; it holds NaN or infinity."
                )
        rows, index = some_rows(self.data, _CHECKED_ROWS)
        densities = _log_densities(self.density, positions, rows)
        likelihoods, priors = (np.asarray(x) for x in densities)
        bad = ~np.isfinite(likelihoods)
        if self.infinite:  # reported below, with another repair
            bad &= ~np.any([holds_infinity(x) for x in jax.tree.leaves(rows)], axis=0)
        bad_chain, bad_row = np.nonzero(bad)
        if len(bad_chain):
            value = likelihoods[bad_chain[0], bad_row[0]]
            raise ValueError(
                f"`init` must have a finite log-density; the log-likelihood of row {index[bad_row[0]]} is {value} "
                f"at the start of chain {bad_chain[0]}. Start inside the support of the posterior."
            )
        if not np.isfinite(priors).all():
            chain = int(np.argmax(~np.isfinite(priors)))
            raise ValueError(
                f"`init` must have a finite log-density; the log-prior is {priors[chain]} at the start of chain "
                f"{chain}. Start inside the support of the prior."
            )
        if self.infinite:
            self._check_infinite(positions)

    def _check_infinite(self, positions: PyTree[Array]) -> None:
        """Raise if a row with an infinite value has no finite log-likelihood or gradient at one of the starts."""
        index = np.unique(np.concatenate([x.index for x in self.infinite]))
        checked = _row_gradients(self.density, positions, taken(self.data, index))
        likelihoods, finite_gradients = (np.asarray(x) for x in checked)
        bad = (~np.isfinite(likelihoods) | ~finite_gradients).T
        bad_row, bad_chain = np.nonzero(bad)
        if len(bad_row) == 0:
            return
        row, value = index[bad_row[0]], likelihoods[bad_chain[0], bad_row[0]]
        in_row = [x for x in self.infinite if row in x.index]
        # An array whose infinite values are harmless in other rows is not to blame.
        harmless = index[~bad.any(axis=1)]
        blamed = [x for x in in_row if not np.isin(harmless, x.index).any()] or in_row
        where = " and ".join(f"`{x.label}` ({x.count} of {self.num_data} rows are)" for x in blamed)
        overflow = " (as float32)" if any(x.overflowed for x in blamed) else ""
        what, shown = ("", value) if not np.isfinite(value) else ("gradient of the ", "not finite")
        raise ValueError(
            f"`data` must be finite unless the log-likelihood and its gradient are finite all the same; row {row} is "
            f"infinite{overflow} in {where}, and the {what}log-likelihood of that row is {shown} at the start of "
            f"chain {bad_chain[0]}. Drop those rows, or replace their infinite values by a finite number."
        )


@compile_quickly
def _log_densities(posterior: Posterior, positions: PyTree, rows: PyTree) -> tuple[Array, Array]:
    """Return the log-likelihoods of the rows, and the log-prior, at each position."""
    likelihoods = jax.vmap(posterior.row_log_likelihoods, in_axes=(0, None))(positions, rows)
    return likelihoods, jax.vmap(posterior.prior_log_density)(positions)


@compile_quickly
def _row_gradients(posterior: Posterior, positions: PyTree, rows: PyTree) -> tuple[Array, Array]:
    """Return the log-likelihoods of the rows at each position, and whether their gradients are finite."""
    size = tree.size(jax.tree.map(lambda x: x[0], positions))

    def at(position: PyTree) -> tuple[Array, Array]:
        def one(row: PyTree) -> tuple[Array, Array]:
            value, gradient = jax.value_and_grad(posterior.one_log_likelihood)(position, row)
            return value, jnp.all(jnp.isfinite(tree.ravel(gradient)))

        return jax.lax.map(one, rows, batch_size=max(1, _NUMBERS // size))

    return jax.lax.map(at, positions)
