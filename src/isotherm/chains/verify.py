"""A check of the arithmetic of a run, by other arithmetic: all rows in float64 at positions where chains ended.

The force that the chains' kernel computes, summed over all rows, is compared with the gradient of the log-density in
float64. The change of U between two positions is compared with the integral of the gradient along the line between
them: they differ if the log-likelihood has jumps, which its gradient does not show.
"""

import dataclasses
import math

import numpy as np
from jaxtyping import Array, Float, Key

from isotherm import tree
from isotherm.chains.setup import Setup
from isotherm.draws.record import Arithmetic
from isotherm.gradients.control_variate import ControlVariate
from isotherm.posterior import Posterior
from isotherm.preconditioner import in_coordinates
from isotherm.sums import precision
from isotherm.sums.fold import Part
from isotherm.sums.totals import prior_gradients, values_and_gradients

# Lobatto's rule on [0, 1], exact for polynomials of degree 7, and Simpson's on three of its nodes.
_NODES = (1 + np.array([-1.0, -math.sqrt(3 / 7), 0.0, math.sqrt(3 / 7), 1.0])) / 2
_LOBATTO = np.array([9, 49, 64, 49, 9]) / 180
_SIMPSON = np.array([1, 0, 4, 0, 1]) / 6
_SHARE = 0.1  # of the rows that a run without control variates evaluated, to be spent on the check
_FEWEST_ROWS = 4096


def verified(setup: Setup, ends: Float[np.ndarray, "m d"], *, part: Part | None = None) -> Arithmetic:
    """Return the arithmetic of `setup` with what the check found, on all rows or on `part` of them.

    `ends` are two or more ravelled positions in the sampler's coordinates. The first and the last are used.
    """
    found, problem = setup.arithmetic, setup.problem
    if found is None or found.why_not_float64 is not None:
        return found or Arithmetic(str(tree.dtype_of(problem.init)))
    density, data = _density(setup), problem.data
    first, last, like = ends[0], ends[-1], problem.init
    line = first + _NODES[:, None] * (last - first)
    scale = 1.0 if part is None else problem.num_data / part.count
    with precision.float64():
        wide = precision.widened(density)
        points = tree.put_like(line, precision.widened(like))
        values, gradients = values_and_gradients(wide, data, points, part=part)
        priors = prior_gradients(wide, points)
    values, gradients = scale * values + priors[0], scale * gradients + priors[1]
    kernel_density = _kernel_density(setup, density)
    few = tree.put_like(line[[0, -1]], like)
    _, forces = values_and_gradients(kernel_density, data, few, part=part)
    forces = scale * forces + prior_gradients(kernel_density, few)[1]
    T = problem.temperature
    error = float(np.sqrt(np.mean((forces - gradients[[0, -1]]) ** 2))) / T**0.5
    along = gradients @ (last - first)
    rule = _LOBATTO @ along
    return dataclasses.replace(
        found,
        force_error=error,
        density_error=abs(float(values[-1] - values[0] - rule)) / T,
        integration_error=abs(float(rule - _SIMPSON @ along)) / T,
    )


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
    if isinstance(gradient, ControlVariate) and gradient.refresh is None:
        return gradient.expanded
    return density


def part_to_check(setup: Setup, rows_used: float, *, key: Key[Array, ""]) -> Part | None:
    """Return which rows a run that evaluated `rows_used` of them is checked on: all if it has control variates."""
    gradient, N = setup.kernel.gradient, setup.problem.num_data
    if isinstance(gradient, ControlVariate) and gradient.refresh is None:
        return None
    evaluations = 2 * len(_NODES) + 2
    count = max(_FEWEST_ROWS, int(_SHARE * rows_used / evaluations))
    return None if count >= N else Part(key, count)
