"""Triangular factors, written out and by the library, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from isotherm.small_matrices import WRITTEN_OUT, products, reversed_cholesky


@pytest.mark.parametrize("size", [1, 3, WRITTEN_OUT + 2])
def test_factors_are_those_of_numpy(size):
    """Both forms solve, multiply and take determinants as dense matrices do; the tolerance is that of float32."""
    rng = np.random.default_rng(size)
    root = rng.normal(size=(4, size, size)) + 3 * np.eye(size)
    matrices, x = root @ np.swapaxes(root, 1, 2), rng.normal(size=(4, size))
    upper = np.linalg.cholesky(matrices[:, ::-1, ::-1])[:, ::-1, ::-1]
    expected = np.swapaxes(upper, 1, 2)
    np.testing.assert_allclose(upper @ expected, matrices)
    K = reversed_cholesky(jnp.asarray(matrices, jnp.float32))
    close = lambda found, wanted: np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3)
    x32 = jnp.asarray(x, jnp.float32)
    close(K.solve(x32), np.linalg.solve(expected, x[..., None])[..., 0])
    close(K.solve_transposed(x32), np.linalg.solve(upper, x[..., None])[..., 0])
    close(K.times(x32), (expected @ x[..., None])[..., 0])
    close(K.log_determinants(), np.linalg.slogdet(expected)[1])
    close(products(jnp.asarray(matrices, jnp.float32), x32), (matrices @ x[..., None])[..., 0])


@pytest.mark.parametrize("size", [2, WRITTEN_OUT + 1])
def test_the_gradient_of_the_determinant_is_the_inverse(size):
    """d log det A / dA is A^-1, and log det A is twice that of the factor."""
    rng = np.random.default_rng(0)
    matrix = (np.eye(size) * 4 + 0.3 * np.ones((size, size)) + np.diag(rng.random(size))).astype(np.float32)
    f = lambda a: 2 * reversed_cholesky(((a + a.T) / 2)[None]).log_determinants().sum()
    np.testing.assert_allclose(jax.grad(f)(jnp.asarray(matrix)), np.linalg.inv(matrix), rtol=1e-4, atol=1e-5)
