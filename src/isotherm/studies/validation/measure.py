"""From the path of chains to numbers with their Monte Carlo error, beside the right value and theory's.

Temperatures, variances and xi are ratios to the right value, means are in posterior standard deviations. The
directions are the principal axes of the posterior and the leading (and the quietest) eigenvectors u of the
whitened noise M^-1/2 C M^-1/2: a thermostat holds the mean temperature of all directions at 1 whatever the
samples are, and what gives a wrong sampler away is that these few part from each other.
"""

import dataclasses

import numpy as np

from isotherm.studies.validation.record import Record
from isotherm.studies.validation.targets import Target
from isotherm.studies.validation.theory import Stationary

_LEADING = 3


@dataclasses.dataclass(frozen=True, eq=False)
class Quantity:
    """Numbers of one kind, an entry per direction: measured, Monte Carlo error, right, predicted.

    `predicted` is theory's value for the scheme at its finite step, and the right one where theory is silent.
    """

    name: str
    value: np.ndarray
    error: np.ndarray
    right: np.ndarray
    predicted: np.ndarray

    @property
    def worst(self) -> int:
        """The direction that is furthest from right."""
        return int(np.argmax(np.abs(self.value - self.right)))


@dataclasses.dataclass(frozen=True, eq=False)
class Directions:
    """Columns: `axes`, the principal axes of the posterior; `noisy`, eigenvectors of the whitened noise."""

    axes: np.ndarray
    noisy: np.ndarray


def directions(target: Target, C: np.ndarray) -> Directions:
    """Where to look, for a target with gradient noise of covariance C."""
    root = np.sqrt(target.mass)
    vectors = np.linalg.eigh(C / np.outer(root, root))[1][:, ::-1]
    chosen = sorted({*range(min(_LEADING, target.dimension)), target.dimension - 1})
    return Directions(np.linalg.eigh(target.covariance)[1][:, ::-1], vectors[:, chosen])


def coupling(record: Record, target: Target, Q: np.ndarray, mu: float) -> np.ndarray:
    """What xi's motion adds to the configurational temperature along the columns of Q, (chain, column).

    In a stationary state E[xi d(y'y)/dt] = -E[y'y d(xi)/dt] for y = M^1/2 (theta - mean), so that the virial is
    the kinetic temperature plus Cov(p'M^-1 p, y'y) / (2 mu N_d T), and along an eigenvector of the noise the same
    with (u'y)^2 for one direction. The covariance, taken from the record, is not zero where the noise depends on
    the parameters and only its mean is controlled: hot places are then far ones.
    """
    if record.xi is None or record.momentum is None or not target.noise_varies:
        return np.zeros((len(record.position), Q.shape[1]))
    y = (record.position - target.mean) * np.sqrt(target.mass)
    heat = np.sum(record.momentum**2, axis=2)
    heat = (heat - heat.mean())[:, :, None] / (2 * mu * target.temperature)
    return np.mean(heat * (y @ Q) ** 2, axis=1)


def measure(
    record: Record,
    target: Target,
    along: Directions,
    theory: Stationary | None,
    right_xi: float | None,
    mu: float,
) -> tuple[list[Quantity], float]:
    """All quantities of a record, and the largest `coupling` in a direction.

    `right_xi` is what the paper's propositions say of the mean of xi; mu is the thermal mass.
    """
    T, m, root = target.temperature, target.mean, np.sqrt(target.mass)
    Q, U = along.axes, along.noisy
    centred, gradient = record.position - m, target.gradient(record.position)
    x = centred @ Q
    variance = np.einsum("ij,ik,kj->j", Q, target.covariance, Q)
    spread = None
    if theory is not None:
        # The Gaussian's ratio is a temperature, and this target's variance follows it in its own way.
        spread = target.width(np.einsum("ij,ik,kj->j", Q, theory.covariance, Q) / variance)
    quantities = [
        _quantity("mean", x.mean(axis=1) / np.sqrt(variance), 0.0, None),
        _quantity("variance", (x**2).mean(axis=1) / variance, 1.0, spread),
    ]
    # (u'M^1/2 theta)(u'M^-1/2 grad U) has mean T for every u, and so has their mean over a basis.
    heat = None if theory is None else theory.covariance @ target.precision / T
    along_noise = np.mean((centred * root) @ U * (gradient / root @ U), axis=1) / T
    overall = np.mean(np.sum(centred * gradient, axis=2), axis=1, keepdims=True) / (T * len(m))
    by_axis, by_noise = (coupling(record, target, directions, mu) for directions in (Q, U))
    mean_heat, heats = None, None
    if heat is not None:
        mean_heat = np.trace(heat) / len(m)
        heats = np.einsum("ij,ik,kj->j", U * root[:, None], heat, U / root[:, None])
    quantities += [
        _quantity("configurational", overall, 1.0, mean_heat, by_axis.mean(axis=1, keepdims=True)),
        _quantity("configurational along noise", along_noise, 1.0, heats),
    ]
    if record.momentum is not None:
        p = record.momentum
        kinetic = None if theory is None or theory.momentum is None else theory.momentum / T
        quantities += [
            _quantity(
                "kinetic",
                np.mean(p**2, axis=(1, 2))[:, None] / T,
                1.0,
                None if kinetic is None else np.trace(kinetic) / len(m),
            ),
            _quantity(
                "kinetic along noise",
                np.mean((p @ U) ** 2, axis=1) / T,
                1.0,
                None if kinetic is None else np.einsum("ij,ik,kj->j", U, kinetic, U),
            ),
        ]
    if record.xi is not None and right_xi is not None:
        xi = record.xi.mean(axis=1, keepdims=True) / right_xi
        mean = None if theory is None or theory.xi is None else theory.xi / right_xi
        quantities.append(_quantity("xi", xi, 1.0, mean))
    moved = max(float(np.max(np.abs(each.mean(axis=0)))) for each in (by_axis, by_noise))
    return quantities, moved


def _quantity(
    name: str,
    per_chain: np.ndarray,
    right: float,
    predicted: np.ndarray | float | None,
    shift: np.ndarray | None = None,
) -> Quantity:
    """Chains are independent: the error of their mean is their spread over the root of their number.

    `shift` is a part of the prediction that comes from the chains themselves; the error is that of the difference.
    """
    value = per_chain.mean(axis=0)
    exact = np.full_like(value, right)
    own = np.zeros_like(per_chain) if shift is None or predicted is None else shift
    guess = exact if predicted is None else np.broadcast_to(predicted, value.shape) + own.mean(axis=0)
    error = (per_chain - own).std(axis=0, ddof=1) / np.sqrt(len(per_chain))
    return Quantity(name, value, error, exact, guess)
