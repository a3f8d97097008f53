"""Log-likelihoods from a row's own levels are those from all levels, and so are their gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.own_levels import OwnLevels, summed, taken

ROWS, LEVELS = 40, 6


def model(batched):
    rng = np.random.default_rng(0)
    rows = {
        "level": rng.integers(LEVELS, size=ROWS).astype(np.int32),
        "site": rng.integers(3, size=ROWS).astype(np.int32),
        "x": rng.normal(size=(ROWS, 2)).astype(np.float32),
    }
    theta = {"effect": rng.normal(size=(LEVELS, 2)), "site": rng.normal(size=3), "w": rng.normal(size=2)}

    def one(q, row):
        mean = row["x"] @ q["w"] + q["effect"][row["level"]] @ row["x"] + q["site"][row["site"]]
        return -jnp.cosh(mean)

    def all_of_them(q, rows):
        effects = jnp.sum(q["effect"][rows["level"]] * rows["x"], axis=1)
        return -jnp.cosh(rows["x"] @ q["w"] + effects + q["site"][rows["site"]])

    posterior = iso.Posterior(all_of_them if batched else one, None, batched=batched)
    return (
        posterior,
        jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), theta),
        jax.tree.map(jnp.asarray, rows),
    )


@pytest.mark.parametrize("batched", [False, True])
def test_values_and_gradients_are_those_of_the_posterior(batched):
    posterior, theta, rows = model(batched)
    own = OwnLevels((0, 1), (0, 1))  # leaves in the order of their names: effect, site, w; level, site, x
    found = own.row_log_likelihoods(posterior, theta, rows)
    np.testing.assert_allclose(found, posterior.row_log_likelihoods(theta, rows), rtol=1e-5)
    total = lambda f: jax.grad(lambda q: jnp.sum(f(q)))(theta)
    expected = total(lambda q: posterior.row_log_likelihoods(q, rows))
    gradients = total(lambda q: own.row_log_likelihoods(posterior, q, rows))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), gradients, expected)


def test_sums_by_level():
    rng = np.random.default_rng(1)
    level = rng.integers(LEVELS - 1, size=ROWS).astype(np.int32)  # nothing belongs to the last one
    terms = rng.normal(size=(ROWS, 2, 3)).astype(np.float32)
    expected = np.stack([terms[level == i].sum(axis=0) for i in range(LEVELS)])
    np.testing.assert_allclose(
        summed(jnp.asarray(terms), jnp.asarray(level), LEVELS), expected, rtol=1e-5, atol=1e-5
    )
    found = taken(jnp.asarray(expected), jnp.asarray(level))
    np.testing.assert_array_equal(found, expected.reshape(LEVELS, -1)[level])
