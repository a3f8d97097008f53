"""Chains of half the step measure the bias of a run, by the order that its sampler claims."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.judging.halving import halve
from support.monte_carlo import LIMIT

PRECISION = 4.0
ROWS = np.random.default_rng(0).normal(size=40).astype(np.float32)


def langevin(step_size, *, gradient=None, batch_size=40, num_draws=4000):
    """Sample a normal distribution, with 40 rows of precision 1/10 each, by SGLD."""
    posterior = iso.Posterior(lambda m, row: -0.5 * (row - m) ** 2 / 10)
    return iso.sample(
        posterior,
        ROWS,
        jnp.zeros(()),
        sampler=iso.SGLD(step_size),
        gradient=gradient,
        batch_size=batch_size,
        num_draws=num_draws,
        burn_in=50,
        thinning=1,
        progress=False,
    )


def halved(draws, effort=2.0):
    step = draws.record.sampler.step_size / 2
    return halve(draws, draws.setup, step, effort=effort, key=jax.random.key(7), progress=False)


def with_orders(draws, noisy, exact):
    """Return the draws of a sampler that claims other orders of its bias."""
    sampler = draws.record.sampler
    traits = dataclasses.replace(sampler.traits, bias_order=noisy, exact_bias_order=exact)
    record = dataclasses.replace(draws.record, sampler=dataclasses.replace(sampler, traits=traits))
    return dataclasses.replace(draws, record=record)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
def test_the_bias_of_euler_steps_is_twice_the_difference():
    """theta <- theta - h c theta + sqrt(2 h) R has variance 1/(c (1 - h c/2)), and its bias is of first order.

    At h c = 1 the variances are 2 and, with half the step, 4/3 of the exact one: they differ by 1/3 of the first, and
    twice that is reported. A bias of second order would be 4/9, five errors away.
    """
    found = halved(langevin(1 / PRECISION, gradient=iso.FullData()))
    (bias,), (error,) = found.variances.value, found.variances.error
    assert abs(bias - 2 / 3) < LIMIT * error
    assert error < (2 / 3 - 4 / 9) / LIMIT
    assert abs(found.means.value[0]) < LIMIT * found.means.error[0]
    assert found.blocks.value[0] == pytest.approx(bias)
    assert found.step_size == 0.5 / PRECISION


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
def test_the_order_is_that_of_the_gradient_in_use():
    """A difference d of a bias of order p is d 2^p / (2^p - 1): that of exact gradients if all rows are used."""
    exact = langevin(0.1, gradient=iso.FullData(), num_draws=100)
    noisy = langevin(0.01, batch_size=20, num_draws=100)
    factor = lambda p: 2.0**p / (2.0**p - 1)
    for draws, place in ((noisy, 0), (exact, 1)):
        first = halved(draws).variances.value
        for orders in ((2, 1), (1, 2), (3, 2)):
            value = halved(with_orders(draws, *orders)).variances.value
            np.testing.assert_allclose(value, first / factor(1) * factor(orders[place]), rtol=1e-5)
