"""A check of the arithmetic of a run, by other arithmetic: all rows in float64, where chains ended.

The force that the chains' kernel computes, summed over all rows, is compared with the gradient of the log-density in
float64. The change of U along a line is compared with the integral of its gradient: they differ if the gradient is
wrong, or if the log-likelihood has jumps, which its gradient does not show.

A gradient that is wrong by a factor of 1 + e is seen in proportion to the change of U. From the mode of a nearly
normal posterior to a point r standard deviations away, U rises by r^2/2 T, and the integral is off by e r^2/2 T.
Between two draws U may be nearly the same. So lines go from the mode, if it is known, in the directions of two draws
and for at least four standard deviations. There a factor of 1.1 gives 0.7 T: the warm-up takes the Hessian from the
wrong gradient, so that its standard deviations are too small by the root of 1 + e, and e / (1 + e) replaces e.
"""

import dataclasses
import math
from typing import TypeGuard

import numpy as np
from jaxtyping import Array, Float, Key

from isotherm import tree
from isotherm.chains.setup import Setup
from isotherm.chains.starts import NormalStarts
from isotherm.draws.record import Arithmetic
from isotherm.gradients.arrow_variate import ArrowVariate
from isotherm.gradients.control_variate import ControlVariate
from isotherm.gradients.minibatch import Gradient
from isotherm.posterior import Posterior
from isotherm.preconditioner import in_coordinates
from isotherm.sums import precision
from isotherm.sums.fold import Part, largest_part
from isotherm.sums.totals import prior_gradients, values_and_gradients

# Lobatto's rule on [0, 1], exact for polynomials of degree 7, and Simpson's on three of its nodes.
_NODES = (1 + np.array([-1.0, -math.sqrt(3 / 7), 0.0, math.sqrt(3 / 7), 1.0])) / 2
_LOBATTO = np.array([9, 49, 64, 49, 9]) / 180
_SIMPSON = np.array([1, 0, 4, 0, 1]) / 6
_FAR = 4.0  # least length of a line from the mode, in standard deviations
_SUSPECT = 0.15  # difference of log-densities, in units of T, above which a line is checked again in pieces
_PIECES = 4
_SHARE = 0.1  # of the rows that a run without control variates evaluated, to be spent on the check
_FEWEST_ROWS = 4096

Points = Float[np.ndarray, "m d"]


def verified(setup: Setup, ends: Points, *, part: Part | None = None) -> Arithmetic:
    """Return the arithmetic of `setup` with what the check found, on all rows or on `part` of them.

    `ends` are two or more ravelled positions in the sampler's coordinates. The first and the last are used.
    """
    found = setup.arithmetic
    if found is None or found.why_not_float64 is not None:
        return found or Arithmetic(str(tree.dtype_of(setup.problem.init)))
    first, last, T = ends[0], ends[-1], setup.problem.temperature
    between, checked = first + _NODES[:, None] * (last - first), [0, -1]
    points = between
    if _mode_is_known(setup):
        points = _from_mode(np.stack([first, last]), T**0.5)
        checked = [int(np.argmin(np.sum((points - v) ** 2, axis=1))) for v in (first, last)]
    values, gradients = _in_float64(setup, points, part)
    if len(points) > len(between) and not (np.isfinite(values).all() and np.isfinite(gradients).all()):
        # Far from the mode the density may not be defined.
        points, checked = between, [0, -1]
        values, gradients = _in_float64(setup, points, part)
    step = len(_NODES) - 1
    lines = [[0, *range(k, k + step)] for k in range(1, len(points), step)]
    errors = [_along(points[line], values[line], gradients[line]) for line in lines]
    worst = int(np.argmax([math.inf if math.isnan(e) else abs(e) - i for e, i in errors]))
    density_error, integration_error = errors[worst]
    if not abs(density_error) < _SUSPECT * T:
        density_error, integration_error = _in_pieces(setup, points[lines[worst]][[0, -1]], part)
    return dataclasses.replace(
        found,
        force_error=_force_error(setup, points[checked], gradients[checked], part),
        density_error=abs(density_error) / T,
        integration_error=integration_error / T,
    )


def force_error(setup: Setup, points: Points) -> float:
    """Return the rms difference between the kernel's force and the gradient in float64, in standard deviations."""
    return _force_error(setup, points, _in_float64(setup, points, None)[1], None)


def _mode_is_known(setup: Setup) -> bool:
    """Return whether v = 0 is the mode, as after a warm-up that assumes a nearly normal posterior."""
    return isinstance(setup.starts, NormalStarts) and setup.starts.points is None


def _from_mode(ends: Float[np.ndarray, "k d"], sd: float) -> Points:
    """Return the mode, v = 0, and the further nodes of a line from it through each of `ends`."""
    radius = np.maximum(np.linalg.norm(ends, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    ends = ends * np.maximum(1, _FAR * sd / radius)
    return np.concatenate([0 * ends[:1], *(_NODES[1:, None] * end for end in ends)])


def _along(line: Points, values: Float[np.ndarray, " m"], gradients: Points) -> tuple[float, float]:
    """Return the change of log-density minus the integral of its gradient, and an error of that integral."""
    slopes = gradients @ (line[-1] - line[0])
    integral = _LOBATTO @ slopes
    return float(values[-1] - values[0] - integral), abs(float(integral - _SIMPSON @ slopes))


def _in_pieces(setup: Setup, ends: Points, part: Part | None) -> tuple[float, float]:
    """Return what `_along` does, from pieces of the line: kinks, as of `relu`, spoil an integral over all of it."""
    shares = (np.arange(_PIECES)[:, None] + _NODES) / _PIECES
    points = ends[0] + shares.reshape(-1, 1) * (ends[1] - ends[0])
    values, gradients = _in_float64(setup, points, part)
    pieces = (slice(k, k + len(_NODES)) for k in range(0, len(points), len(_NODES)))
    errors = [_along(points[piece], values[piece], gradients[piece]) for piece in pieces]
    return sum(error for error, _ in errors), sum(error for _, error in errors)


def _in_float64(setup: Setup, points: Points, part: Part | None) -> tuple[Float[np.ndarray, " m"], Points]:
    """Return the log-density in the sampler's coordinates and its gradient, in float64."""
    density, problem = _density(setup), setup.problem
    scale = 1.0 if part is None else problem.num_data / part.count
    with precision.float64():
        wide = precision.widened(density)
        thetas = tree.put_like(points, precision.widened(problem.init))
        values, gradients = values_and_gradients(wide, problem.data, thetas, part=part)
        priors = prior_gradients(wide, thetas)
    return scale * values + priors[0], scale * gradients + priors[1]


def _force_error(setup: Setup, points: Points, gradients: Points, part: Part | None) -> float:
    problem, density = setup.problem, _kernel_density(setup, _density(setup))
    scale = 1.0 if part is None else problem.num_data / part.count
    thetas = tree.put_like(points, problem.init)
    _, forces = values_and_gradients(density, problem.data, thetas, part=part)
    forces = scale * forces + prior_gradients(density, thetas)[1]
    return float(np.sqrt(np.mean((forces - gradients) ** 2))) / problem.temperature**0.5


def _density(setup: Setup) -> Posterior:
    """Return the density of the sampler's coordinates."""
    coordinates = setup.kernel.preconditioner
    density = setup.problem.density
    return density if coordinates is None else in_coordinates(density, coordinates)


def _kernel_density(setup: Setup, density: Posterior) -> Posterior:
    """Return the density whose rows the kernel differentiates.

    Its matrix products have full precision here, also where a plain minibatch leaves it to the user's settings.
    """
    gradient = setup.kernel.gradient
    return gradient.expanded if _is_expanded(gradient) else density


def _is_expanded(gradient: Gradient) -> TypeGuard[ControlVariate | ArrowVariate]:
    """Return whether rows enter as remainders of an expansion around a point that stays."""
    return isinstance(gradient, ArrowVariate) or (
        isinstance(gradient, ControlVariate) and gradient.refresh is None
    )


def part_to_check(setup: Setup, rows_used: float, *, key: Key[Array, ""]) -> Part | None:
    """Return which rows a run that evaluated `rows_used` of them is checked on: all if it has control variates."""
    gradient, N = setup.kernel.gradient, setup.problem.num_data
    if _is_expanded(gradient):
        return None
    evaluations = 2 * (2 * len(_NODES) - 1 if _mode_is_known(setup) else len(_NODES)) + 2
    count = max(_FEWEST_ROWS, int(_SHARE * rows_used / evaluations))
    return None if count >= N else Part(key, min(count, largest_part(setup.problem.data)))
