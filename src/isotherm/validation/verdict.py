"""A row of the table: run a case, compare with what is right and with theory, judge.

Theory says of every case what its scheme makes at its finite step, and the measurement has to agree with that.
A row *holds* where the answer is right within `TOLERANCE`. Where theory predicts a larger error and the
measurement shows one of that size the row is a *known limit*, with the reason.
"""

import dataclasses
import time
from typing import Any

import numpy as np
from scipy import stats

from isotherm.covariance import Dense
from isotherm.data.minibatch import WithReplacement
from isotherm.samplers import SGHMC, SGLD, SGNHT, CCAdL, ModifiedSGLD, Sampler
from isotherm.samplers.adaptive import AdaptiveLangevin
from isotherm.validation import theory
from isotherm.validation.cases import CASES, GRADIENTS, Case, noise
from isotherm.validation.measure import Quantity, coupling, directions, measure
from isotherm.validation.record import Length, Record, length_for, run
from isotherm.validation.theory import Linear, Stationary, number

TOLERANCE = 0.05  # what counts as right: of a variance or temperature, of xi, of a posterior sd for means
RESOLUTION = 0.2  # a row that could not have seen an error of this size is no evidence
FALSE_ALARMS = 1e-3  # of the whole table, all rows and all numbers, were every sampler exactly as predicted

# How far theory's prediction of a departure can be trusted, as a share of it: rounding where the dynamics are
# linear, half on targets that are not the Gaussian it assumes.
_LINEAR, _CURVED = 0.02, 0.5


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """One line of the table. `allowed` is the difference from theory that chance and its own limits explain."""

    name: str
    target: str
    method: str
    settings: dict[str, Any]
    quantities: list[Quantity]
    allowed: dict[str, np.ndarray]
    verdict: str
    reason: str
    seconds: float

    @property
    def passes(self) -> bool:
        """Whether the row is as theory says."""
        return self.verdict in ("holds", "known limit")

    def __getitem__(self, name: str) -> Quantity | None:
        return next((q for q in self.quantities if q.name == name), None)


def evaluate(case: Case, *, independent: float, chains: int, seed: int) -> Row:
    """Run one case and judge it."""
    began = time.perf_counter()
    target, sampler = case.problem, case.sampler
    expected, model = predicted(case)
    relaxation = np.inf if expected is None else expected.relaxation
    if not np.isfinite(relaxation):  # unknown, or theory says that it blows up
        relaxation = 200.0
    length = length_for(
        relaxation,
        independent=independent * target.patience,
        chains=chains,
        dimension=target.dimension,
    )
    gradient = GRADIENTS[case.gradient](target.posterior)  # pyrefly: ignore[bad-argument-count]
    record = run(target, sampler, minibatch=case.minibatch, gradient=gradient, length=length, seed=seed)
    return judge(case, record, expected, model, length, began)


def predicted(case: Case) -> tuple[Stationary | None, Linear]:
    """Theory's answer for a case and the linear model it is for.

    Where the noise depends on the parameters its mean is over what the sampler itself makes of them: a fixed
    point, found by iteration. On targets that are not Gaussian the noise is that of the right posterior.
    """
    target, covariance = case.problem, case.problem.covariance
    state, model = None, case.linear()
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


def judge(
    case: Case, record: Record, expected: Stationary | None, model: Linear, length: Length, began: float
) -> Row:
    """Compare a record with theory and with the right answer."""
    target, sampler = case.problem, case.sampler
    along = directions(target, noise(target, WithReplacement()))
    finite = expected is not None and expected.finite
    quantities: list[Quantity] = []
    allowed: dict[str, np.ndarray] = {}
    reason = ""
    if not record.finite:
        verdict = "fails" if finite or expected is None else "known limit"
        reason = "chains turned non-finite" + ("" if finite or expected is None else ", as predicted")
    else:
        quantities = measure(record, target, along, expected if finite else None, xi_theory(sampler, model))
        limit = _beyond(quantities, predicted=True) and _beyond(quantities, predicted=False)
        chance = chance_of(quantities, len(record.position))
        slack = _slack(quantities, case, expected, coupling(record, target, along).largest)
        allowed = {q.name: chance * q.error + slack[q.name] for q in quantities}
        verdict, reason = _verdict(quantities, allowed, chance, limit=limit)
        if limit and verdict == "known limit" and expected is not None:
            reason = why(case, model, expected)
    settings = {
        "plan": case.plan,
        "gradient": case.gradient,
        "s": case.s,
        "step_size": number(sampler.step_size),
        "friction": case.friction,
        "batch_size": target.batch_size,
        "num_data": target.num_data,
        "dimension": target.dimension,
        **dataclasses.asdict(length),
    }
    seconds = time.perf_counter() - began
    return Row(case.name, case.target, case.method, settings, quantities, allowed, verdict, reason, seconds)


def _beyond(quantities: list[Quantity], *, predicted: bool) -> bool:
    """Whether anything departs from right by more than the tolerance, by theory or as measured."""
    pairs = [(q.predicted if predicted else q.value, q.right) for q in quantities]
    return any(np.any(np.abs(x - right) > TOLERANCE) for x, right in pairs)


def chance_of(quantities: list[Quantity], chains: int) -> float:
    """Standard errors that chance explains: Student's t over chains, Bonferroni over the numbers and the table."""
    entries = sum(len(q.value) for q in quantities)
    return float(stats.t.ppf(1 - FALSE_ALARMS / len(CASES) / entries / 2, chains - 1))


def _slack(
    quantities: list[Quantity], case: Case, expected: Stationary | None, moved: float
) -> dict[str, np.ndarray]:
    """How far theory itself may be off.

    Under a thermostat xi fluctuates, with variance T / mu. That moves moments by terms of order h T / mu, and
    softens departures by a share of the order of its relative variance T / (mu xi^2). `moved` is what xi's motion
    does where the noise depends on the parameters: overall it is known, in a direction only its size is.
    """
    target, sampler, share, jitter = case.problem, case.sampler, _LINEAR, 0.0
    if isinstance(sampler, AdaptiveLangevin):
        heat = target.temperature / target.dimension  # mu = N_d
        jitter = number(sampler.step_size) * heat
        if expected is not None and expected.xi is not None and expected.finite:
            share += min(heat / expected.xi**2, _CURVED)
    share = share if target.gaussian else max(share, _CURVED)
    slack = {q.name: share * np.abs(q.predicted - q.right) + jitter for q in quantities}
    for name in ("variance", "configurational along noise", "kinetic along noise"):
        if name in slack:
            slack[name] = slack[name] + moved
    if not target.gaussian:
        # Of the mean theory says nothing. On a target that is not symmetric it moves with the width.
        width = next(q for q in quantities if q.name == "variance")
        slack["mean"] = slack["mean"] + TOLERANCE + share * np.max(np.abs(width.predicted - width.right))
    if expected is None:
        # Where theory is silent the right answer stands in for it.
        slack = {name: x + TOLERANCE for name, x in slack.items()}
    return slack


def _verdict(
    quantities: list[Quantity], allowed: dict[str, np.ndarray], chance: float, *, limit: bool
) -> tuple[str, str]:
    for q in quantities:
        off = np.abs(q.value - q.predicted) - allowed[q.name]
        if np.any(off > 0):
            i = int(np.argmax(off))
            text = f"{q.name} {q.value[i]:.3f} ± {q.error[i]:.3f} where theory has {q.predicted[i]:.3f}"
            return "fails", f"{text} (right: {q.right[i]:g})"
    for q in quantities:
        blur = chance * q.error - np.maximum(RESOLUTION, np.abs(q.predicted - q.right))
        if np.any(blur > 0):
            i = int(np.argmax(blur))
            return "unresolved", f"{q.name} is known to {chance * q.error[i]:.2f} only: too short a run"
    if limit:
        return "known limit", ""
    for q in quantities:
        excess = np.abs(q.value - q.right) - TOLERANCE - chance * q.error
        if np.any(excess > 0):
            i = int(np.argmax(excess))
            return "fails", f"{q.name} {q.value[i]:.3f} ± {q.error[i]:.3f}, which theory does not predict"
    return "holds", ""


def xi_theory(sampler: Sampler, model: Linear) -> float | None:
    """The mean of xi by the paper's propositions: A for CCAdL, A + beta h tr(C M^-1) / (2 N_d) for SGNHT."""
    if not isinstance(sampler, AdaptiveLangevin):
        return None
    h, A = number(sampler.step_size), number(sampler.friction)
    shift = h * float(np.sum(np.diag(model.C) / model.m)) / (2 * len(model.m) * model.T)
    return A + shift if isinstance(sampler, SGNHT) else A


def why(case: Case, model: Linear, state: Stationary) -> str:
    """The first cause, among those that theory knows, without which the predicted error falls by half."""
    sampler = case.sampler
    before = _worst(sampler, state, model)
    if model.epoch:
        white = dataclasses.replace(model, epoch=0, carry=0.0)
        if _worst(sampler, theory.predict(sampler, white), white) < before / 2:
            return "reshuffled epochs: noise is not white, and control over-damps"
    if state.clipped:
        return f"friction too weak for the noise: {state.clipped} direction(s) clipped, which stay hot"
    full = _controlled(sampler)
    if full is not None and _worst(full, theory.predict(full, model), model) < before / 2:
        if getattr(sampler, "covariance", None) is not None:
            return "diagonal control under correlated noise"
        if isinstance(sampler, SGNHT):
            return "noise not proportional to the mass (Proposition 1 does not apply)"
        return "gradient noise left uncontrolled"
    return f"Euler at s = {case.s:g}: first-order error of the scheme"


def _controlled(sampler: Sampler) -> Sampler | None:
    """The same dynamics with the whole covariance, where it has not got it."""
    match sampler:
        case SGNHT():
            return CCAdL(sampler.step_size, sampler.friction, covariance=Dense(), mass=sampler.mass)
        case SGLD():
            return ModifiedSGLD(sampler.step_size, covariance=Dense())
        case ModifiedSGLD() | SGHMC() | CCAdL() if not isinstance(sampler.covariance, Dense):
            return dataclasses.replace(sampler, covariance=Dense())
    return None


def _worst(sampler: Sampler, state: Stationary | None, model: Linear) -> float:
    """The largest relative error of a variance in any direction, or of xi."""
    if state is None or not state.finite:
        return np.inf
    errors = np.abs(np.linalg.eigvals(state.covariance @ model.P / model.T).real - 1)
    right_xi = xi_theory(sampler, model)
    if right_xi is not None and state.xi is not None:
        errors = np.append(errors, abs(state.xi / right_xi - 1))
    return float(np.max(errors))
