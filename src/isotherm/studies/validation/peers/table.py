"""Other libraries beside isotherm: the same targets, step sizes, friction and measurements.

All discretise the same SDE in the same steps of h, so a difference comes from the scheme. The targets have unit
mass and temperature 1, because the peers support nothing else here.
"""

import dataclasses
import functools
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from isotherm.covariance import Dense
from isotherm.data.plans import AllRows, WithReplacement
from isotherm.gradients.minibatch import FullData, Minibatch
from isotherm.samplers import SGHMC, SGNHT, CCAdL, Sampler
from isotherm.studies.validation import theory
from isotherm.studies.validation.cases import noise
from isotherm.studies.validation.known import TARGETS
from isotherm.studies.validation.measure import Quantity, directions, measure
from isotherm.studies.validation.peers import calls as peers
from isotherm.studies.validation.peers import torch_calls as peers_torch
from isotherm.studies.validation.record import Length, Record, length_for, run
from isotherm.studies.validation.targets import Target
from isotherm.studies.validation.theory import Linear
from isotherm.studies.validation.verdict import TOLERANCE, chance_of

CHAINS = 256
RELAXATIONS = {True: 3_000.0, False: 30_000.0}
FRICTION = 0.7

PEERS: dict[str, Callable[..., Record]] = {
    "BlackJAX SGHMC": peers.blackjax_sghmc,
    "BlackJAX SGHMC, beta": functools.partial(peers.blackjax_sghmc, noise_estimate=True),
    "BlackJAX SGNHT": peers.blackjax_sgnht,
    "posteriors SGHMC": peers_torch.posteriors_sghmc,
    "posteriors SGHMC, beta": functools.partial(peers_torch.posteriors_sghmc, noise_estimate=True),
    "posteriors SGNHT": peers_torch.posteriors_sgnht,
}
OWN: dict[str, Callable[[float, float], Sampler]] = {
    "isotherm SGHMC": lambda h, A: SGHMC(h, A),
    "isotherm SGHMC, dense": lambda h, A: SGHMC(h, A, covariance=Dense()),
    "isotherm SGNHT": lambda h, A: SGNHT(h, A),
    "isotherm CCAdL, dense": lambda h, A: CCAdL(h, A, covariance=Dense()),
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """A target, a step size, and whether gradients are exact or from minibatches."""

    name: str
    target: str
    step_size: float
    exact: bool


SETTINGS = (
    Setting("exact gradients, h = 0.1", "gaussian", 0.1, True),
    Setting("exact gradients, h = 0.05", "gaussian", 0.05, True),
    Setting("minibatches, h = 0.048", "gaussian", 0.048, False),
    Setting("minibatches, heavy tails, h = 0.064", "heavy-tailed", 0.064, False),
)


@dataclasses.dataclass(frozen=True, eq=False)
class PeerRow:
    """One sampler of one library in one setting. `absent` names the missing package, if any."""

    method: str
    setting: str
    quantities: list[Quantity]
    chance: float
    seconds: float
    absent: str = ""

    @property
    def verdict(self) -> str:
        """Whether the row is right, off by certainly more than the tolerance, or not resolved."""
        if self.absent:
            return "absent"
        if not self.quantities:
            return "not finite"
        gaps = [np.abs(q.value - q.right) - TOLERANCE for q in self.quantities if q.name != "xi"]
        errors = [self.chance * q.error for q in self.quantities if q.name != "xi"]
        if any(np.any(gap > error) for gap, error in zip(gaps, errors, strict=True)):
            return "off"
        # "right" needs evidence: within the tolerance up to two standard errors, and precise enough.
        doubtful = any(np.any(gap > 2 * error / self.chance) for gap, error in zip(gaps, errors, strict=True))
        blurred = any(np.any(error > 2 * TOLERANCE) for error in errors)
        return "not resolved" if doubtful or blurred else "right"


def names(only: str = "") -> list[tuple[str, Setting]]:
    """Return the pairs of sampler and setting whose joint name contains `only`."""
    methods = [*PEERS, *OWN]
    return [(m, s) for s in SETTINGS for m in methods if only in f"{m}, {s.name}" and _sensible(m, s)]


def _sensible(method: str, setting: Setting) -> bool:
    """Whether to run the pair: with exact gradients there is no noise to estimate."""
    return not (setting.exact and method.endswith(("beta", "dense")) and "CCAdL" not in method)


def run_peers(
    chosen: Sequence[tuple[str, Setting]], *, quick: bool, seed: int, done: Callable[[PeerRow], None]
) -> list[PeerRow]:
    """Return the measured rows; the row of a library that is not installed has the verdict "absent"."""
    rows = []
    for method, setting in chosen:
        # The seed depends on the row's name alone, so that its figures do not depend on the other rows.
        row_seed = zlib.crc32(f"{seed} {method}, {setting.name}".encode())
        rows.append(_row(method, setting, quick=quick, seed=row_seed))
        done(rows[-1])
    return rows


def _row(method: str, setting: Setting, *, quick: bool, seed: int) -> PeerRow:
    began, target = time.perf_counter(), _target(setting.target)
    h, A = setting.step_size, FRICTION
    plan = AllRows() if setting.exact else WithReplacement()
    model = Linear(target.precision, target.mass, noise(target, plan))
    relaxation = theory.sghmc(model, h, A, 0 * model.C).relaxation
    relaxations = RELAXATIONS[quick] * target.patience
    length = length_for(relaxation, relaxations=relaxations, chains=CHAINS, dimension=target.dimension)
    try:
        record = _run(method, target, setting, length, seed)
    except ImportError as error:
        return PeerRow(method, setting.name, [], 0.0, 0.0, absent=str(error))
    quantities: list[Quantity] = []
    chance = 0.0
    if record.finite:
        along = directions(target, noise(target, WithReplacement()))
        shift = h * float(np.trace(model.C)) / (2 * target.dimension)
        # The mean of xi is given by Proposition 1 under SGNHT, and by Proposition 2 under CCAdL.
        right_xi = A + (0.0 if "CCAdL" in method else shift)
        quantities, _ = measure(record, target, along, None, right_xi, target.dimension)
        chance = chance_of(quantities, len(record.position))
    return PeerRow(method, setting.name, quantities, chance, time.perf_counter() - began)


def _run(method: str, target: Target, setting: Setting, length: Length, seed: int) -> Record:
    h, A = setting.step_size, FRICTION
    if method in OWN:
        gradient = FullData(target.posterior) if setting.exact else Minibatch(target.posterior)
        plan = AllRows() if setting.exact else WithReplacement()
        return run(target, OWN[method](h, A), minibatch=plan, gradient=gradient, length=length, seed=seed)
    problem = peers.Problem(
        posterior=target.posterior,
        data=target.data,
        starts=target.unravel(target.draw(np.random.default_rng(seed), length.chains)),
        num_data=target.num_data,
        batch_size=target.num_data if setting.exact else target.batch_size,
        dimension=target.dimension,
    )
    return PEERS[method](problem, step_size=h, friction=A, length=length, seed=seed)


@functools.cache
def _target(name: str) -> Target:
    return TARGETS[name]()


def to_json(row: PeerRow) -> dict[str, Any]:
    """Return a row as plain numbers and text."""
    figures = {
        q.name: {"value": np.round(q.value, 5).tolist(), "error": np.round(q.error, 5).tolist()}
        for q in row.quantities
    }
    return {
        "method": row.method,
        "setting": row.setting,
        "verdict": row.verdict,
        "absent": row.absent,
        "quantities": figures,
        "seconds": round(row.seconds, 1),
    }
