"""What theory predicts for a case, and the cause of the error that it predicts."""

import dataclasses

import numpy as np

from isotherm.covariance import Dense, DiagonalLowRank
from isotherm.gradients.minibatch import FullData, Minibatch
from isotherm.samplers import SGHMC, SGLD, SGNHT, CCAdL, ModifiedSGLD, Sampler
from isotherm.studies.validation import theory
from isotherm.studies.validation.cases import Case
from isotherm.studies.validation.theory import Linear, Stationary, number

_NOT_WHITE = "reshuffled epochs: noise is not white"


def predicted(case: Case) -> tuple[Stationary | None, Linear]:
    """Return theory's prediction for a case, and the linear model that it is for.

    If the noise depends on the parameters, it is averaged over the sampler's stationary distribution, which is
    found by fixed-point iteration. On targets that are not Gaussian it is averaged over the exact posterior.
    """
    target, covariance = case.problem, case.problem.covariance
    state, model = None, case.linear()
    if not isinstance(case.estimator, Minibatch | FullData):
        return None, model  # the noise of other estimators is not modelled
    for _ in range(60):
        state = theory.predict(case.sampler, model)
        if state is None or not state.finite or not target.gaussian or target.noise_draws == 1:
            break
        change = np.max(np.abs(state.covariance - covariance)) / np.max(np.abs(covariance))
        if change < 1e-4:
            break
        covariance = state.covariance
        model = case.linear(covariance)
    return state, model


def xi_theory(sampler: Sampler, model: Linear) -> float | None:
    """Return the mean of xi by the paper's propositions: A for CCAdL, A + beta h tr(C M^-1) / (2 N_d) for SGNHT."""
    thermostat = sampler.traits.thermostat
    if thermostat is None:
        return None
    h = number(sampler.step_size)
    return thermostat.mean(h * float(np.sum(np.diag(model.C) / model.m)) / (2 * len(model.m) * model.T))


def thermal_mass(sampler: Sampler, dimension: int) -> float:
    """Return mu, which is infinite for dynamics without a thermostat."""
    thermostat = sampler.traits.thermostat
    if thermostat is None:
        return np.inf
    return float(dimension) if thermostat.mass is None else thermostat.mass


def why(case: Case, model: Linear, state: Stationary) -> str:
    """Return the main cause of the predicted error: the one whose removal leaves the smallest error."""
    if state.clipped:
        return f"friction too weak for the noise: {state.clipped} direction(s) clipped, which stay hot"
    sampler, white = case.sampler, dataclasses.replace(model, epoch=0, carry=0.0)
    before, remaining = _worst(sampler, state, model), {}
    if model.epoch:
        remaining[_NOT_WHITE] = _worst(sampler, theory.predict(sampler, white), white)
    full = _controlled(sampler)
    if full is not None:
        remaining[_uncontrolled(sampler)] = _worst(full, theory.predict(full, model), model)
    cause = min(remaining, key=remaining.__getitem__, default="")
    if cause and remaining[cause] < 0.75 * before:
        return cause
    if model.epoch:  # every control assumes white noise
        return _NOT_WHITE
    traits = sampler.traits
    order = "second" if traits.exact_bias_order == 2 else "first"
    return f"{traits.scheme} scheme at s = {case.s:g}: error of {order} order in the step"


def _uncontrolled(sampler: Sampler) -> str:
    if isinstance(sampler.covariance, DiagonalLowRank):
        return "noise beyond the leading directions, of which the diagonal alone is controlled"
    if sampler.covariance is not None:
        return "diagonal control under correlated noise"
    if sampler.traits.thermostat is not None:
        return "noise not proportional to the mass (Proposition 1 does not apply)"
    return "gradient noise left uncontrolled"


def _controlled(sampler: Sampler) -> Sampler | None:
    """Return the same dynamics with a dense covariance, or `None` if the sampler has one already."""
    match sampler:
        case SGNHT():
            settings = {"scheme": sampler.scheme, "mass": sampler.mass}
            return CCAdL(sampler.step_size, sampler.friction, covariance=Dense(), **settings)
        case SGLD():
            return ModifiedSGLD(sampler.step_size, covariance=Dense())
        case ModifiedSGLD() | SGHMC() | CCAdL() if not isinstance(sampler.covariance, Dense):
            return dataclasses.replace(sampler, covariance=Dense())
    return None


def _worst(sampler: Sampler, state: Stationary | None, model: Linear) -> float:
    """Return the largest relative error of a variance in any direction, or of xi."""
    if state is None or not state.finite:
        return np.inf
    errors = np.abs(np.linalg.eigvals(state.covariance @ model.P / model.T).real - 1)
    right_xi = xi_theory(sampler, model)
    if right_xi is not None and state.xi is not None:
        errors = np.append(errors, abs(state.xi / right_xi - 1))
    return float(np.max(errors))
