"""A state, an estimate and their numbers for tests of a single step, all different from 1.

Step size, friction and temperature are schedules read at step 3; the average holds one batch before the step and
two after it.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso
from isotherm import tree
from support.monte_carlo import LIMIT

h, A, T, MU, XI, STEP = 0.1, 1.5, 0.7, 5.0, 0.4, 3
LIKE = {"a": jnp.zeros(2), "b": jnp.zeros((1, 2))}
MASS = np.array([2.0, 0.5, 1.0, 3.0])
D, KEYS = 4, 20_000
RNG = np.random.default_rng(0)
THETA, P, F = RNG.normal(size=(3, D))
OLD, NEW = 6 * RNG.normal(size=(2, 3, D))  # three contrasts of the last batch and of this one
C = (OLD.T @ OLD + NEW.T @ NEW) / 6  # both batches have weight 1/2 in the average after this step
DIAGONAL = np.diag(np.diag(C))
ROUNDING = {"rtol": 2e-5, "atol": 2e-5}


def scheduled(value):
    """Return a schedule that has this value only at step 3."""
    return lambda step: value * (1 + 0.25 * (step - STEP))


def shaped(vector):
    """Return a vector in the structure of `LIKE`."""
    return tree.unravel_like(jnp.asarray(vector, jnp.float32), LIKE)


HYPER = {"step_size": scheduled(h), "temperature": scheduled(T)}
MOMENTUM = {"friction": scheduled(A), "mass": shaped(MASS), **HYPER}
THERMOSTAT = {"thermal_mass": MU, **MOMENTUM}


class Matrix(eqx.Module):
    """A known C of a batch, for `MatrixFree`."""

    matrix: jax.Array

    def mv(self, x):
        """Return C x."""
        return tree.unravel_like(self.matrix @ tree.ravel(x), x)


BATCH = NEW.T @ NEW / 3 + np.diag([1.0, 2.0, 3.0, 4.0])  # unlike the average, and unlike its contrasts


def state_of(sampler, theta, p, xi=XI):
    """Return a state at step 3 whose average holds one batch."""
    start = sampler.init(shaped(theta), key=jax.random.key(0))
    average = sampler.learn(start, estimate_of(np.zeros(D), OLD)).covariance
    momentum = None if start.momentum is None else shaped(p)
    xi = None if start.xi is None else jnp.asarray(xi)
    return iso.extend.State(shaped(theta), momentum, xi, average, jnp.asarray(STEP))


def estimate_of(force, contrasts):
    """Return an estimate with a force, contrasts and the operator `BATCH`."""
    z = jax.vmap(shaped)(jnp.asarray(contrasts))
    return iso.extend.GradientEstimate(
        shaped(force), z, jnp.zeros(()), Matrix(jnp.asarray(BATCH, jnp.float32))
    )


def moved(state):
    """Return what the kick moves: the momentum if there is one, else the position."""
    return tree.ravel(state.position if state.momentum is None else state.momentum)


def kick(sampler, theta, p, force, key):
    """Return the kick of `state_of`."""
    return sampler.kick(state_of(sampler, theta, p), estimate_of(force, NEW), key=key)


def remainder(c, covariance, mass):
    """Return M^1/2 (I - c M^-1/2 C M^-1/2) M^1/2 with negative eigenvalues set to 0, and their number."""
    root = np.sqrt(mass)
    values, vectors = np.linalg.eigh(np.eye(len(mass)) - c * covariance / np.outer(root, root))
    positive = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
    return positive * np.outer(root, root), int(np.sum(values < 0))


def assert_covariance(samples, expected):
    """Assert mean zero and this covariance, each entry to `LIMIT` standard errors of a normal sample."""
    x = np.asarray(samples, np.float64)
    scale = np.outer(np.diag(expected), np.diag(expected))
    error = np.sqrt((scale + expected**2) / len(x))
    # A direction whose noise is clipped has only rounding.
    floor = 1e-5 * np.abs(expected).max()
    assert np.all(np.abs(x.T @ x / len(x) - expected) < LIMIT * error + floor)
    assert np.all(np.abs(x.mean(axis=0)) < LIMIT * np.sqrt(np.diag(expected) / len(x)) + floor)
