"""The verdict on a row of the table: run a case, and compare it with theory and with the exact answer.

Theory predicts what each scheme gives at its finite step, and the measurement must agree with the prediction.
A row *holds* if the prediction is within `TOLERANCE` of the exact value. If theory predicts a larger error, the
measurement must show it: the row is then a *known limit*, and has a reason.
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

TOLERANCE = (
    0.05  # what counts as correct: relative for variances, temperatures and xi; in posterior sd for means
)
RESOLUTION = 0.2  # a row that could not detect an error of this size is unresolved
FALSE_ALARMS = 1e-3  # rate for the whole table, if every sampler behaves exactly as predicted

# How far a predicted departure may be off, as a share of it: little if the dynamics are linear, half on targets
# that are not the Gaussian that theory assumes.
_LINEAR, _CURVED = 0.02, 0.5


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """One row of the table. `allowed` is the difference from theory that chance and theory's limits explain."""

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
        """Whether the row agrees with theory."""
        return self.verdict in ("holds", "known limit")

    def __getitem__(self, name: str) -> Quantity | None:
        return next((q for q in self.quantities if q.name == name), None)


def evaluate(case: Case, *, relaxations: float, chains: int, seed: int) -> Row:
    """Run a case for `relaxations` relaxation times of its slowest direction, over all chains, and return its row."""
    began = time.perf_counter()
    target, sampler = case.problem, case.sampler
    expected, model = predicted(case)
    one = _guess(case) if expected is None or not np.isfinite(expected.relaxation) else expected.relaxation
    length = length_for(
        one, relaxations=relaxations * target.patience, chains=chains, dimension=target.dimension
    )
    while math.gcd(length.thinning, max(model.epoch, 1)) > 1:  # so that draws cover all positions in an epoch
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


def _guess(case: Case) -> float:
    """A relaxation time in steps where theory is silent. Without momentum, that of the flattest direction, twice."""
    if case.sampler.traits.s_power == 2:
        return 200.0
    return max(200.0, 2 / (number(case.sampler.step_size) * np.linalg.eigvalsh(case.problem.precision)[0]))


def judge(case: Case, record: Record, expected: Stationary | None, model: Linear) -> Row:
    """Return the row of a record, compared with theory and with the exact answer."""
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
        reason = "chains became non-finite" + ("" if exists else ", as predicted")
        return dataclasses.replace(row, verdict="fails" if exists else "known limit", reason=reason)
    right_xi = xi_theory(sampler, model)
    quantities, moved = measure(record, target, along, expected if exists else None, right_xi, mu)
    chance = chance_of(quantities, len(record.position))
    slack = _slack(quantities, case, expected, moved, mu)
    allowed = {q.name: chance * q.error + slack[q.name] for q in quantities}
    row = dataclasses.replace(row, quantities=quantities, allowed=allowed)
    if not exists:
        return dataclasses.replace(
            row, verdict="fails", reason="theory predicts no stationary state at this step size"
        )
    verdict, reason = _verdict(quantities, allowed, chance)
    if verdict == "known limit" and expected is not None:
        reason = why(case, model, expected)
    return dataclasses.replace(row, verdict=verdict, reason=reason)


def chance_of(quantities: list[Quantity], chains: int) -> float:
    """Return how many standard errors chance explains: Student's t over chains, Bonferroni over numbers and rows."""
    entries = sum(len(q.value) for q in quantities)
    return float(stats.t.ppf(1 - FALSE_ALARMS / len(CASES) / entries / 2, chains - 1))


def _slack(
    quantities: list[Quantity], case: Case, expected: Stationary | None, moved: float, mu: float
) -> dict[str, np.ndarray]:
    """Return how far theory may be off, for each quantity.

    Under a thermostat xi fluctuates, with variance T / mu. That moves moments by terms of order h T / mu, and
    shrinks departures by a share of the order of its relative variance T / (mu xi^2). `moved` is the effect of
    these fluctuations if the noise depends on the parameters. It is known for the overall configurational
    temperature; in one direction only a difference of two temperatures is known, so every quantity that has a
    direction is allowed to be off by `moved`.
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
        # Theory does not predict the mean. On a target that is not symmetric it moves with the width.
        width = next(q for q in quantities if q.name == "variance")
        slack["mean"] = slack["mean"] + TOLERANCE + share * np.max(np.abs(width.predicted - width.right))
    if expected is None:
        # Without a prediction, the exact answer takes its place.
        slack = {name: x + TOLERANCE for name, x in slack.items()}
    return slack


def _verdict(quantities: list[Quantity], allowed: dict[str, np.ndarray], chance: float) -> tuple[str, str]:
    for q in quantities:
        inside = np.abs(q.value - q.predicted) <= allowed[q.name]  # False for NaN
        if not np.all(inside):
            i = int(np.argmin(inside))
            text = f"{q.name} {q.value[i]:.3f} ± {q.error[i]:.3f}, but theory predicts {q.predicted[i]:.3f}"
            return "fails", f"{text} (exact: {q.right[i]:g})"
    departures = {q.name: q.predicted - q.right for q in quantities}
    for q in quantities:
        blur = chance * q.error - np.maximum(RESOLUTION, np.abs(departures[q.name]) / 2)
        if np.any(blur > 0):
            i = int(np.argmax(blur))
            return (
                "unresolved",
                f"the run is too short: {q.name} is known only to ± {chance * q.error[i]:.2f}",
            )
    if any(np.any(np.abs(x) > TOLERANCE) for x in departures.values()):
        return _limit(quantities, chance)
    for q in quantities:
        excess = np.abs(q.value - q.right) - TOLERANCE - chance * q.error
        if np.any(excess > 0):
            i = int(np.argmax(excess))
            return (
                "fails",
                f"{q.name} {q.value[i]:.3f} ± {q.error[i]:.3f}, an error that theory does not predict",
            )
    return "holds", ""


def _limit(quantities: list[Quantity], chance: float) -> tuple[str, str]:
    """Return "known limit" if some error that theory predicts shows beyond chance and with its sign."""
    for q in quantities:
        departure, measured = q.predicted - q.right, q.value - q.right
        shows = (np.abs(departure) > TOLERANCE) & (measured * np.sign(departure) > chance * q.error)
        if np.any(shows):
            return "known limit", ""
    return "unresolved", "the run is too short to show the error that theory predicts"
