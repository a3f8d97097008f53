"""A row of the table: run a case, compare with what is right and with theory, judge.

Theory says of every case what its scheme makes at its finite step, and the measurement has to agree with that.
A row *holds* where theory's answer is right within `TOLERANCE`. Where theory predicts a larger error the
measurement has to show it: the row is a *known limit*, with the reason.
"""

import dataclasses
import math
import time
from typing import Any

import numpy as np
from scipy import stats

from isotherm.data.plans import WithReplacement
from isotherm.studies.validation.cases import CASES, Case, noise
from isotherm.studies.validation.measure import Quantity, directions, measure
from isotherm.studies.validation.prediction import predicted, thermal_mass, why, xi_theory
from isotherm.studies.validation.record import Record, length_for, run
from isotherm.studies.validation.theory import Linear, Stationary, number

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
    quantities: list[Quantity] = dataclasses.field(default_factory=list)
    allowed: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    verdict: str = "fails"
    reason: str = ""
    seconds: float = 0.0

    @property
    def passes(self) -> bool:
        """Whether the row is as theory says."""
        return self.verdict in ("holds", "known limit")

    def __getitem__(self, name: str) -> Quantity | None:
        return next((q for q in self.quantities if q.name == name), None)


def evaluate(case: Case, *, relaxations: float, chains: int, seed: int) -> Row:
    """Run one case, for so many relaxation times of its slowest direction over all chains, and judge it."""
    began = time.perf_counter()
    target, sampler = case.problem, case.sampler
    expected, model = predicted(case)
    one = 200.0 if expected is None or not np.isfinite(expected.relaxation) else expected.relaxation
    length = length_for(
        one, relaxations=relaxations * target.patience, chains=chains, dimension=target.dimension
    )
    while math.gcd(length.thinning, max(model.epoch, 1)) > 1:  # see every place of an epoch alike
        length = dataclasses.replace(length, thinning=length.thinning + 1)
    record = run(
        target,
        sampler,
        minibatch=case.minibatch,
        gradient=case.estimator,
        length=length,
        seed=seed,
    )
    row = judge(case, record, expected, model)
    settings = row.settings | dataclasses.asdict(length)
    return dataclasses.replace(row, settings=settings, seconds=time.perf_counter() - began)


def judge(case: Case, record: Record, expected: Stationary | None, model: Linear) -> Row:
    """Compare a record with theory and with the right answer."""
    target, sampler = case.problem, case.sampler
    along = directions(target, noise(target, WithReplacement()))
    mu = thermal_mass(sampler, target.dimension)
    row = Row(
        name=case.name,
        target=case.target,
        method=case.method,
        settings={
            "plan": case.plan,
            "gradient": case.gradient,
            "s": case.s,
            "step_size": number(sampler.step_size),
            "friction": case.friction,
            "batch_size": target.batch_size,
            "num_data": target.num_data,
            "dimension": target.dimension,
        },
    )
    exists = expected is None or expected.finite
    if not record.finite:
        reason = "chains turned non-finite" + ("" if exists else ", as predicted")
        return dataclasses.replace(row, verdict="fails" if exists else "known limit", reason=reason)
    right_xi = xi_theory(sampler, model)
    quantities, moved = measure(record, target, along, expected if exists else None, right_xi, mu)
    chance = chance_of(quantities, len(record.position))
    slack = _slack(quantities, case, expected, moved, mu)
    allowed = {q.name: chance * q.error + slack[q.name] for q in quantities}
    row = dataclasses.replace(row, quantities=quantities, allowed=allowed)
    if not exists:
        return dataclasses.replace(row, verdict="fails", reason="theory has no stationary state at this step")
    verdict, reason = _verdict(quantities, allowed, chance)
    if verdict == "known limit" and expected is not None:
        reason = why(case, model, expected)
    return dataclasses.replace(row, verdict=verdict, reason=reason)


def chance_of(quantities: list[Quantity], chains: int) -> float:
    """Standard errors that chance explains: Student's t over chains, Bonferroni over the numbers and the table."""
    entries = sum(len(q.value) for q in quantities)
    return float(stats.t.ppf(1 - FALSE_ALARMS / len(CASES) / entries / 2, chains - 1))


def _slack(
    quantities: list[Quantity], case: Case, expected: Stationary | None, moved: float, mu: float
) -> dict[str, np.ndarray]:
    """How far theory itself may be off.

    Under a thermostat xi fluctuates, with variance T / mu. That moves moments by terms of order h T / mu, and
    softens departures by a share of the order of its relative variance T / (mu xi^2). `moved` is what xi's motion
    does where the noise depends on the parameters: known for the overall configurational temperature, and in a
    direction only as the difference of two temperatures, so that its size is granted to all that has a direction.
    """
    target, share = case.problem, _LINEAR
    heat = target.temperature / mu
    if expected is not None and expected.xi is not None:
        share += min(heat / expected.xi**2, _CURVED)
    share = share if target.gaussian else max(share, _CURVED)
    jitter = number(case.sampler.step_size) * heat
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


def _verdict(quantities: list[Quantity], allowed: dict[str, np.ndarray], chance: float) -> tuple[str, str]:
    for q in quantities:
        inside = np.abs(q.value - q.predicted) <= allowed[q.name]  # NaN is not inside
        if not np.all(inside):
            i = int(np.argmin(inside))
            text = f"{q.name} {q.value[i]:.3f} ± {q.error[i]:.3f} where theory has {q.predicted[i]:.3f}"
            return "fails", f"{text} (right: {q.right[i]:g})"
    departures = {q.name: q.predicted - q.right for q in quantities}
    for q in quantities:
        blur = chance * q.error - np.maximum(RESOLUTION, np.abs(departures[q.name]) / 2)
        if np.any(blur > 0):
            i = int(np.argmax(blur))
            return "unresolved", f"{q.name} is known to {chance * q.error[i]:.2f} only: too short a run"
    if any(np.any(np.abs(x) > TOLERANCE) for x in departures.values()):
        return _limit(quantities, chance)
    for q in quantities:
        excess = np.abs(q.value - q.right) - TOLERANCE - chance * q.error
        if np.any(excess > 0):
            i = int(np.argmax(excess))
            return "fails", f"{q.name} {q.value[i]:.3f} ± {q.error[i]:.3f}, which theory does not predict"
    return "holds", ""


def _limit(quantities: list[Quantity], chance: float) -> tuple[str, str]:
    """A known limit has to show: some error that theory predicts is there beyond chance, with its sign."""
    for q in quantities:
        departure, found = q.predicted - q.right, q.value - q.right
        shows = (np.abs(departure) > TOLERANCE) & (found * np.sign(departure) > chance * q.error)
        if np.any(shows):
            return "known limit", ""
    return "unresolved", "theory predicts an error that this run is too short to show"
