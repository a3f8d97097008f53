"""The hash of a posterior: equal functions have the same, whatever they are called, and other numbers another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.chains.identity import posterior_hash
from isotherm.sampling.prepare import prepare

ROWS = np.ones((5, 3), np.float32)


def hash_of(log_likelihood):
    posterior = iso.Posterior(log_likelihood, lambda t: -0.5 * jnp.sum(t**2))
    return posterior_hash(prepare(posterior, ROWS, jnp.zeros(3), num_chains=2, init_per_chain=None))


def own_derivative(f, factor=1.0):
    wrapped = jax.custom_jvp(f)
    wrapped.defjvp(lambda x, dx: (f(*x), factor * jax.jvp(f, x, dx)[1]))
    return wrapped


WRAPPED = {
    "plain": lambda f: f,
    "jit": jax.jit,
    "jit in jit": lambda f: jax.jit(lambda t, row: 2 * jax.jit(f)(t, row)),
    "checkpoint": jax.checkpoint,
    "cond": lambda f: lambda t, row: jax.lax.cond(t[0] > 0, f, lambda t, row: 2 * f(t, row), t, row),
    "scan": lambda f: lambda t, row: jax.lax.scan(lambda c, _: (c + f(t, row), None), 0.0, length=2)[0],
    "own derivative": own_derivative,
}


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED.keys())
def test_constants_count_and_names_do_not(wrap):
    """A function inside of `jit` hides its constants from the trace around it."""

    def made(weights, name="f"):
        f = lambda t, row: -jnp.sum(weights * (t - row) ** 2)
        f.__name__ = name
        return hash_of(wrap(f))

    one, other = np.float32([1, 2, 3]), np.float32([1, 2, 4])
    assert made(one) == made(one.copy(), "another_name")
    assert made(one) != made(other)


def test_a_derivative_of_its_own_counts():
    f = lambda t, row: -jnp.sum((t - row) ** 2)
    assert hash_of(own_derivative(f)) == hash_of(own_derivative(f))
    assert hash_of(own_derivative(f)) != hash_of(own_derivative(f, factor=1.1))
