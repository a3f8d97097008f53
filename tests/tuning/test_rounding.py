"""Rounding of the coordinates: what is known at the rounded mode, and how far rounding moves positions."""

import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.preconditioner import DensePreconditioner
from isotherm.sampling.prepare import prepare
from isotherm.sums import precision
from isotherm.tuning.newton import Point
from isotherm.tuning.normal import _held
from isotherm.tuning.rounding import HELD, rounded, rounding_error
from support.monte_carlo import LIMIT

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


def frame_of(center, root):
    with precision.float64():
        arrays = (jnp.asarray(x, jnp.float64) for x in (center, root, np.linalg.inv(root)))
        return DensePreconditioner(*arrays)


def regression():
    """Rows with a column 1e5 ± 10, and a prior: U is quadratic, so that an expansion to second order is exact."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(5000), rng.normal(1e5, 10, size=5000)])
    y = x @ [1.0, 0.3] + rng.normal(size=5000)
    return x, y, np.diag([1e-8, 1e-2])


def sums_at(theta, root):
    """Return value, gradient and Hessian of U and of the log-likelihood over v at v = 0, with theta + root v."""
    x, y, prior = regression()
    residual = y - x @ theta
    likelihood = np.asarray(-0.5 * residual @ residual), root.T @ (x.T @ residual), -root.T @ x.T @ x @ root
    log_prior = -0.5 * theta @ prior @ theta, -root.T @ prior @ theta, -root.T @ prior @ root
    return [-(a + b) for a, b in zip(likelihood, log_prior, strict=True)], likelihood


def mode():
    """Return the mode, with coordinates in which the Hessian is the identity."""
    x, y, prior = regression()
    covariance = np.linalg.inv(x.T @ x + prior)
    return covariance @ x.T @ y, np.linalg.cholesky(covariance)


def test_what_is_known_is_that_at_the_rounded_mode_in_rounded_coordinates():
    """Rounding moves the mode here, and the gradient there would be an error of all draws if it were left out."""
    center, root = mode()
    (value, gradient, hessian), known = sums_at(center, root)
    exact = Point(frame_of(center, root), float(value), gradient, hessian, known)
    out = rounded(exact, jnp.zeros(2))
    assert {x.dtype for x in (out.frame.center, out.frame.root, out.frame.inverse)} == {F32}
    narrow = lambda x: np.asarray(x, np.float64)
    np.testing.assert_array_equal(narrow(out.frame.center), center.astype(np.float32))
    np.testing.assert_array_equal(narrow(out.frame.root), root.astype(np.float32))
    (value, gradient, hessian), known = sums_at(narrow(out.frame.center), narrow(out.frame.root))
    assert np.abs(gradient).max() > 0.005
    np.testing.assert_allclose(out.value, value, rtol=1e-12)
    np.testing.assert_allclose(out.gradient, gradient, atol=1e-6)
    np.testing.assert_allclose(out.hessian, hessian, atol=1e-6)
    np.testing.assert_allclose(out.known[0], known[0], rtol=1e-12)
    np.testing.assert_allclose(out.known[1], known[1], atol=1e-6)
    np.testing.assert_allclose(out.known[2], known[2], atol=1e-6)
    # The inverse is that of the rounded root.
    np.testing.assert_allclose(narrow(out.frame.inverse) @ narrow(out.frame.root), np.eye(2), atol=1e-3)


ROOT = np.array([[1.1, 0.0], [0.11, 1.3e-3]])
CENTER = np.array([900.3, 3.0])


@pytest.mark.parametrize("dtype", [F32, F64])
def test_rounding_moves_positions_as_in_theory(dtype):
    """Numbers next to 900 and to 3 are 2^9 eps and 2 eps apart; rounding errors are uniform, and moved by L^-1."""
    spacing = np.finfo(dtype).eps * np.array([2.0**9, 2.0])
    exact = np.sqrt(np.sum((np.linalg.inv(ROOT) * spacing) ** 2) / 12 / 2)
    assert rounding_error(frame_of(CENTER, ROOT), 0.01, dtype) == pytest.approx(exact, rel=1e-10)


def test_rounding_is_that_of_single_precision():
    """Against positions that are rounded. Squares of uniform numbers have a kurtosis of 1.8.

    The rms of n of them has a relative standard error of sqrt(0.8 / n) / 2; five are allowed, a false alarm in 6e-7.
    """
    n, inverse = 20_000, np.linalg.inv(ROOT)
    theta = CENTER + np.random.default_rng(1).standard_normal((n, 2)) @ ROOT.T
    moved = (theta.astype(np.float32).astype(np.float64) - theta) @ inverse.T
    found = rounding_error(frame_of(CENTER, ROOT), 1.0, F32)
    assert found == pytest.approx(np.sqrt(np.mean(moved**2)), rel=LIMIT * np.sqrt(0.8 / n) / 2)


@pytest.mark.parametrize("fixes_float32", [False, True])
def test_chains_run_in_float64_where_float32_does_not_hold_them(fixes_float32):
    """Unless the log-likelihood rules it out, which is recorded. Rounding moves positions by 0.06 sd here."""
    x, y, _ = regression()
    data = {"x": x.astype(np.float32), "y": y.astype(np.float32)}
    narrow = (lambda w: w.astype(jnp.float32)) if fixes_float32 else (lambda w: w)
    posterior = iso.Posterior(lambda w, row: -0.5 * (row["y"] - row["x"] @ narrow(w)) ** 2)
    problem = prepare(posterior, data, jnp.zeros(2), num_chains=1, init_per_chain=False)
    center, root = mode()
    point = Point(
        frame_of(center, root), 0.0, np.zeros(2), np.eye(2), (np.zeros(()), np.zeros(2), -np.eye(2))
    )
    held, arithmetic = _held(problem, point)
    dtype = F32 if fixes_float32 else F64
    assert arithmetic.dtype == str(dtype)
    assert held.frame.root.dtype == dtype
    assert (arithmetic.rounding > HELD) == fixes_float32
    assert (arithmetic.why_not_float64 is not None) == fixes_float32
    wide = rounding_error(frame_of(center, 100 * root), 1.0, F32)
    assert wide < HELD  # coordinates a hundred times as wide would do
