"""Values and gradients of all rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.sums.totals import values_and_gradients


@pytest.mark.slow
def test_remainders_of_many_equal_rows_cancel():
    """The log-odds of one group, in float32: 10^5 terms of size 1/2 must cancel in each row, not as sums."""
    rows = {"g": np.zeros(100_000, np.int32), "y": (np.arange(100_000) % 2).astype(np.float32)}
    rows = jax.tree.map(jnp.asarray, rows)
    posterior = iso.Posterior(lambda p, row: row["y"] * p[row["g"]] - jax.nn.softplus(p[row["g"]]))
    anchor, there = 0.013, 0.1
    gradient = iso.ControlVariate(order=2, anchor=jnp.full(1, anchor)).bound(posterior, rows, jnp.zeros(1))
    _, found = values_and_gradients(gradient.expanded, rows, jnp.full((1, 1), there))
    p = lambda x: 1 / (1 + np.exp(-np.float64(np.float32(x))))
    change = np.float64(np.float32(there)) - np.float64(np.float32(anchor))
    exact = -100_000 * (p(there) - p(anchor) - p(anchor) * (1 - p(anchor)) * change)
    # Running sums of 256 rows stay below 128, where half of the distance between two numbers is 2^-18. All rows are
    # equal, and so may be their rounding errors. Running sums of all rows reach 50,000, where it is 2^-9.
    assert found[0, 0] == pytest.approx(exact, abs=100_000 * 2**-18)


@pytest.mark.parametrize("count", [1, 5, 16, 17])
def test_any_number_of_points(count):
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(1000, 2)), jnp.float32)
    posterior = iso.Posterior(lambda p, row: -0.5 * jnp.sum((row - p) ** 2))
    points = np.random.default_rng(1).normal(size=(count, 2)).astype(np.float32)
    values, gradients = values_and_gradients(posterior, rows, jnp.asarray(points))
    x = np.asarray(rows, np.float64)
    np.testing.assert_allclose(values, [-0.5 * np.sum((x - p) ** 2) for p in points], rtol=1e-5)
    np.testing.assert_allclose(gradients, [np.sum(x - p, axis=0) for p in points], rtol=1e-4, atol=1e-2)
