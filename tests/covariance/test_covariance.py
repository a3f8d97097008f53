"""The running estimate of the noise covariance."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from support.monte_carlo import LIMIT, assert_mean

LIKE = {"a": jnp.zeros(2), "b": jnp.zeros((2, 2))}
D = 6
RNG = np.random.default_rng(0)
STEPS = 12
CONTRASTS = {"a": RNG.normal(size=(STEPS, 3, 2)), "b": RNG.normal(size=(STEPS, 3, 2, 2))}
Z = np.concatenate([CONTRASTS["a"], CONTRASTS["b"].reshape(STEPS, 3, 4)], axis=2)
EACH = np.einsum("tki,tkj->tij", Z, Z) / 3
SCHEDULES = {
    "1/t": (0.0, lambda t: 1 / t),
    "floor": (0.2, lambda t: max(1 / t, 0.2)),
    "latest only": (1.0, lambda t: 1.0),
    "custom": (lambda t: 1 / jnp.sqrt(t), lambda t: t**-0.5),
    "custom, wrong at the start": (lambda t: 0.3, lambda t: 1.0 if t == 1 else 0.3),
}


def averages(covariance):
    """Yield the average after each step, from one start value."""
    average = covariance.init(LIKE)
    for t in range(STEPS):
        contrasts = jax.tree.map(lambda x, t=t: jnp.asarray(x[t], jnp.float32), CONTRASTS)
        average = covariance.update(average, iso.extend.GradientEstimate(LIKE, contrasts, jnp.zeros(())))
        yield average


@pytest.mark.parametrize(("averaging", "kappa"), SCHEDULES.values(), ids=SCHEDULES.keys())
def test_running_average(averaging, kappa):
    """Against the recursion in numpy; Diagonal is the diagonal of Dense; kappa_1 = 1 forgets the start."""
    dense, diagonal = averages(iso.Dense(averaging=averaging)), averages(iso.Diagonal(averaging=averaging))
    want = np.full((D, D), 1e6)
    for t, (full, diag) in enumerate(zip(dense, diagonal, strict=True), start=1):
        k = 1.0 if t == 1 else kappa(t)
        want = (1 - k) * want + k * EACH[t - 1]
        assert int(full.count) == int(diag.count) == t
        np.testing.assert_allclose(full.operator.matrix, want, rtol=1e-4, atol=1e-5)
        flat = np.concatenate([np.ravel(x) for x in jax.tree.leaves(diag.operator.values)])
        np.testing.assert_allclose(flat, np.diag(want), rtol=1e-4)


def test_default_is_the_plain_mean_over_steps():
    *_, last = averages(iso.Dense())
    np.testing.assert_allclose(last.operator.matrix, EACH.mean(axis=0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bad", [-0.1, 1.5])
@pytest.mark.parametrize("kind", [iso.Dense, iso.Diagonal])
def test_a_floor_outside_the_unit_interval_is_refused(kind, bad):
    with pytest.raises(ValueError, match=f"`averaging` of `{kind.__name__}` must be a floor between 0 and 1"):
        kind(averaging=bad)


N, BATCH, REPLICAS = 40, 5, 2000
LADDER = np.array([1, 4, 16, 64, 256])


@eqx.filter_jit
def _averages_at_a_point(plan, covariance, x, keys):
    """Running averages at one position on the ladder of t: (replicas, ladder, 2, 2)."""
    posterior = iso.Posterior(lambda theta, row: -jnp.sum((row - theta) ** 2 * jnp.asarray([1.0, 0.5])))
    gradient, theta = iso.Minibatch(posterior), jnp.asarray([0.3, -0.2])

    def replica(key):
        batch_key, gradient_key = jax.random.split(key)

        def step(average, t):
            key = jax.random.fold_in(batch_key, t)
            batch = plan.batch(x, t, num_data=N, batch_size=BATCH, key=key, chain_key=batch_key)
            noise_key = jax.random.fold_in(gradient_key, t)
            estimate = gradient(theta, batch, needs=covariance.needs, key=noise_key)
            average = covariance.update(average, estimate)
            return average, average.operator.matrix

        return jax.lax.scan(step, covariance.init(theta), jnp.arange(LADDER[-1]))[1][LADDER - 1]

    return jax.vmap(replica)(keys)


@pytest.mark.slow
@pytest.mark.parametrize("plan", [iso.WithReplacement(), iso.WithoutReplacement()], ids=["with", "without"])
@pytest.mark.parametrize("estimate", ["exact", "contrasts"])
def test_estimate_converges_to_the_covariance_of_the_force(plan, estimate):
    """At a fixed position the average over t batches is unbiased and its error falls as t^(-1/2).

    Every t has 400 separate replicas. Bias: each entry at t = 256 and at t = 1 to 5 standard errors, 6e-7.
    Slope of log rms error on log t: standard error from those of the mean squares; band of 5, 6e-7.
    """
    x = np.random.default_rng(3).gamma(2.0, size=(N, 2)) @ np.array([[1.0, 0.6], [0.0, 1.0]])
    keys = jax.random.split(jax.random.key(1), REPLICAS)
    g = 2 * x * [1.0, 0.5]
    exact = N**2 / BATCH * np.cov(g.T, bias=plan.noise_factor(N, BATCH) == 1.0) * plan.noise_factor(N, BATCH)
    got = np.float64(_averages_at_a_point(plan, iso.Dense(estimate), jnp.asarray(x, jnp.float32), keys))
    for i, j in ((0, 0), (0, 1), (1, 1)):
        assert_mean(got[:, -1, i, j], exact[i, j])
        assert_mean(got[:, 0, i, j], exact[i, j])
    groups = got.reshape(len(LADDER), -1, len(LADDER), 2, 2)
    square = np.stack([np.sum((groups[k, :, k] - exact) ** 2, axis=(1, 2)) for k in range(len(LADDER))])
    mean, error = square.mean(axis=1), square.std(axis=1, ddof=1) / np.sqrt(square.shape[1])
    weight = np.log(LADDER) - np.log(LADDER).mean()
    weight /= np.sum(weight**2)
    slope = weight @ np.log(mean) / 2
    slope_error = np.sqrt(np.sum((weight * error / mean / 2) ** 2))
    assert slope_error < 0.02
    assert abs(slope + 0.5) < LIMIT * slope_error
