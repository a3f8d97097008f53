"""NumPy constants of a user's functions, which are used in both modes of JAX."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.sampling.constants import with_constants

SCALE = np.array([1.0, 2.0])  # a global in float64


def by_closure():
    scale = np.array([1.0, 2.0])
    return lambda w: -0.5 * jnp.sum((w / scale) ** 2)


def by_default():
    return lambda w, scale=SCALE: -0.5 * jnp.sum((w / scale) ** 2)


def by_global():
    return lambda w: -0.5 * jnp.sum((w / SCALE) ** 2)


@pytest.mark.parametrize("make", [by_closure, by_default, by_global])
def test_constants_work_in_both_modes(make):
    """JAX caches the first dtype that it gave a NumPy array, and fails in the other mode."""
    prior = make()
    posterior = iso.Posterior(lambda w, row: -0.5 * jnp.sum((row - w) ** 2), prior)
    converted = with_constants(posterior).log_prior
    assert with_constants(posterior).log_prior is converted  # one copy, so that it is compiled once
    narrow, exact = jax.jit(jax.grad(converted)), -np.array([3.0, 4.0]) / np.square(SCALE)
    np.testing.assert_allclose(narrow(jnp.array([3.0, 4.0])), exact)
    with jax.enable_x64(True):
        wide = jax.jit(jax.grad(converted))(jnp.array([3.0, 4.0], jnp.float64))
        assert wide.dtype == jnp.float64
        np.testing.assert_allclose(wide, exact)
    np.testing.assert_allclose(jax.jit(jax.grad(lambda w: converted(w)))(jnp.array([3.0, 4.0])), exact)


def test_functions_without_such_constants_stay_as_they_are():
    posterior = iso.Posterior(lambda w, row: -jnp.sum((row - w) ** 2), lambda w: -jnp.sum(w**2))
    assert with_constants(posterior) is posterior
    function = weakref.ref(posterior.log_prior)
    del posterior
    gc.collect()
    assert function() is None  # nothing keeps it alive


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
def test_a_default_run_with_a_numpy_constant():
    rows = np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32)
    posterior = iso.Posterior(lambda w, row: -0.5 * jnp.sum((row - w) ** 2), by_closure())
    draws = iso.sample(posterior, rows, jnp.zeros(2), num_draws=20, progress=False)
    assert draws.record.arithmetic.why_not_float64 is None
    assert draws.record.arithmetic.force_error < 1e-3
