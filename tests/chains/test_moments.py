"""Streaming moments are exact, about the mean, and over the right steps."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.chains.moments import Accumulator, Sum, explained, finish

CHAINS, STEPS = 3, 500
FAR = 30.0  # where sampling starts, in units of the chain's spread


def test_a_million_terms_are_added_without_loss():
    """Terms of one sign, for which a plain float32 sum is off by 10^-5 and more. The compensated sum with its
    remainder is off by n eps^2, which is below the rounding of a single float32 number."""
    x = np.random.default_rng(0).random(1_000_000, np.float32)
    add = lambda total, x: (total.add({"x": x}), None)
    total, _ = jax.jit(lambda x: jax.lax.scan(add, Sum.zero({"x": jnp.zeros(())}), x))(x)
    got = np.float64(total.total["x"]) - np.float64(total.lost["x"])
    exact = x.sum(dtype=np.float64)
    plain, _ = jax.jit(lambda x: jax.lax.scan(lambda a, b: (a + b, None), jnp.zeros(()), x))(x)
    assert abs(float(plain) / exact - 1) > 1e-6, "a plain sum must lose digits"
    assert abs(got / exact - 1) < 2**-24


def test_terms_are_not_lost_after_a_hundred_million():
    """A plain float32 sum of 10^8 does not change when a number below 4 is added.

    The compensated one rounds each term with its remainder, below 8 in all, by at most 2^-22.
    """
    x = np.random.default_rng(2).random(200_000, np.float32)
    add = lambda total, x: (total.add({"x": x}), None)
    late = Sum({"x": jnp.asarray(1e8, jnp.float32)}, {"x": jnp.zeros(())})
    total, _ = jax.jit(lambda x: jax.lax.scan(add, late, x))(x)
    got = np.float64(total.total["x"]) - np.float64(total.lost["x"]) - 1e8
    assert abs(got - x.sum(dtype=np.float64)) < len(x) * 2**-22


def test_moments_against_numpy():
    """Mean, variance and temperature of two leaves and three chains, far from the reference, with steps left out.

    The temperature pairs the gradient with the position where it was taken, which is not the new one."""
    rng = np.random.default_rng(1)
    shapes = {"a": (), "b": (2, 2)}
    position, visited, force = (
        {k: rng.normal(size=(CHAINS, STEPS, *shape)).astype(np.float32) for k, shape in shapes.items()}
        for _ in range(3)
    )
    use = rng.random((CHAINS, STEPS)) < 0.7
    reference = {k: jnp.full((CHAINS, *shape), FAR) for k, shape in shapes.items()}

    @jax.jit
    @jax.vmap
    def run(reference, use, *steps):
        body = lambda sums, x: (sums.add(*x[1:], None, x[0]), None)
        return jax.lax.scan(body, Accumulator.start(reference, None, momentum=False), (use, *steps))[0]

    moments = finish(run(reference, use, position, visited, force))
    np.testing.assert_array_equal(moments.count, use.sum(axis=1))
    for c in range(CHAINS):
        for k in shapes:
            x, v, g = (np.float64(y[k][c][use[c]]) for y in (position, visited, force))
            heat = (v * -g).mean(axis=0) - x.mean(axis=0) * -g.mean(axis=0)
            # Squares of deviations near FAR are rounded to float32 before they are added up.
            rounding = FAR**2 * 2**-23
            np.testing.assert_allclose(moments.mean[k][c], x.mean(axis=0), atol=FAR * 2**-23)
            np.testing.assert_allclose(moments.variance[k][c], x.var(axis=0, ddof=1), atol=2 * rounding)
            np.testing.assert_allclose(moments.temperature[k][c], heat, atol=2 * rounding)


@pytest.mark.slow
def test_refined_means_of_a_normal_posterior():
    """200 draws give the mean to a tenth of a standard deviation, and to rounding with the gradient.

    The coordinates are stretched by 2 and 1/2, so that a slope differs from its inverse.
    """
    covariance = np.array([[1.0, 0.6], [0.6, 2.0]])
    rows = np.random.default_rng(0).multivariate_normal([3.0, -1.0], 100 * covariance, 100).astype(np.float32)
    inverse = jnp.asarray(np.linalg.inv(100 * covariance), jnp.float32)
    posterior = iso.Posterior(lambda m, row: -0.5 * (row - m) @ inverse @ (row - m))
    root = np.linalg.cholesky(covariance) @ np.diag([2.0, 0.5])
    chart = iso.DensePreconditioner(
        jnp.zeros(2), jnp.asarray(root, jnp.float32), jnp.asarray(np.linalg.inv(root), jnp.float32)
    )
    draws = iso.sample(
        posterior,
        rows,
        jnp.zeros(2),
        sampler=iso.CCAdL(0.5, 1.0, scheme="symmetric", thermal_mass=100.0),
        gradient=iso.FullData(),
        batch_size=100,
        preconditioner=chart,
        num_draws=200,
        burn_in=50,
        progress=False,
    )
    exact, (mean, error) = rows.astype(np.float64).mean(axis=0), draws.mean()
    assert np.abs(draws.moments.mean.mean(axis=0) - exact).max() > 0.01
    np.testing.assert_allclose(mean, exact, atol=1e-4)
    assert (error < 1e-4).all()
    plain = dataclasses.replace(draws, moments=dataclasses.replace(draws.moments, refined=None))
    np.testing.assert_allclose(plain.mean()[0], draws.moments.mean.mean(axis=0))


def sums_of(correlations, *, count, mean, variance, square):
    """Return sums of two chains in which y and g have these moments and, leaf by leaf, these correlations."""
    ones = np.ones((2, len(correlations)))
    product = np.asarray(correlations) * (variance * square) ** 0.5
    y, g = mean * ones, 0.1 * ones
    each = np.stack([y, g, product + y * g, variance + y**2, square + g**2], axis=1) * count
    like = jnp.zeros(len(correlations))

    def of_a_chain(count, total):
        sums = Sum(total, jnp.zeros_like(total))
        return Accumulator(count, like, like, sums, sums, None)

    return jax.vmap(of_a_chain)(jnp.full(2, count, jnp.int32), jnp.asarray(each, jnp.float32))


def test_a_mean_is_refined_where_that_halves_the_variance_and_nowhere_else():
    """With correlation r, y - b g keeps 1/r^2 - 1 of the variance of y: less than a half if r^2 > 2/3.

    A gradient that falls where the position rises explains nothing, and neither does one that is unrelated to it.
    """
    correlations = np.array([1.0, 0.67**0.5, 0.66**0.5, 0.5, 0.0, -1.0])
    variance, square = 4.0, 0.25
    sums = sums_of(correlations, count=1000, mean=3.0, variance=variance, square=square)
    slope = np.where(correlations**2 > 2 / 3, (variance / square) ** 0.5 / np.maximum(correlations, 0.1), 0)
    slope[correlations < 0] = 0
    got = explained(sums, np.array([0, 1]))
    np.testing.assert_allclose(got, np.broadcast_to(0.1 * slope, (2, 6)), rtol=1e-4)
    np.testing.assert_array_equal(got[:, 2:], 0)


def test_a_slope_needs_a_hundred_steps_in_all_chains_that_completed():
    short, long = (sums_of([1.0], count=n, mean=0.0, variance=1.0, square=1.0) for n in (50, 99))
    assert explained(short, np.array([0, 1])) is not None
    assert explained(long, np.array([1])) is None
    assert explained(long, np.array([], int)) is None
