"""Real minibatches: linear regression with correlated features and known noise, whose posterior is Gaussian.

The noise covariance C is that of the plan, computed from all rows: (N^2/n) Cov(g_i), times 1 - n/N without
replacement. Theory is the linear recursion of `studies.validation.theory` with that C and xi at the mean that the
thermostat enforces. The thermal mass is 50, so that the effect of fluctuations of xi, of order h T / mu < 0.002, is
small: it is the `bias` allowed. Tolerances are Student's t over independent chains, 1e-4 per quantity and 6e-4 per
test.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.studies.validation.theory import Linear, thermostatted
from support.known_noise import GaussianTarget, Result, assert_agrees, summarise

N, n, D = 2000, 50, 5
A, MU, PRIOR_PRECISION = 1.0, 50.0, 4.0


def _rows():
    rng = np.random.default_rng(5)
    mix = np.eye(D) + 0.35 * rng.standard_normal((D, D))
    x = rng.standard_normal((N, D)) @ mix
    y = x @ np.array([1.0, -0.5, 0.0, 0.3, 2.0]) + rng.standard_normal(N)
    return x, y


X, Y = _rows()
PRECISION = X.T @ X + PRIOR_PRECISION * np.eye(D)
MEAN = np.linalg.solve(PRECISION, X.T @ Y)
SCALES, MODES = np.linalg.eigh(PRECISION)
MASS = SCALES[-1]  # the stiffest mode has frequency 1
TARGET = GaussianTarget(PRECISION, mean=MEAN)
DATA = {"x": X.astype(np.float32), "y": Y.astype(np.float32)}


def log_likelihood(w, row):
    return -0.5 * (row["y"] - row["x"] @ w) ** 2


def log_prior(w):
    return -0.5 * PRIOR_PRECISION * jnp.sum(w**2)


POSTERIOR = iso.Posterior(log_likelihood, log_prior)


def noise(factor: float) -> np.ndarray:
    """Return (N^2/n) f Cov(g_i), Bessel-corrected like V and averaged over the posterior; g_i = x_i (y_i - x_i.w)."""
    rng = np.random.default_rng(6)
    draws = MEAN + rng.standard_normal((400, D)) / np.sqrt(SCALES) @ MODES.T
    covariances = [np.cov((X * (Y - X @ w)[:, None]).T) for w in draws]
    return factor * N**2 / n * np.mean(covariances, axis=0)


def step_for(s: float) -> float:
    """Return the h at which the largest eigenvalue of h^2 C M^-1 is s, for batches with replacement."""
    return np.sqrt(s * MASS / np.linalg.eigvalsh(noise(1.0))[-1])


# An epoch is N/n = 40 steps, and the kinetic temperature varies within it. A thinning that divides 40 would always
# record the same points of an epoch, whose mean is not that of all steps.
def sampled(sampler, minibatch, *, seed, num_draws, num_chains=96, thinning=7, burn_in=2000) -> Result:
    draws = iso.sample(
        POSTERIOR,
        DATA,
        MEAN.astype(np.float32),
        sampler=sampler,
        batch_size=n,
        num_draws=num_draws,
        thinning=thinning,
        burn_in=burn_in,
        num_chains=num_chains,
        minibatch=minibatch,
        seed=seed,
        progress=False,
    )
    return summarise(draws, TARGET, MODES)


def ccadl(h: float) -> iso.CCAdL:
    return iso.CCAdL(h, A, iso.Dense(), mass=MASS, thermal_mass=MU)


def check(result: Result, h: float, C: np.ndarray, *, seed) -> None:
    theory = thermostatted(Linear(PRECISION, np.full(D, MASS), C), h, A, C)
    ratios = np.diag(MODES.T @ theory.covariance @ MODES) * SCALES
    common = {"chains": result.chains, "seed": seed}
    bias = h / MU
    assert_agrees(result.mean, MEAN @ MODES, "posterior mean along the modes", **common)
    assert_agrees(result.variance.map(SCALES), ratios, "variance ratio by mode", bias=bias, **common)
    assert_agrees(result.configurational, ratios, "temperature by mode", bias=bias, **common)
    assert_agrees(result.kinetic, 1.0, "kinetic temperature", **common)
    assert_agrees(result.xi_mean, theory.xi, "mean of xi", bias=bias, **common)
    # The variance of xi is that of the SDE, 1/mu; the scheme adds terms of relative order h A.
    assert_agrees(result.xi_variance.map(MU), 1.0, "variance of xi", bias=h * A, **common)


@pytest.mark.slow
@pytest.mark.parametrize("s", [0.2, 0.04])
@pytest.mark.parametrize("plan", [iso.WithReplacement(), iso.WithoutReplacement()], ids=["with", "without"])
def test_independent_batches(plan, s):
    """Means, variances along all eigenvectors, temperatures and xi at s = 0.2 and 0.04. The expected variances are
    those of the Euler scheme at these steps: 0.91 to 0.96 and 0.974 to 0.983 of the posterior's."""
    seed, h = 301, step_for(s)
    result = sampled(ccadl(h), plan, seed=seed, num_draws=1500)
    check(result, h, noise(plan.noise_factor(N, n)), seed=seed)
    assert np.all(result.variance.map(SCALES).se < 0.025)


@pytest.mark.slow
def test_independent_batches_briefly():
    """The same at s = 0.2 in a short run: variances are known to about 7 % and the mean of xi to 0.03. Control with
    a covariance twice or half as large would move xi by -0.7 and 0.35."""
    seed, h = 303, step_for(0.2)
    result = sampled(ccadl(h), iso.WithReplacement(), seed=seed, num_draws=700, thinning=4, burn_in=800)
    check(result, h, noise(1.0), seed=seed)
    assert result.xi_mean.se < 0.008


@pytest.mark.slow
@pytest.mark.parametrize(("s", "low", "high"), [(0.2, 0.5, 0.7), (0.04, 0.65, 0.85)])
def test_reshuffled_epochs_are_too_narrow(s, low, high):
    """Within an epoch the noise sums to zero: it is not white, and covariance control over-damps. `sample`
    warns.

    The variance of the stiffest mode is smaller than with independent batches, by more than 0.2 and twenty standard
    errors (0.60 at s = 0.2), while the kinetic temperature is 1."""
    seed, h = 305, step_for(s)
    with pytest.warns(iso.IsothermWarning, match="independent from step to step"):
        result = sampled(ccadl(h), iso.Reshuffled(), seed=seed, num_draws=800)
    C = noise(1 - n / N)
    theory = thermostatted(Linear(PRECISION, np.full(D, MASS), C), h, A, C)
    white = MODES[:, -1] @ theory.covariance @ MODES[:, -1] * SCALES[-1]
    ratio = result.variance.map(SCALES)
    assert low < ratio.value[-1] < high, f"{ratio} against {white} for the stiffest mode (seed {seed})"
    assert white - ratio.value[-1] > 0.2
    assert ratio.z(white)[-1] < -20
    assert_agrees(result.kinetic, 1.0, "kinetic temperature", chains=result.chains, seed=seed, bias=0.001)
