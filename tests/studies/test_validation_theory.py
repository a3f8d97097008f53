"""The targets and the theory of the validation: exact moments, gradients, noise and linear recursions."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import isotherm as iso
from isotherm import tree
from isotherm.studies.validation import theory
from isotherm.studies.validation.cases import noise
from isotherm.studies.validation.known import TARGETS


@pytest.fixture(scope="module", params=list(TARGETS))
def target(request):
    return TARGETS[request.param]()


def test_draws_have_the_moments(target):
    """Means and variances of exact draws along all axes, at a false-alarm rate of 1e-4 per target."""
    count = 40_000 if target.dimension < 100 else 4_000
    x = target.draw(np.random.default_rng(1), count) - target.mean
    sd = np.sqrt(np.diag(target.covariance))
    limit = stats.norm.ppf(1 - 1e-4 / (4 * target.dimension))
    assert np.all(np.abs(x.mean(axis=0)) < limit * sd / np.sqrt(count))
    error = np.std(x**2, axis=0) / np.sqrt(count)
    assert np.all(np.abs(np.mean(x**2, axis=0) - sd**2) < limit * error)


@pytest.mark.slow
def test_gradient_is_that_of_the_posterior(target):
    """The closed form against automatic differentiation of the log-density on all rows, to float32."""
    x = target.draw(np.random.default_rng(2), 4)
    by_jax = jax.vmap(jax.grad(lambda p: target.posterior.log_density(p, target.data)))(target.unravel(x))
    from_jax = -np.asarray(jax.vmap(tree.ravel)(by_jax), np.float64)
    scale = np.abs(target.gradient(x)).max()
    np.testing.assert_allclose(from_jax, target.gradient(x), rtol=0, atol=2e-5 * scale)


def test_temperature_identity(target):
    """E[(theta - mean) dU/dtheta] = T for every parameter, which ties gradient, mean and temperature together."""
    count = 40_000 if target.dimension < 100 else 4_000
    x = target.draw(np.random.default_rng(3), count)
    product = (x - target.mean) * target.gradient(x)
    error = product.std(axis=0) / np.sqrt(count)
    limit = stats.norm.ppf(1 - 1e-4 / (2 * target.dimension))
    assert np.all(np.abs(product.mean(axis=0) - target.temperature) < limit * error)


@pytest.mark.slow
@pytest.mark.parametrize("plan", [iso.WithReplacement(), iso.WithoutReplacement(), iso.RandomBlocks(250)])
def test_noise_matches_the_plan(plan):
    """tr C by theory against the scatter of the force over many batches at one position.

    Batches have half the rows, so that the factors are 1, 1/2 and 3/4. For RandomBlocks the scatter includes the
    order of the rows. The sum over directions of a squared normal noise has a relative sd of at most sqrt(2),
    which gives the standard error.
    """
    target = dataclasses.replace(TARGETS["regression-ill"](), batch_size=500)
    x, count = target.mean, 4000
    gradient, data = iso.Minibatch(target.posterior), jax.tree.map(jnp.asarray, target.data)
    N, n = target.num_data, target.batch_size

    def force(key):
        keys = jax.random.split(key, 4)
        rows = plan.arrange(data, key=keys[0])
        step = jnp.zeros((), int)
        batch = plan.batch(rows, step, num_data=N, batch_size=n, key=keys[1], chain_key=keys[2])
        return gradient(target.unravel(x), batch, needs=iso.extend.Needs.NOTHING, key=keys[3]).force

    forces = jax.jit(jax.vmap(force))(jax.random.split(jax.random.key(4), count))
    forces = np.asarray(forces, np.float64)
    measured = np.sum((forces - forces.mean(axis=0)) ** 2) / (count - 1)
    alone = np.cov((target.data["x"] * (target.data["y"] - target.data["x"] @ x)[:, None]).T)
    expected = np.trace(noise(target, plan)) * np.trace(alone) / np.trace(target.row_covariance)
    assert abs(measured / expected - 1) < 4 * np.sqrt(2 / count)


MODEL = theory.Linear(
    P=np.array([[2.0, 0.4], [0.4, 0.7]]), m=np.array([1.5, 0.8]), C=np.array([[9.0, 2.0], [2.0, 3.0]]), T=0.8
)


@pytest.mark.parametrize(
    "sampler",
    [
        iso.SGHMC(1e-4, 1.0, iso.Dense()),
        iso.CCAdL(1e-4, 1.0, iso.Dense()),
        iso.ModifiedSGLD(1e-5, iso.Dense()),
    ],
    ids=["SGHMC", "CCAdL", "ModifiedSGLD"],
)
def test_small_steps_are_exact(sampler):
    """Controlled samplers tend to the target as h tends to 0, for any mass, temperature and noise."""
    state = theory.predict(sampler, MODEL)
    ratios = np.linalg.eigvals(state.covariance @ MODEL.P / MODEL.T).real
    np.testing.assert_allclose(ratios, 1.0, atol=1e-3)
    if state.momentum is not None:
        np.testing.assert_allclose(state.momentum, MODEL.T * np.eye(2), atol=1e-3)


def test_uncoupled_axes_agree_with_the_general_solution():
    """The shortcut for many dimensions gives the same numbers as the general recursion."""
    P, C, m = np.diag([1.0, 0.3]), np.diag([8.0, 2.0]), np.array([1.0, 2.0])
    tiny = np.array([[0.0, 1e-14], [1e-14, 0.0]])
    for sampler in (iso.SGNHT(0.1, 0.6), iso.CCAdL(0.1, 0.6), iso.SGHMC(0.1, 0.6)):
        fast = theory.predict(sampler, theory.Linear(P, m, C))
        slow = theory.predict(sampler, theory.Linear(P + tiny, m, C))
        np.testing.assert_allclose(fast.covariance, slow.covariance, atol=1e-7)
        np.testing.assert_allclose(fast.relaxation, slow.relaxation, rtol=1e-6)
        assert fast.xi is None or abs(fast.xi - slow.xi) < 1e-7


def test_reshuffled_epochs_against_simulation():
    """Noises that sum to zero over an epoch: the stationary covariance against a long simulation.

    Langevin dynamics in one dimension; the tolerance is four standard errors over 512 paths.
    """
    h, C, P, K = 0.05, 30.0, 1.0, 5
    model = theory.Linear(np.array([[P]]), np.ones(1), np.array([[C]]), carry=1 / (K - 1), epoch=K)
    expected = theory.sgld(model, h, np.zeros((1, 1))).covariance[0, 0]
    white = theory.sgld(theory.Linear(model.P, model.m, model.C), h, np.zeros((1, 1))).covariance[0, 0]
    rng, paths, epochs = np.random.default_rng(5), 512, 400
    x, squares = np.zeros(paths), []
    for epoch in range(epochs):
        g = rng.standard_normal((K, paths)) * np.sqrt(C * K / (K - 1))
        g -= g.mean(axis=0)
        for k in range(K):
            x = x - h * P * x + h * g[k] + np.sqrt(2 * h) * rng.standard_normal(paths)
            if epoch >= 60:
                squares.append(x**2)
    per_path = np.mean(squares, axis=0)
    error = per_path.std() / np.sqrt(paths)
    assert abs(per_path.mean() - expected) < 4 * error
    assert white - expected > 20 * error
