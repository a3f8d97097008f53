"""Control variates and unequal probabilities on every batch that can be drawn: no bias, and noise as in theory."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm import tree
from isotherm.sums import fold
from isotherm.sums.totals import derivatives, prior_derivatives
from support.tiny import (
    DATA,
    POSITION,
    POSTERIOR,
    PRIOR_GRADIENT,
    ROUNDING,
    N,
    estimates,
    flat,
    row_gradients,
)

ANCHOR = {"w": jnp.asarray([0.1, -0.4]), "b": jnp.asarray(0.5)}
PAIRS = (list(itertools.product(range(N), repeat=2)), 1.0)
TICKETS = np.array([1, 3, 1, 2, 1])
orders = pytest.mark.parametrize("order", [1, 2])

pytestmark = pytest.mark.usefixtures("quick_compilation")


def bound(order):
    return iso.ControlVariate(order=order).bound(POSTERIOR, DATA, ANCHOR)


def rest_of(order):
    """g_i(theta) - g_i(a) and, to order 2, less H_i(a) (theta - a): by hand, in float64, in the order b, w."""
    x, y = (np.asarray(DATA[k], np.float64) for k in "xy")
    X = np.column_stack([np.ones(N), x])
    a, theta = (np.asarray(flat(p), np.float64) for p in (ANCHOR, POSITION))
    gradient = lambda p: 2 * (y - X @ p)[:, None] * X - np.array([0.4 * p[0] ** 3, 0, 0])
    rest = gradient(theta) - gradient(a)
    if order == 2:
        delta = theta - a
        rest = rest + 2 * (X @ delta)[:, None] * X + np.array([1.2 * a[0] ** 2 * delta[0], 0, 0])
    return rest


@pytest.mark.slow
@orders
@pytest.mark.parametrize(
    "needs", [iso.extend.Needs.NOTHING, iso.extend.Needs(contrasts=1), iso.extend.Needs.EXACT]
)
def test_the_force_has_no_bias_and_the_noise_of_the_rest(order, needs):
    force, z, log_density, _ = estimates(bound(order).expanded, PAIRS, needs)
    want = row_gradients().sum(axis=0) + PRIOR_GRADIENT
    size = np.abs(want).max()
    np.testing.assert_allclose(force.mean(axis=0), want, atol=ROUNDING * size)
    assert log_density.mean() == pytest.approx(float(POSTERIOR.log_density(POSITION, DATA)), rel=1e-4)
    C = N**2 / 2 * np.cov(rest_of(order).T, bias=True)
    np.testing.assert_allclose(np.cov(force.T, bias=True), C, atol=ROUNDING * size**2)
    if z is not None:
        second_moment = np.einsum("bki,bkj->ij", z, z) / z.shape[0] / z.shape[1]
        np.testing.assert_allclose(second_moment, C, atol=ROUNDING * size**2)


def test_each_order_leaves_less():
    plain, first, second = (np.abs(x).max() for x in (row_gradients(), rest_of(1), rest_of(2)))
    assert second < 0.1 * first < 0.1 * plain


@pytest.mark.slow
@orders
def test_at_the_anchor_there_is_no_noise(order):
    control = bound(order)
    batch = iso.extend.Batch(jax.tree.map(lambda x: x[:2], DATA), jnp.arange(2), N, 1.0)
    out = control(ANCHOR, batch, needs=iso.extend.Needs(contrasts=1), key=jax.random.key(0))
    exact = jax.grad(lambda t: POSTERIOR.log_density(t, DATA))(ANCHOR)
    np.testing.assert_allclose(flat(out.force), flat(exact), rtol=1e-5)
    np.testing.assert_allclose(flat(jax.tree.map(lambda x: x[0], out.contrasts)), 0, atol=1e-5)


def test_sums_over_pieces_are_sums_over_rows(monkeypatch):
    """Blocks of 64 of 1,000 rows, of which the last overlaps the one before it, against NumPy in float64."""
    monkeypatch.setattr(fold, "_NUMBERS", {"cpu": (1, 1)})
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(1000, 3)), np.array([0.3, -0.2, 0.5])
    posterior = iso.Posterior(lambda w, row: -jnp.exp(row @ w), lambda w: -0.5 * jnp.sum(w**4))
    theta, data = jnp.asarray(w, jnp.float32), jnp.asarray(x, jnp.float32)
    e = np.exp(x @ w)
    value, gradient, hessian = derivatives(posterior, data, theta, second="hessian")
    np.testing.assert_allclose(value, -e.sum(), rtol=1e-5)
    np.testing.assert_allclose(gradient, -x.T @ e, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(hessian, -(x.T * e) @ x, rtol=1e-4, atol=1e-2)
    fisher = derivatives(posterior, data, theta, second="fisher")[2]
    np.testing.assert_allclose(fisher, -(x.T * e**2) @ x, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(prior_derivatives(posterior, theta)[2], -np.diag(6 * w**2), rtol=1e-5)
    assert derivatives(posterior, data, theta)[2] is None


@pytest.mark.parametrize("needs", [iso.extend.Needs(contrasts=1), iso.extend.Needs.EXACT])
def test_weights_make_up_for_unequal_probabilities(needs):
    """Every pair of tickets, equally likely: the mean force, its covariance, and that of the contrasts."""
    plan = iso.data.Weighted(TICKETS)
    assert plan.noise_factor(N, 2) == 1
    holders = np.asarray(plan.holders(jnp.arange(TICKETS.sum())))
    pairs = holders[np.array(list(itertools.product(range(len(holders)), repeat=2)))]

    def one(index):
        rows = jax.tree.map(lambda x: x[index], DATA)
        batch = iso.extend.Batch(rows, index, N, 1.0, weights=plan.weights[index])
        out = iso.Minibatch(POSTERIOR)(POSITION, batch, needs=needs, key=jax.random.key(0))
        return flat(out.force), jax.vmap(flat)(out.contrasts), out.log_density

    force, z, log_density = (np.asarray(x, np.float64) for x in jax.jit(jax.vmap(one))(pairs))
    want = row_gradients().sum(axis=0) + PRIOR_GRADIENT
    np.testing.assert_allclose(force.mean(axis=0), want, atol=ROUNDING * np.abs(want).max())
    assert log_density.mean() == pytest.approx(float(POSTERIOR.log_density(POSITION, DATA)), rel=ROUNDING)
    C = np.cov(force.T, bias=True)
    second_moment = np.einsum("bki,bkj->ij", z, z) / z.shape[0] / z.shape[1]
    np.testing.assert_allclose(second_moment, C, atol=1e-4 * np.abs(C).max())
    # By hand: (1/n) (sum_i g_i g_i' / p_i - (sum g)(sum g)').
    g, p = row_gradients(), TICKETS / TICKETS.sum()
    np.testing.assert_allclose(C, ((g.T / p) @ g - np.outer(g.sum(0), g.sum(0))) / 2, rtol=1e-3, atol=1e-2)


def test_operator_of_a_weighted_batch():
    plan, index = iso.data.Weighted(TICKETS), jnp.asarray([1, 3, 1, 4])
    batch = iso.extend.Batch(
        jax.tree.map(lambda x: x[index], DATA), index, N, 1.0, weights=plan.weights[index]
    )
    needs = iso.extend.Needs(contrasts="exact", operator=True)
    out = iso.Minibatch(POSTERIOR)(POSITION, batch, needs=needs, key=jax.random.key(0))
    z = np.asarray(jax.vmap(flat)(out.contrasts), np.float64)
    x = {"w": jnp.asarray([1.0, -2.0]), "b": jnp.asarray(0.5)}
    wanted = z.T @ (z @ np.asarray(flat(x), np.float64)) / len(z)
    np.testing.assert_allclose(flat(out.operator.mv(x)), wanted, rtol=1e-4)


def test_rows_are_drawn_by_their_tickets():
    plan, key = iso.data.Weighted(TICKETS), jax.random.key(1)
    batch = plan.batch(DATA, jnp.asarray(0), num_data=N, batch_size=20_000, key=key, chain_key=key)
    counts = np.bincount(np.asarray(batch.index), minlength=N)
    expected = 20_000 * TICKETS / TICKETS.sum()
    assert np.sum((counts - expected) ** 2 / expected) < 45  # chi-square with 4 degrees: 4e-9
    np.testing.assert_array_equal(batch.rows["y"], DATA["y"][batch.index])
    np.testing.assert_allclose(batch.weights, (TICKETS.sum() / (N * TICKETS))[np.asarray(batch.index)])


@pytest.mark.slow
def test_sample_binds_the_anchor_to_the_start():
    draws = iso.sample(
        POSTERIOR,
        DATA,
        POSITION,
        sampler=iso.SGLD(1e-6),
        batch_size=2,
        num_draws=3,
        num_chains=2,
        gradient=iso.ControlVariate(order=2),
        progress=False,
    )
    # Near the anchor the gradient is exact: chains move with the noise of the dynamics alone.
    assert draws.record.gradient == "ControlVariate"
    assert draws.complete.all()
    with pytest.raises(ValueError, match=r"`ControlVariate` must be bound"):
        _ = iso.ControlVariate().expanded
    assert tree.size(bound(1).anchor) == 3


def test_an_anchor_is_checked_and_takes_the_dtype_of_the_chains():
    control = iso.ControlVariate(anchor={"w": [0.1, -0.4], "b": 0.5})
    with pytest.raises(ValueError, match=r"`anchor` must be a pytree like the parameters"):
        control.bound(POSTERIOR, DATA, ANCHOR)
    control = iso.ControlVariate(anchor={"w": np.array([0.1, -0.4]), "b": 0.5})
    assert jax.tree.map(jnp.array_equal, control.bound(POSTERIOR, DATA, ANCHOR).anchor, ANCHOR) == {
        "w": True,
        "b": True,
    }
    with pytest.raises(ValueError, match=r"`anchor.w` must be of shape"):
        iso.ControlVariate(anchor={"w": np.zeros(3), "b": 0.5}).bound(POSTERIOR, DATA, ANCHOR)
