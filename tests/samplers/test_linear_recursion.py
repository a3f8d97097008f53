"""Stationary moments at a coarse step against the exact solution of the linear recursion of the scheme.

On a Gaussian target with constant gradient noise a sampler without a moving thermostat is linear, so its
moments are known at any h: there is no discretisation error, and the step can be so large that a wrong factor
shows at once. Temperature, masses, precision and noise are all different from 1 and from each other, and not
aligned. A right sampler fails a test under another seed with probability 5e-5 at most.
"""

import jax
import numpy as np
import pytest

import isotherm as iso
from isotherm.studies.validation.theory import Linear, frozen, sghmc, sgld
from support.known_noise import GaussianTarget, Result, assert_agrees, constant, run, summarise

T = 0.7
M = np.array([2.0, 0.5])
P = np.array([[2.2, 0.5], [0.5, 0.6]])
C = np.array([[30.0, 6.0], [6.0, 4.0]])
H, A = 0.15, 2.5
MODEL = Linear(P, M, C, T)
NONE, DIAGONAL = np.zeros((2, 2)), np.diag(np.diag(C))
TURNED = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)

TARGET = GaussianTarget(P, mean=np.array([1.0, -2.0]))
NOISE = constant(C)
ALPHA = 1e-5  # for each of up to five quantities in a test


def check(sampler, covariance, kinetic=None, *, seed, thinning=2) -> Result:
    result = run(TARGET, NOISE, sampler, seed=seed, num_draws=1500, thinning=thinning, burn_in=400)
    turned, variances = summarise(result.draws, TARGET, TURNED), TURNED.T @ covariance @ TURNED
    common = {"chains": result.chains, "seed": seed, "alpha": ALPHA}
    assert_agrees(result.mean, TARGET.mean, "mean", **common)
    assert_agrees(result.variance, np.diag(covariance), "variance", **common)
    assert_agrees(turned.variance, np.diag(variances), "variance along the diagonals", **common)
    assert np.all(result.variance.se < 0.015 * np.diag(covariance)), "too short a run to notice 10 %"
    if kinetic is not None:
        assert_agrees(result.kinetic, kinetic, "kinetic temperature", **common)
        assert result.kinetic.se < 0.005 * kinetic, "too short a run to notice 3 %"
    return result


def check_momentum(sampler, theory, *, seed) -> Result:
    return check(sampler, theory.covariance, theory.kinetic, seed=seed)


@pytest.mark.slow
def test_sghmc_without_an_estimate_is_hot_as_predicted():
    """Uncontrolled gradient noise heats SGHMC from T = 0.7 to the prediction of the recursion, above 1.2."""
    theory = sghmc(MODEL, H, A, NONE)
    assert theory.kinetic > 1.2
    check_momentum(iso.SGHMC(H, A, mass=M, temperature=T), theory, seed=11)


@pytest.mark.slow
def test_sghmc_dense():
    """With the whole covariance the noise adds up to 2 h A T M: the recursion without gradient noise."""
    theory = sghmc(MODEL, H, A, C)
    clean = sghmc(Linear(P, M, NONE, T), H, A, NONE)
    np.testing.assert_allclose(theory.covariance, clean.covariance)
    check_momentum(iso.SGHMC(H, A, iso.Dense(), mass=M, temperature=T), theory, seed=12)


@pytest.mark.slow
def test_sghmc_diagonal():
    """The diagonal does not control the off-diagonal noise, and the recursion predicts the effect."""
    check_momentum(
        iso.SGHMC(H, A, iso.Diagonal(), mass=M, temperature=T), sghmc(MODEL, H, A, DIAGONAL), seed=13
    )


@pytest.mark.slow
def test_sgnht_with_xi_frozen():
    theory = frozen(MODEL, H, A, xi=2.0, C_hat=NONE)
    sampler = iso.SGNHT(H, A, mass=M, temperature=T, thermal_mass=np.inf, initial_xi=2.0)
    check_momentum(sampler, theory, seed=14)


@pytest.mark.slow
def test_ccadl_dense_with_xi_frozen():
    """The covariance friction alone, at s = 0.5. The run is long enough to distinguish it, by fifteen standard errors
    and more, from one with a wrong factor of 2, a wrong power of the temperature, or a misplaced mass."""
    theory = frozen(MODEL, H, A, xi=2.0, C_hat=C)
    sampler = iso.CCAdL(H, A, iso.Dense(), mass=M, temperature=T, thermal_mass=np.inf, initial_xi=2.0)
    result = check_momentum(sampler, theory, seed=15)
    for wrong in (C / 2, 2 * C, C * T, C / T, C * M, C / M):
        other = frozen(MODEL, H, A, xi=2.0, C_hat=wrong)
        z = [result.kinetic.z(other.kinetic), *result.variance.z(np.diag(other.covariance))]
        assert np.max(np.abs(z)) > 15, "too short a run to notice a wrong factor"


@pytest.mark.slow
def test_ccadl_diagonal_with_xi_frozen():
    theory = frozen(MODEL, H, A, xi=2.0, C_hat=DIAGONAL)
    sampler = iso.CCAdL(H, A, iso.Diagonal(), mass=M, temperature=T, thermal_mass=np.inf, initial_xi=2.0)
    check_momentum(sampler, theory, seed=16)


LANGEVIN_H = 0.03


def check_langevin(sampler, covariance, *, seed) -> Result:
    return check(sampler, covariance, seed=seed, thinning=10)


@pytest.mark.slow
def test_sgld_is_hot_as_predicted():
    """A Langevin step h is an underdamped one of sqrt(2 h): noise 30 at h = 0.03 adds two thirds."""
    covariance = sgld(MODEL, LANGEVIN_H, NONE).covariance
    assert covariance[0, 0] > 1.5 * T * TARGET.covariance[0, 0]
    check_langevin(iso.SGLD(LANGEVIN_H, temperature=T), covariance, seed=17)


@pytest.mark.slow
def test_modified_sgld_dense():
    check_langevin(
        iso.ModifiedSGLD(LANGEVIN_H, iso.Dense(), temperature=T),
        sgld(MODEL, LANGEVIN_H, C).covariance,
        seed=18,
    )


@pytest.mark.slow
@pytest.mark.parametrize("form", ["exact", "first-order"])
def test_modified_sgld_diagonal(form):
    """The published form multiplies the noise by I - (h beta / 4) C_hat, too large by the square of that."""
    theory = sgld(MODEL, LANGEVIN_H, DIAGONAL, first_order=form == "first-order")
    sampler = iso.ModifiedSGLD(LANGEVIN_H, iso.Diagonal(), form=form, temperature=T)
    check_langevin(sampler, theory.covariance, seed=19)


@pytest.mark.slow
def test_chains_are_independent():
    """The standard errors assume that the means of chains are uncorrelated and no two chains are equal."""
    result = run(TARGET, NOISE, iso.SGLD(LANGEVIN_H, temperature=T), seed=17, num_draws=1500, thinning=10)
    means = jax.tree.leaves(result.draws.moments.mean)[0]
    assert len(np.unique(means[:, 0])) == result.chains
    lag = np.corrcoef(means[:-1, 0], means[1:, 0])[0, 1]
    assert abs(lag) < 4.5 / np.sqrt(result.chains), f"neighbouring chains correlate by {lag} (seed 17)"
