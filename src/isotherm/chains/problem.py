"""`Problem`: a posterior with its rows and a starting point, checked once."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.data.fingerprint import fingerprint
from isotherm.posterior import Posterior
from isotherm.sums import passes

_CHECKED_ROWS = 4096  # rows whose log-likelihood must be finite at the starts


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """What chains are run on. `isotherm.sampling.prepare` makes one.

    - `posterior`: as the user gave it, over constrained parameters.
    - `density`: the density of the free parameters, which chains hold in 32 bits or more.
    - `data`, `num_data`: the rows on the device, and their number.
    - `init`: free parameters to start from, with a leading axis of chains if `per_chain`.
    """

    posterior: Posterior
    density: Posterior
    data: PyTree[Array]
    num_data: int
    init: PyTree[Array]
    per_chain: bool = False

    @property
    def temperature(self) -> float:
        """The temperature T of the posterior."""
        return float(self.posterior.temperature)

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of all rows, to recognise other data."""
        return fingerprint(self.data)

    def check_starts(self, positions: PyTree[Array]) -> None:
        """Raise if the log-density is not finite at one of the starts, one per chain."""
        for name, x in tree.named_leaves(positions):
            if not np.all(np.isfinite(np.asarray(x))):  # in NumPy, which compiles nothing
                raise ValueError(
                    f"`init{'.' + name if name else ''}` must be finite; it holds NaN or infinity."
                )
        index = np.unique(np.linspace(0, self.num_data - 1, min(self.num_data, _CHECKED_ROWS)).astype(int))
        densities = _log_densities(self.density, positions, self.data, jnp.asarray(index, jnp.int32))
        likelihoods, priors = (np.asarray(x) for x in densities)
        bad_chain, bad_row = np.nonzero(~np.isfinite(likelihoods))
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


@compile_quickly
def _log_densities(
    posterior: Posterior, positions: PyTree, data: PyTree, index: Int[Array, " n"]
) -> tuple[Array, Array]:
    """Return the log-likelihoods of the rows at `index`, and the log-prior, at each position."""
    rows = passes.picked(data, index)
    likelihoods = jax.vmap(posterior.row_log_likelihoods, in_axes=(0, None))(positions, rows)
    return likelihoods, jax.vmap(posterior.prior_log_density)(positions)
