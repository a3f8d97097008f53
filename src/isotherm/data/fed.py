"""Rows that were drawn before the steps that use them: the form in which rows of a stream reach chains."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree, UInt32

from isotherm.data.plans import MinibatchPlan, PRNGKey, Step, take_rows, uniform
from isotherm.records import Batch

Words = UInt32[Array, "n 4"]


class Pool(MinibatchPlan):
    """Draws at random from rows that another plan has drawn, so that noise can be measured without a pass.

    `weights` are those of the pool's rows.
    """

    weights: Float[Array, " pool"] | None

    white = True

    def index(
        self, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Int[Array, " n"]:
        raise TypeError("`Pool` draws from a pool of rows; it has no index of all rows.")

    def batch(
        self, data: PyTree, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Batch:
        index = uniform(key, batch_size, jax.tree.leaves(data)[0].shape[0])
        weights = None if self.weights is None else take_rows(self.weights, index)
        return Batch(take_rows(data, index), index, num_data, 1.0, weights=weights)

    def noise_factor(self, num_data: int, batch_size: int) -> float:
        return 1.0


class Fed(MinibatchPlan):
    """Takes the rows of steps `begin`, `begin` + 1, ... from places of a small array that are known beforehand.

    - `places`: for each step, where the rows of its batch are.
    - `weights`: their weights, or `None`.
    - `factor`: the noise factor of the plan that drew the rows.
    """

    places: Int[Array, "*lanes steps n"]
    weights: Float[Array, "*lanes steps n"] | None
    begin: Int[Array, "*lanes"]
    factor: float = eqx.field(static=True)
    half: float | None = eqx.field(static=True, default=None)

    white = True

    def index(
        self, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Int[Array, " n"]:
        return self.places[step - self.begin]

    def batch(
        self, data: PyTree, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Batch:
        i = step - self.begin
        index = self.places[i]
        weights = None if self.weights is None else self.weights[i]
        return Batch(take_rows(data, index), index, num_data, self.factor, self.half, weights)

    def noise_factor(self, num_data: int, batch_size: int) -> float:
        return self.factor


class ByWords(MinibatchPlan):
    """Names rows by random words, which a plan for streams turns into rows."""

    white = True

    def index(
        self, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Int[Array, " n"]:
        raise TypeError("`ByWords` names rows by words; it has no index of rows.")

    def names(self, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey) -> Words:
        return words(key, batch_size)

    def noise_factor(self, num_data: int, batch_size: int) -> float:
        return 1.0


def words(key: PRNGKey, count: int) -> Words:
    """Return four random words for each of `count` draws."""
    return jax.random.bits(key, (count, 4), jnp.uint32)


def fractions(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two uniform numbers in [0, 1) of 53 bits for each row of four words."""
    wide = np.asarray(words).astype(np.uint64)
    pair = lambda a, b: ((a << np.uint64(32) | b) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return pair(wide[:, 0], wide[:, 1]), pair(wide[:, 2], wide[:, 3])
