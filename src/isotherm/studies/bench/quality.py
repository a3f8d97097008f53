"""The accuracy of a sampler on a known posterior with anisotropic minibatch noise.

The target is the ill-conditioned regression of `isotherm validate`: linear in its parameters, with correlated
features, so that both the posterior and the covariance of the gradient noise are known. Chains start from exact
draws, so any error is that of the sampler at its finite step.
"""

import dataclasses
import functools
import math
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

from isotherm.data.plans import WithReplacement
from isotherm.gradients.minibatch import Minibatch
from isotherm.studies.bench.methods import Method, Settings
from isotherm.studies.validation.cases import noise
from isotherm.studies.validation.known import TARGETS
from isotherm.studies.validation.measure import directions
from isotherm.studies.validation.record import Length, Record, run
from isotherm.studies.validation.targets import Target
from isotherm.studies.validation.theory import Linear, predict

TARGET = "regression-ill"
FRICTION = 0.65  # in units of the stiffest frequency
RANK = 2  # of the low-rank covariance; there are six parameters
STEPS = {"euler": (0.25,), "symmetric": (0.25, 1.0)}  # values of s
_DRAWS = 8  # per chain


@dataclasses.dataclass(frozen=True)
class Figure:
    """A number and its standard error."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:+.1%} ± {self.error:.1%}"


@dataclasses.dataclass(frozen=True)
class Quality:
    """Relative errors at stability number s.

    - `xi`: mean xi / A - 1, the noise that the covariance leaves to the thermostat; `None` without a thermostat.
    - `variance`: of the parameters' variances, averaged over the principal axes of the posterior.
    - `worst`: the same along the axis with the largest error.
    """

    s: float
    finite: bool
    xi: Figure | None = None
    variance: Figure | None = None
    worst: Figure | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers."""
        return dataclasses.asdict(self)


def measure_all(
    methods: Iterable[Method], *, chains: int, done: Callable[[str], None]
) -> dict[str, list[Quality]]:
    """Return, by name of the method, a `Quality` for each s of its scheme."""
    chosen = {method.name: method for method in methods}
    results = {}
    for name, method in chosen.items():
        results[name] = measure_method(method, chains=chains)
        done(name)
    return results


def measure_method(method: Method, *, chains: int) -> list[Quality]:
    """Return the quality of a method for each s. It runs on the CPU, which is enough for six parameters."""
    with jax.default_device(_cpu()):
        return [
            summarise(
                run(
                    _target(),
                    (sampler := method.build(settings(s))),
                    minibatch=WithReplacement(),
                    gradient=Minibatch(_target().posterior),
                    length=_length(sampler, chains),
                    seed=zlib.crc32(f"{method.name} {s:g}".encode()),
                ),
                s,
            )
            for s in STEPS[method.scheme]
        ]


def settings(s: float) -> Settings:
    """Return the hyper-parameters that give the stability number s on the target."""
    target = _target()
    C, root = _noise(), np.sqrt(target.mass)
    whitened = np.linalg.eigvalsh(C / np.outer(root, root))[-1]
    return Settings(
        step_size=float(np.sqrt(s / whitened)),
        langevin_step=float(s / (2 * np.linalg.eigvalsh(C)[-1])),
        friction=FRICTION,
        mass=target.unravel(target.mass),
        rank=RANK,
    )


def summarise(record: Record, s: float) -> Quality:
    """Return the errors of a record, with standard errors from the spread of independent chains."""
    if not record.finite:
        return Quality(s, False)
    target = _target()
    axes = directions(target, _noise()).axes
    right = np.einsum("ij,ik,kj->j", axes, target.covariance, axes)
    errors = np.mean(((record.position - target.mean) @ axes) ** 2, axis=1) / right - 1  # (chain, axis)
    worst = int(np.argmax(np.abs(errors.mean(axis=0))))
    xi = None if record.xi is None else _figure(record.xi.mean(axis=1) / FRICTION - 1)
    return Quality(s, True, xi, _figure(errors.mean(axis=1)), _figure(errors[:, worst]))


def _figure(by_chain: np.ndarray) -> Figure:
    return Figure(float(by_chain.mean()), float(by_chain.std(ddof=1) / np.sqrt(len(by_chain))))


def _length(sampler: Any, chains: int) -> Length:
    """Return a length with many chains and few draws, one relaxation time of the slowest direction apart."""
    target = _target()
    expected = predict(sampler, Linear(target.precision, target.mass, _noise()))
    known = expected is not None and np.isfinite(expected.relaxation)
    relaxation = float(expected.relaxation) if expected is not None and known else 200.0
    return Length(chains, burn_in=int(8 * relaxation) + 200, draws=_DRAWS, thinning=math.ceil(relaxation))


@functools.cache
def _target() -> Target:
    return TARGETS[TARGET]()


@functools.cache
def _noise() -> np.ndarray:
    return noise(_target(), WithReplacement())


def _cpu() -> Any:
    try:
        return jax.devices("cpu")[0]
    except RuntimeError:  # JAX is restricted to another platform
        return jax.devices()[0]
