"""Measured moments of a run with Monte Carlo errors, beside the exact values and theory's predictions.

Temperatures, variances and xi are ratios to the exact value; means are in posterior standard deviations. They
are measured along the principal axes of the posterior, and along the leading eigenvectors u and the last one of
the whitened noise M^-1/2 C M^-1/2. A thermostat holds the mean temperature of all directions at 1 even if the
samples are wrong: a wrong sampler shows only in the differences between these directions.
"""

import dataclasses

import numpy as np

from isotherm.studies.validation.record import Record
from isotherm.studies.validation.targets import Target
from isotherm.studies.validation.theory import Stationary

_LEADING = 3  # eigenvectors of the noise


@dataclasses.dataclass(frozen=True, eq=False)
class Quantity:
    """One kind of measured number, with an entry per direction.

    - `value`, `error`: as measured, and its Monte Carlo standard error.
    - `right`: the exact value.
    - `predicted`: theory's value for the scheme at its finite step, or the exact value if theory has none.
    """

    name: str
    value: np.ndarray
    error: np.ndarray
    right: np.ndarray
    predicted: np.ndarray

    @property
    def worst(self) -> int:
        """The index of the direction furthest from the exact value."""
        return int(np.argmax(np.abs(self.value - self.right)))


@dataclasses.dataclass(frozen=True, eq=False)
class Directions:
    """Directions as columns: `axes`, principal axes of the posterior; `noisy`, eigenvectors of the whitened noise."""

    axes: np.ndarray
    noisy: np.ndarray


def directions(target: Target, C: np.ndarray) -> Directions:
    """Return the directions to measure for a target with gradient noise of covariance C."""
    root = np.sqrt(target.mass)
    vectors = np.linalg.eigh(C / np.outer(root, root))[1][:, ::-1]
    chosen = sorted({*range(min(_LEADING, target.dimension)), target.dimension - 1})
    return Directions(np.linalg.eigh(target.covariance)[1][:, ::-1], vectors[:, chosen])


def coupling(record: Record, target: Target, Q: np.ndarray, mu: float) -> np.ndarray:
    """Return what fluctuations of xi add to the configurational temperature along Q's columns, (chain, column).

    In a stationary state E[xi d(y'y)/dt] = -E[y'y d(xi)/dt] for y = M^1/2 (theta - mean), so that the virial is
    the kinetic temperature plus Cov(p'M^-1 p, y'y) / (2 mu N_d T), and along an eigenvector of the noise the same
    with (u'y)^2 for one direction. The covariance is estimated from the record. It is not zero if the noise depends
    on the parameters and only its mean is controlled: the chain is then hottest far from the mean.
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
    """Return all quantities of a record, and the largest `coupling` in any direction.

    `right_xi` is the mean of xi by the paper's propositions; `mu` is the thermal mass.
    """
    T, m, root = target.temperature, target.mean, np.sqrt(target.mass)
    Q, U = along.axes, along.noisy
    centred, gradient = record.position - m, target.gradient(record.position)
    x = centred @ Q
    variance = np.einsum("ij,ik,kj->j", Q, target.covariance, Q)
    spread = None
    if theory is not None:
        # The ratio for a Gaussian is a temperature; `width` converts it to this target's variance ratio.
        spread = target.width(np.einsum("ij,ik,kj->j", Q, theory.covariance, Q) / variance)
    quantities = [
        _quantity("mean", x.mean(axis=1) / np.sqrt(variance), 0.0, None),
        _quantity("variance", (x**2).mean(axis=1) / variance, 1.0, spread),
    ]
    # (u'M^1/2 theta)(u'M^-1/2 grad U) has mean T for every u, and so does its mean over a basis.
    heat = None if theory is None else theory.covariance @ target.precision / T
    along_noise = np.mean((centred * root) @ U * (gradient / root @ U), axis=1) / T
    overall = np.mean(np.sum(centred * gradient, axis=2), axis=1, keepdims=True) / (T * len(m))
    by_axis, by_noise = (coupling(record, target, basis, mu) for basis in (Q, U))
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
    """Return the mean over chains; its error is their spread over the root of their number.

    `shift` is a part of the prediction that is estimated from the same chains. The error is then that of the
    difference between measurement and prediction.
    """
    value = per_chain.mean(axis=0)
    exact = np.full_like(value, right)
    estimated = np.zeros_like(per_chain) if shift is None or predicted is None else shift
    prediction = (
        exact if predicted is None else np.broadcast_to(predicted, value.shape) + estimated.mean(axis=0)
    )
    error = (per_chain - estimated).std(axis=0, ddof=1) / np.sqrt(len(per_chain))
    return Quantity(name, value, error, exact, prediction)
