"""Operations on pytrees: leaves keep their order, and no two leaves get the same random numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from isotherm import tree

LIKE = {"a": jnp.zeros((2, 3)), "b": (jnp.zeros(()), jnp.zeros(4))}


def leaves_of(size, dtypes=("float32",) * 3):
    return [np.zeros(size, dtype) for dtype in dtypes]


def test_unravel_is_the_inverse_of_ravel():
    vector = jnp.arange(11.0)
    shaped = tree.unravel_like(vector, LIKE)
    assert jax.tree.map(jnp.shape, shaped) == jax.tree.map(jnp.shape, LIKE)
    np.testing.assert_array_equal(tree.ravel(shaped), vector)
    np.testing.assert_array_equal(shaped["b"][1], [7.0, 8.0, 9.0, 10.0])


@pytest.mark.parametrize(
    "like",
    [leaves_of(1000), leaves_of(20_000), leaves_of(1000, ("float32", "float16", "float32"))],
    ids=["small", "large", "mixed"],
)
def test_noise_is_standard_normal_and_leaves_do_not_share_it(like):
    """Mean, mean square and correlations of three leaves, within 5 standard errors: a false alarm in 6e-7 of each."""
    noise = tree.normal_like(like, key=jax.random.key(0))
    assert [x.dtype for x in noise] == [x.dtype for x in like]
    x = np.stack([np.asarray(leaf, np.float64) for leaf in noise])
    error = x.shape[1] ** -0.5
    assert np.all(np.abs(x.mean(axis=1)) < 5 * error)
    assert np.all(np.abs((x**2).mean(axis=1) - 1) < 5 * 2**0.5 * error)
    assert np.abs(np.corrcoef(x) - np.eye(3)).max() < 5 * error


def test_scales_are_scalars_or_diagonals():
    x = tree.unravel_like(jnp.arange(1.0, 12.0), LIKE)
    np.testing.assert_allclose(tree.ravel(tree.multiply(2.0, x)), 2 * np.arange(1.0, 12))
    np.testing.assert_allclose(tree.ravel(tree.multiply(x, x)), np.arange(1.0, 12) ** 2)
    np.testing.assert_allclose(
        tree.ravel(tree.divide(x, tree.sqrt(x))), np.sqrt(np.arange(1.0, 12)), rtol=1e-6
    )
    np.testing.assert_allclose(
        tree.ravel(tree.add_scaled(x, (3.0, x), (x, x))), [4 * k + k * k for k in range(1, 12)]
    )
    assert float(tree.dot(x, x)) == sum(k * k for k in range(1, 12))
    assert tree.size(x) == 11


def test_stacks_of_trees():
    """Inner products and sums of k trees are those of the k ravelled vectors, and leaves keep their precision."""
    rng = np.random.default_rng(1)
    rows = {
        "a": jnp.asarray(rng.normal(size=(3, 2, 2)), jnp.float32),
        "b": jnp.asarray(rng.normal(size=3), jnp.float32),
    }
    x = jax.tree.map(lambda leaf: leaf[1] + 1, rows)
    matrix = np.asarray(jax.vmap(tree.ravel)(rows))
    np.testing.assert_allclose(tree.products(rows, x), matrix @ np.asarray(tree.ravel(x)), rtol=1e-5)
    np.testing.assert_allclose(tree.grams(rows, rows), matrix @ matrix.T, rtol=1e-5)
    weights = jnp.asarray([1.0, -2.0, 0.5])
    np.testing.assert_allclose(tree.ravel(tree.combine(weights, rows)), weights @ matrix, rtol=1e-5)
    many = tree.combine(jnp.stack([weights, 2 * weights]), rows)
    np.testing.assert_allclose(
        tree.ravel(jax.tree.map(lambda leaf: leaf[1], many)), 2 * weights @ matrix, rtol=1e-5
    )
    half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), {"a": rows["a"]}) | {"b": rows["b"]}
    assert [leaf.dtype for leaf in jax.tree.leaves(tree.combine(weights, half))] == [
        jnp.bfloat16,
        jnp.float32,
    ]


def test_a_large_dot_is_that_of_numpy():
    """Above 4096 numbers another product is used. It agrees to 10^-5 of the sum of absolute terms."""
    a, b = np.random.default_rng(2).normal(size=(2, 70, 70)).astype(np.float32)
    want = np.sum(a.astype(np.float64) * b)
    assert abs(float(tree.dot({"x": jnp.asarray(a)}, {"x": jnp.asarray(b)})) - want) < 1e-5 * np.sum(
        np.abs(a * b)
    )
    half = jnp.ones((100, 100), jnp.bfloat16)
    assert tree.dot(half, half).dtype == jnp.float32
    assert float(tree.dot(half, half)) == 10_000
