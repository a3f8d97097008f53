"""Propositions 1 and 2 and SGHMC's density, proved by inserting them into their Fokker-Planck operators.

Two parameters, a generic potential U(theta), diagonal mass, any temperature and thermal mass. For CCAdL and
SGHMC the noise covariance C(theta) is a generic symmetric matrix of functions; for SGNHT it is sigma^2 M.
"""

import pytest
import sympy as sp

t = sp.symbols("theta1 theta2", real=True)
p = sp.Matrix(sp.symbols("p1 p2", real=True))
xi, A = sp.symbols("xi A", real=True)
h, beta, mu, sigma = sp.symbols("h beta mu sigma", positive=True)
M = sp.diag(*sp.symbols("m1 m2", positive=True))
U = sp.Function("U")(*t)
C = sp.Matrix(2, 2, lambda i, j: sp.Function(f"C{min(i, j) + 1}{max(i, j) + 1}")(*t))
N_D = 2

GRAD_U = sp.Matrix([sp.diff(U, x) for x in t])
VELOCITY = M.inv() * p
H = (p.T * VELOCITY)[0] / 2 + U


def adjoint(rho, friction, diffusion, thermostat=0):
    """L* rho for d theta = M^-1 p dt, dp = -(grad U + friction) dt + (2 diffusion)^1/2 dW, d xi = thermostat
    dt.

    The diffusion depends on theta only and the noise acts on p, so the order of derivatives does not matter.
    """
    flow = -sum(sp.diff(VELOCITY[i] * rho, t[i]) for i in range(N_D))
    force = sum(sp.diff((GRAD_U[i] + friction[i]) * rho, p[i]) for i in range(N_D))
    spread = sum(sp.diff(diffusion[i, j] * rho, p[i], p[j]) for i in range(N_D) for j in range(N_D))
    return flow + force + spread - sp.diff(thermostat * rho, xi)


def residual(rho, *terms):
    """(L* rho) / rho, expanded: identically zero if and only if rho is stationary."""
    return sp.expand(sp.simplify(adjoint(rho, *terms) / rho))


HALF = sp.Rational(1, 2)
NOSE_HOOVER = ((p.T * VELOCITY)[0] - N_D / beta) / mu


def density(mean_xi):
    return sp.exp(-beta * H - beta * mu * (xi - mean_xi) ** 2 / 2)


def ccadl(rho, control=HALF):
    """CCAdL; `control` is the factor in front of h beta C M^-1 p."""
    friction = control * h * beta * C * VELOCITY + xi * p
    return residual(rho, friction, h * C / 2 + A * M / beta, NOSE_HOOVER)


def sgnht(rho, noise):
    return residual(rho, xi * p, h * noise / 2 + A * M / beta, NOSE_HOOVER)


def test_proposition_1():
    """C = sigma^2 M: xi ~ N(A + beta h sigma^2 / 2, 1 / (beta mu)). Other means are not stationary."""
    assert sgnht(density(A + beta * h * sigma**2 / 2), sigma**2 * M) == 0
    assert sgnht(density(A), sigma**2 * M) != 0
    assert sgnht(density(A + h * sigma**2 / 2), sigma**2 * M) != 0, "beta belongs in the mean of xi"


@pytest.mark.slow
def test_sgnht_does_not_preserve_the_target_under_other_noise():
    """Neither parameter-dependent nor constant anisotropic noise, whatever mean xi is given."""
    c = sp.Symbol("c")
    for noise in (C, sp.diag(*sp.symbols("a b", positive=True)), sp.Function("s")(*t) * M):
        rest = sgnht(density(c), noise)
        # A constant c that makes the residual vanish would make every coefficient in p vanish.
        coefficients = sp.Poly(rest, *p, xi).coeffs()
        solutions = sp.solve(coefficients, c, dict=True)
        assert not any(not s[c].has(*t) for s in solutions), f"SGNHT preserved the target under {noise}"
    proportional = sp.Poly(sgnht(density(c), sigma**2 * M), *p, xi).coeffs()
    assert sp.solve(proportional, c, dict=True) == [{c: A + beta * h * sigma**2 / 2}], "the check is blind"


def test_proposition_2():
    """Any C(theta): xi ~ N(A, 1 / (beta mu)). Only the factor 1/2 in the control works."""
    assert ccadl(density(A)) == 0
    assert ccadl(density(A), control=1) != 0
    assert ccadl(density(A), control=HALF / 2) != 0


def test_sghmc():
    """Added noise 2 (A M - beta h C / 2) / beta with gradient noise h C preserves e^{-beta H}."""
    added = (A * M - beta * h * C / 2) / beta
    rho = sp.exp(-beta * H)
    assert residual(rho, A * p, h * C / 2 + added) == 0
    assert residual(rho, A * p, h * C / 2 + A * M / beta) != 0, "without the estimate it is not preserved"
