"""The center of a posterior with groups: the outer parameters at the mode of their marginal, all others given them.

The joint mode is no center. With many groups of few rows it lies many standard deviations from the posterior, and it
may not exist at all, since the density grows without bound where the scale of the effects goes to zero with them.

The gradient of the log of the marginal density of the outer parameters is the mean of the gradient of the log of the
joint density, over the distribution of all others given them. That is taken to be normal: its mean is the conditional
mode and its covariance the inverse of the arrow.
"""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.posterior import Posterior
from isotherm.sums.fold import fold
from isotherm.sums.precision import exact
from isotherm.tuning.groups.derivatives import blocks, prior_blocks
from isotherm.tuning.groups.factor import Arrow, Inner, arrow
from isotherm.tuning.groups.layout import Layout, PairIndex
from isotherm.tuning.newton import whitening

_SAMPLES = 16  # over which the gradient of the marginal is averaged: half of them, and their reflections
_NEAR, _MOST = 0.03, 60  # the conditional mode is found to this (rms, in sd); most evaluations spent on it
_CLOSE, _ROUNDS = 0.2, 15  # the mode of the marginal, and most rounds
_MOVE, _FAR = 0.05, 1.0  # of an outer parameter: by which derivatives are taken, and the longest step


@dataclasses.dataclass(frozen=True, eq=False)
class Center:
    """The center, the arrow there, the curvature of the marginal over T, and how levels and head follow outer ones.

    `information_slopes` are, by factor, the derivatives along outer parameters of the log of the levels' information.
    """

    theta: PyTree[Array]
    arrow: Arrow
    curvature: Float[np.ndarray, "o o"]
    by_outer: Inner
    information_slopes: list[np.ndarray]
    distance: float
    passes: float


class Marginal:
    """Finds the center of a posterior. Everything is computed in the dtype of the parameters that it is given."""

    def __init__(
        self, posterior: Posterior, data: PyTree, layout: Layout, pairs: list[PairIndex], *, seed: int
    ) -> None:
        self.posterior, self.data, self.layout, self.pairs = posterior, data, layout, pairs
        self.passes, self.temperature = 0.0, float(posterior.temperature)
        last, rng = layout.factors[-1], np.random.default_rng(seed)
        half = _SAMPLES // 2
        head = rng.standard_normal((layout.num_head, half))
        group = rng.standard_normal((last.num_levels, last.width, half))
        # Squares average 1, so that the prior's part of the gradient is exact however few the levels are.
        head, group = (x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True)) for x in (head, group))
        # The same numbers throughout, so that the gradient is a smooth function of the outer parameters.
        self.normal = np.concatenate([head, -head], axis=1), np.concatenate([group, -group], axis=2)

    def center(self, start: PyTree) -> Center:
        """Return the center, found from `start`."""
        theta, here = self._conditional(start)
        k = self.layout.num_outer
        if k == 0:
            nothing = np.zeros((0, 0))
            slopes = [np.zeros(0)] * len(self.layout.factors)
            return Center(theta, here, nothing, here.by_outer, slopes, 0.0, self.passes)
        gradient, curvature, fresh = self._gradient(theta, here), None, False
        distance = np.inf
        for _ in range(_ROUNDS):
            if curvature is None:
                curvature, fresh = self._curvature(theta, here, gradient), True
            root, _ = whitening(curvature, 0.0, 1e-16)
            step = root @ (root.T @ gradient)
            distance = float(np.linalg.norm(root.T @ gradient)) / k**0.5
            if distance < _CLOSE:
                if fresh:
                    break
                curvature = None  # the one to report is measured where it is used
                continue
            step *= min(1.0, _FAR / float(np.max(np.abs(step))))
            moved = self._moved(theta, here, step)
            new_theta, new_arrow = self._conditional(moved)
            new_gradient = self._gradient(new_theta, new_arrow)
            before, after = (np.linalg.norm(root.T @ g) for g in (gradient, new_gradient))
            # Broyden's update, as long as it serves.
            change = gradient - new_gradient
            curvature = curvature + np.outer(change - curvature @ step, step) / (step @ step)
            curvature = (curvature + curvature.T) / 2
            if not after < before / 3:
                curvature = None
            theta, here, gradient, fresh = new_theta, new_arrow, new_gradient, False
        if curvature is None or not fresh:
            curvature = self._curvature(theta, here, gradient)
        by_outer = here.solve(here.by_outer)
        slopes = self._information_slopes(theta, here)
        return Center(theta, here, curvature, by_outer, slopes, distance, self.passes)

    def _information_slopes(self, theta: PyTree, here: Arrow) -> list[np.ndarray]:
        slopes = [np.zeros(self.layout.num_outer) for _ in self.layout.factors]
        size = lambda x: float(np.sum(np.trace(x, axis1=1, axis2=2)))
        for k in np.flatnonzero(here.rows_depend):
            e = np.eye(self.layout.num_outer)[k]
            there = self._arrow(self._added(theta, here.gradient, 0.0, _MOVE * e))
            for i, (a, b) in enumerate(zip(there.information, here.information, strict=True)):
                if size(a) > 0 and size(b) > 0:
                    slopes[i][k] = math.log(size(a) / size(b)) / _MOVE
        return slopes

    def _conditional(self, theta: PyTree) -> tuple[PyTree, Arrow]:
        """Return the mode of head and levels given the outer parameters of `theta`, and the arrow near it."""
        here, damping = self._arrow(theta), 1.0
        for _ in range(_MOST):
            step = here.solve(here.gradient)
            length = here.length(step)
            proposal = self._added(theta, step, damping)
            if length < _NEAR:
                return proposal, here
            there = self._arrow(proposal)
            slack = 1e-9 * abs(here.value)
            if np.isfinite(there.value) and there.value >= here.value - slack:
                theta, here, damping = proposal, there, min(1.0, 2 * damping)
            else:
                damping /= 4
                if damping < 1e-6:
                    break
        return theta, here

    def _arrow(self, theta: PyTree) -> Arrow:
        self.passes += 1
        rows = blocks(self.posterior, self.data, theta, self.layout, self.pairs)
        prior = prior_blocks(self.posterior, theta, self.layout)
        return arrow(self.layout, self.pairs, rows, prior, self.temperature)

    def _gradient(self, theta: PyTree, here: Arrow) -> Float[np.ndarray, " o"]:
        """Return the gradient of the log of the marginal density over T."""
        head, group = here.spread(self.normal)
        samples = [self._added(theta, (head[:, s], group[:, :, s]), 1.0) for s in range(_SAMPLES)]
        stacked = jax.tree.map(lambda *x: tree.put(np.stack([np.asarray(leaf) for leaf in x])), *samples)
        self.passes += _SAMPLES / 4  # neither Hessians nor gradients with respect to levels
        rows = fold(_OuterGradients(self.posterior, self.layout), self.data, stacked)
        prior = np.asarray(_prior_gradients(self.posterior, stacked, self.layout), np.float64)
        return (rows + prior).mean(axis=0) / self.temperature

    def _curvature(
        self, theta: PyTree, here: Arrow, gradient: Float[np.ndarray, " o"]
    ) -> Float[np.ndarray, "o o"]:
        """Return minus the derivative of `_gradient`."""
        columns = []
        for e in np.eye(self.layout.num_outer):
            there = self._conditional(self._moved(theta, here, _MOVE * e))
            columns.append((gradient - self._gradient(*there)) / _MOVE)
        matrix = np.stack(columns, axis=1)
        return (matrix + matrix.T) / 2

    def _moved(self, theta: PyTree, here: Arrow, step: Float[np.ndarray, " o"]) -> PyTree:
        """Return parameters with outer ones moved, and all others as they follow them."""
        head, group = here.solve(here.by_outer)
        return self._added(theta, (head @ step, group @ step), 1.0, step)

    def _added(
        self, theta: PyTree, step: Inner, factor: float, outer: Float[np.ndarray, " o"] | None = None
    ) -> PyTree:
        parts = self.layout.parts
        o, h, g = (np.asarray(x, np.float64) for x in parts.split(theta))
        o = o if outer is None else o + outer
        return _joined(parts, o, h + factor * step[0], g + factor * step[1], theta)


def _joined(parts, outer: np.ndarray, head: np.ndarray, group: np.ndarray, like: PyTree) -> PyTree:
    leaves, structure = jax.tree.flatten(like)
    for vector, index in ((outer, parts.outer), (head, parts.head), (group.ravel(), (parts.largest,))):
        start = 0
        for i in index:
            x = leaves[i]
            leaves[i] = tree.put(vector[start : start + x.size].reshape(x.shape), x.dtype)
            start += x.size
    return structure.unflatten(leaves)


class _OuterGradients(eqx.Module):
    """The gradients of the log-likelihood of a block with respect to the outer parameters, at several points."""

    posterior: Posterior
    layout: Layout = eqx.field(static=True)

    @exact
    def __call__(self, rows: PyTree, valid: Bool[Array, " n"], points: PyTree) -> Float[Array, "s o"]:
        def at(theta: PyTree) -> Float[Array, " o"]:
            outer, head, group = self.layout.parts.split(theta)

            def total(x: Float[Array, " o"]) -> Float[Array, ""]:
                moved = self.layout.parts.joined(x, head, group, theta)
                return jnp.sum(jnp.where(valid, self.posterior.row_log_likelihoods(moved, rows), 0))

            return jax.grad(total)(outer)

        return jax.lax.map(at, points)


@compile_quickly
@exact
def _prior_gradients(posterior: Posterior, points: PyTree, layout: Layout) -> Float[Array, "s o"]:
    def at(theta: PyTree) -> Float[Array, " o"]:
        return layout.parts.split(jax.grad(posterior.prior_log_density)(theta))[0]

    return jax.lax.map(at, points)
