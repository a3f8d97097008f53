"""The permutation without a table, and the cost of a batch as N grows."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isotherm as iso
from isotherm.data.permutation import permute
from support.jaxprs import intermediates
from support.monte_carlo import assert_uniform

PLANS = [iso.WithReplacement(), iso.WithoutReplacement(), iso.Reshuffled(), iso.RandomBlocks(8)]


@pytest.mark.slow
@settings(max_examples=8, deadline=None, derandomize=True)  # every size is compiled anew
@given(size=st.integers(1, 3000), seed=st.integers(0, 2**31 - 1))
def test_bijection(size, seed):
    image = np.asarray(_permutation(size, jax.random.key(seed)))
    np.testing.assert_array_equal(np.sort(image), np.arange(size))


def _permutation(size, key):
    return jax.jit(lambda key: permute(jnp.arange(size), size, key=key))(key)


@pytest.mark.parametrize("size", [1, 2, 3, 65, 2**10, 2**10 + 1, 65_536, 65_537, 999_999])
def test_bijection_at_the_edges(size):
    image = np.asarray(_permutation(size, jax.random.key(3)))
    np.testing.assert_array_equal(np.sort(image), np.arange(size))


@pytest.mark.parametrize("size", [2**31 - 1, 2**30 + 1])
def test_no_overflow_at_the_largest_sizes(size):
    """At sizes near the largest int32, images of both ends of the domain are distinct and in range."""
    index = np.r_[0:5000, size - 5000 : size].astype(np.int32)
    image = np.asarray(jax.jit(lambda key: permute(jnp.asarray(index), size, key=key))(jax.random.key(4)))
    assert len(np.unique(image)) == len(index)
    assert image.min() >= 0
    assert image.max() < size


@pytest.mark.parametrize("size", [65, 100, 131])
def test_every_image_is_equally_likely(size):
    """Images of the first and the last index over 40,000 keys, chi-square; false alarm 6e-7 each."""
    ends = jnp.asarray([0, size - 1])
    keys = jax.random.split(jax.random.key(5), 40_000)
    image = np.asarray(jax.jit(jax.vmap(lambda key: permute(ends, size, key=key)))(keys))
    assert_uniform(image[:, 0], size)
    assert_uniform(image[:, 1], size)


def test_neighbours_scatter():
    """The distance between the images of neighbours: 99 values, 40,000 keys, chi-square; false alarm 6e-7."""
    keys = jax.random.split(jax.random.key(6), 40_000)
    image = np.asarray(jax.jit(jax.vmap(lambda key: permute(jnp.arange(40, 42), 100, key=key)))(keys))
    assert_uniform((image[:, 1] - image[:, 0]) % 100 - 1, 99)


def _step(plan, num_data):
    """Return one kernel step with a minibatch gradient, as a function of arrays, and the shapes of the arrays."""
    posterior = iso.Posterior(lambda w, row: -((row["y"] - row["x"] @ w) ** 2) / 2, lambda w: -w @ w / 2)
    kernel = iso.extend.Kernel(
        iso.CCAdL(1e-3, 1.0, iso.Dense()), iso.Minibatch(posterior), num_data, 50, plan
    )
    extra = plan.rows_per_run - 1 if isinstance(plan, iso.RandomBlocks) else 0
    rows = num_data + extra
    data = {
        "x": jax.ShapeDtypeStruct((rows, 3), jnp.float32),
        "y": jax.ShapeDtypeStruct((rows,), jnp.float32),
    }
    key = jax.eval_shape(lambda: jax.random.key(0))
    state = eqx.filter_eval_shape(kernel.init, jax.ShapeDtypeStruct((3,), jnp.float32), data, key=key)
    return lambda state, data, key: kernel.step(state, data, key=key), (state, data, key)


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS, ids=lambda p: type(p).__name__)
def test_cost_of_a_step_does_not_grow_with_the_data(plan):
    """For N = 10^4 and 10^6, no intermediate is as long as the data and operations grow by less than half.

    Work proportional to N would grow 100-fold.
    """
    flops = []
    for num_data in (10**4, 10**6):
        step, shapes = _step(plan, num_data)
        computed = list(intermediates(jax.make_jaxpr(step)(*shapes).jaxpr))
        assert len(computed) > 100
        assert max(max(shape, default=0) for shape in computed) < 1000
        flops.append(jax.jit(step).lower(*shapes).compile().cost_analysis()["flops"])
    assert flops[1] < 1.5 * flops[0]
