"""Whether single precision holds the positions of the chains, and what is known at the mode in that precision."""

import dataclasses

import numpy as np
from jaxtyping import Array, PyTree

from isotherm import tree
from isotherm.preconditioner import DensePreconditioner
from isotherm.tuning.newton import Point

HELD = 0.02  # largest rms error, in standard deviations, by which rounding may move a position
_POINTS = 64


def rounding_error(frame: DensePreconditioner, spread: float, dtype: np.dtype) -> float:
    """Return the rms of L^-1 (fl(theta) - theta) over normal points theta = center + L v of the posterior.

    fl rounds to `dtype`. Columns of the data that are far from zero or nearly equal have parameters that vary
    together: rounding each of them by itself moves the position by far more than it moves a single parameter.
    """
    root, inverse = (np.asarray(x, np.float64) for x in (frame.root, frame.inverse))
    center = tree.flat(frame.center)
    v = spread * np.random.default_rng(0).standard_normal((_POINTS, len(center)))
    theta = center + v @ root.T
    # The center may be rounded: what matters is how far each position is from where it should be. Rounding errors are
    # uniform over the distance between neighbouring numbers. Taken as differences they would be zero for float64.
    variance = np.spacing(np.abs(theta).astype(dtype)).astype(np.float64) ** 2 / 12
    return float(np.sqrt(np.mean(variance @ (inverse**2).T)))


def rounded(point: Point, like: PyTree[Array]) -> Point:
    """Return `point` in coordinates that are rounded to the dtype of `like`, with its sums at the rounded center.

    With c' and L' the rounded center and root, v = s + M w, where s = L^-1 (c' - c) and M = L^-1 L'. The derivatives
    with respect to w follow from those with respect to v, to second order in s.
    """
    dtype = tree.dtype_of(like)
    root, inverse = (np.asarray(x, np.float64) for x in (point.frame.root, point.frame.inverse))
    center = tree.flat(point.frame.center)
    narrow = lambda x: x.astype(dtype).astype(np.float64)
    shift, turn = inverse @ (narrow(center) - center), inverse @ narrow(root)
    frame = DensePreconditioner(
        tree.put_like(center, like),
        tree.put(root, dtype),
        tree.put(np.linalg.solve(turn, inverse), dtype),
    )

    def moved(
        value: float, gradient: np.ndarray, hessian: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        slope = gradient + hessian @ shift
        value = float(value + gradient @ shift + shift @ hessian @ shift / 2)
        return value, turn.T @ slope, turn.T @ hessian @ turn

    value, gradient, hessian = moved(point.value, point.gradient, point.hessian)
    total, slope, curvature = moved(float(point.known[0]), *point.known[1:])
    return dataclasses.replace(
        point,
        frame=frame,
        value=value,
        gradient=gradient,
        hessian=hessian,
        known=(np.asarray(total), slope, curvature),
    )
