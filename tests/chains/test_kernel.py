"""The order of the parts of a step, and the independence of its random numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.keys import as_key
from support.models import call
from support.table import SAMPLERS

D, N, CHAINS, STEPS = 4, 1000, 4000, 3
h, A = 0.1, 2.0
ROWS = np.arange(N, dtype=np.float32) / N

pytestmark = pytest.mark.usefixtures("quick_compilation")


class Recorded(iso.extend.Gradient):
    """A known force plus noise. Its single contrast holds the rows of the batch."""

    noise: float = 0.0
    all_rows = False

    def __call__(self, position, batch, *, needs, key):
        del needs
        force = -(position**3) + self.noise * jax.random.normal(key, position.shape)
        return iso.extend.GradientEstimate(force, batch.rows[None], jnp.zeros(()))


@pytest.mark.parametrize("name", ["SGLD", "SGHMC", "CCAdL-dense"])
def test_the_force_is_taken_after_the_drift(name):
    """The gradient is taken at the position after the drift, which the visit records."""
    sampler, key = SAMPLERS[name], jax.random.key(1)
    kernel = iso.extend.Kernel(sampler, Recorded(), N, D)
    before = kernel.init(jnp.asarray([1.0, -0.5, 0.2, 2.0]), jnp.asarray(ROWS), key=key)
    where = np.asarray(sampler.drift(before, key=jax.random.key(2)).position)
    after, _, visit = kernel.step(before, jnp.asarray(ROWS), key=key)
    np.testing.assert_array_equal(visit.position, where)
    np.testing.assert_allclose(visit.estimate.force, -(where**3), rtol=1e-5)
    if before.momentum is not None:
        assert np.all(where != np.asarray(before.position))
        np.testing.assert_array_equal(after.position, where)


@pytest.mark.parametrize("name", ["SGHMC-symmetric", "CCAdL-symmetric"])
def test_the_force_of_a_symmetric_step(name):
    """It is taken between the two halves of the step. SGHMC still has the second half of its drift to do."""
    sampler, key = SAMPLERS[name], jax.random.key(1)
    kernel = iso.extend.Kernel(sampler, Recorded(), N, D)
    before = kernel.init(jnp.asarray([1.0, -0.5, 0.2, 2.0]), jnp.asarray(ROWS), key=key)
    after, _, visit = kernel.step(before, jnp.asarray(ROWS), key=key)
    np.testing.assert_allclose(visit.estimate.force, -(visit.position**3), rtol=1e-5)
    assert np.all(np.asarray(visit.position) != np.asarray(before.position))
    rest = 0.5 * sampler.step_size * after.momentum if isinstance(sampler, iso.SGHMC) else 0.0
    np.testing.assert_allclose(after.position, visit.position + rest, rtol=1e-6)


def test_rows_gradient_noise_and_added_noise_are_independent():
    """Within a step, between steps, and from the first momentum: 40 variables in 4,000 chains.

    Correlations of independent variables have standard deviation 4000^(-1/2). Six of these in any of 780 pairs is a
    false alarm of 2e-6. One key used in two places makes a correlation near 1.
    """
    kernel = iso.extend.Kernel(iso.SGHMC(h, A), Recorded(1.0), N, D)

    def chain(key):
        def step(before, _):
            after, _, visit = kernel.step(before, jnp.asarray(ROWS), key=key)
            force = visit.estimate.force
            added = after.momentum - (1 - h * A) * before.momentum - h * force
            return after, jnp.stack([visit.estimate.contrasts[0], force + visit.position**3, added])

        start = kernel.init(jnp.zeros(D), jnp.asarray(ROWS), key=key)
        return start.momentum, jax.lax.scan(step, start, length=STEPS)[1]

    first, later = jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(3), CHAINS))
    x = np.concatenate([np.asarray(first), np.asarray(later).reshape(CHAINS, -1)], axis=1)
    correlation = np.corrcoef(x.T) - np.eye(x.shape[1])
    assert x.shape[1] == 40
    assert np.abs(correlation).max() < 6 / np.sqrt(CHAINS)


class ShowRows(iso.extend.Gradient):
    """A force whose entry i is the row stored at index i."""

    all_rows = False

    def __call__(self, position, batch, *, needs, key):
        del needs, key
        force = jnp.zeros_like(position).at[batch.index].set(batch.rows)
        return iso.extend.GradientEstimate(force, None, jnp.zeros(()))


def test_rows_are_rearranged_when_due():
    """SGLD with h = 1 at a temperature near 0 sums the forces, and here the force is the order of the rows."""
    posterior = iso.Posterior(lambda t, d: 0.0 * d)
    draws = call(
        iso.SGLD(1.0, temperature=1e-12),
        model=(posterior, np.arange(40.0, dtype=np.float32), jnp.zeros(40)),
        gradient=ShowRows(),
        minibatch=iso.RandomBlocks(rows_per_run=40, reshuffle_every=3),
        batch_size=40,
        num_draws=9,
        num_chains=1,
    )
    orders = np.rint(np.diff(draws.posterior[0], axis=0, prepend=0)).astype(int)
    assert all(sorted(order) == list(range(40)) for order in orders)
    assert [len({tuple(order) for order in orders[i : i + 3]}) for i in (0, 3, 6)] == [1, 1, 1]
    assert len({tuple(order) for order in orders}) == 3


def test_seeds_beyond_32_bits_differ():
    seeds = [0, 1, 2**32, 2**32 + 1, 2**33 + 1, 2**40, 2**64 - 1]
    keys = [jax.random.key_data(as_key(seed)).tolist() for seed in (*seeds, 1)]
    assert len({tuple(key) for key in keys}) == len(seeds)
    assert keys[1] == keys[-1]
