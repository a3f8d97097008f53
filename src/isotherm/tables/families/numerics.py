"""Log-densities in 32 bits: differences of log-gammas, and exponentials, whose digits do not cancel or overflow."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array

_LARGEST = 60.0  # argument up to which `bounded_exp` is an exponential, in 32 bits
_LARGE, _SHIFT = 8.0, 5  # argument from which Stirling's series is exact, and what is added to smaller ones
_CLOSE = 0.5  # difference of logs below which a direct form would lose digits
_HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)
_TERMS = tuple(1 / math.factorial(k) for k in range(2, 10))


def bounded_exp(x: Array) -> Array:
    """Return exp(x), continued by its tangent above 60, so that it and its derivatives are finite."""
    inside = jnp.exp(jnp.minimum(x, _LARGEST))
    return inside * (1 + jnp.maximum(x - _LARGEST, 0))


def log1mexp(x: Array) -> Array:
    """Return log(1 - exp(-x)) for x > 0."""
    is_small = x < math.log(2)
    small, large = jnp.where(is_small, x, 1.0), jnp.where(is_small, 1.0, x)
    return jnp.where(is_small, jnp.log(-jnp.expm1(-small)), jnp.log1p(-jnp.exp(-large)))


def stirling_error(x: Array, log_x: Array | None = None) -> Array:
    """Return log Gamma(x) - (x - 1/2) log x + x - log(2 pi)/2 for x > 0.

    `log_x` is the log of x, for an x that may underflow or be so small that its inverse overflows.
    """
    is_large = x > _LARGE
    small, large = jnp.where(is_large, 1.0, x), jnp.where(is_large, x, _LARGE)
    # From x to x + 1 it falls by (x + 1/2) log(1 + 1/x) - 1.
    is_tiny = small < 1
    tiny, others = jnp.where(is_tiny, small, 0.0), jnp.where(is_tiny, 1.0, small)
    log_tiny = jnp.log(jnp.where(is_tiny, small, 1.0)) if log_x is None else log_x
    step = jnp.where(is_tiny, jnp.log1p(tiny) - log_tiny, jnp.log1p(1 / others))
    steps = (small + 0.5) * step - 1
    steps = steps + sum((small + i + 0.5) * jnp.log1p(1 / (small + i)) - 1 for i in range(1, _SHIFT))
    return jnp.where(is_large, _stirling_series(large), steps + _stirling_series(small + _SHIFT))


def _stirling_series(x: Array) -> Array:
    inverse = 1 / x
    square = inverse * inverse
    return inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188))))


def exp_deviance(d: Array) -> Array:
    """Return exp(d) - 1 - d >= 0 to full precision: minus the log-density of a gamma or Poisson variable, scaled.

    d is the difference of two logs.
    """
    is_close = jnp.abs(d) < _CLOSE
    near, far = jnp.where(is_close, d, 0.0), jnp.where(is_close, 1.0, d)
    series = jnp.zeros_like(near)
    for term in reversed(_TERMS):
        series = series * near + term
    return jnp.where(is_close, series * near**2, bounded_exp(far) - 1 - far)


def share_deviance(d: Array, log_odds: Array) -> Array:
    """Return log(1 + p (exp(d) - 1)) - p d >= 0 for p = sigmoid(log_odds), the divergence of two shares.

    The second share has the log-odds log_odds + d.
    """
    # The other way round it is the same, and the digits of p are kept where it is small.
    d, log_odds = jnp.where(log_odds > 0, -d, d), -jnp.abs(log_odds)
    p = jax.nn.sigmoid(log_odds)
    is_close = jnp.abs(d) < _CLOSE
    near, far = jnp.where(is_close, d, 0.0), jnp.where(is_close, 1.0, d)
    # log(1 + u) - u + (u - p d), where u = p (exp(d) - 1)
    u = p * jnp.expm1(near)
    close = _log1p_minus(u) + p * exp_deviance(near)
    direct = jnp.logaddexp(0.0, log_odds + far) - jnp.logaddexp(0.0, log_odds) - p * far
    return jnp.where(is_close, close, direct)


def _log1p_minus(u: Array) -> Array:
    """Return log(1 + u) - u for -0.4 < u < 0.65, to full precision: -u^2/2 + u^3/3 - ..., through artanh."""
    s = u / (2 + u)
    s2 = s * s
    tail = jnp.zeros_like(u)
    for k in range(15, 1, -2):
        tail = tail * s2 + 1 / k
    # log(1 + u) = 2 (s + s^3/3 + ...), and 2 s - u = -s u
    return 2 * s * s2 * tail - s * u


def poisson_log_density(eta: Array, y: Array) -> Array:
    """Return the log-probability of a count y whose mean is exp(eta)."""
    is_zero = y == 0
    count = jnp.where(is_zero, 1.0, y)
    positive = -count * exp_deviance(eta - jnp.log(count)) - 0.5 * jnp.log(count)
    return jnp.where(is_zero, -bounded_exp(eta), positive - _HALF_LOG_2_PI - stirling_error(count))


def negative_binomial_log_density(eta: Array, y: Array, r: Array) -> Array:
    """Return the log-probability of a count y with mean exp(eta) and variance mean + mean^2 / r."""
    is_zero = y == 0
    count, log_r = jnp.where(is_zero, 1.0, y), jnp.log(r)
    log_y, total = jnp.log(count), count + r
    divergence = total * share_deviance(eta - log_y, log_y - log_r)
    errors = stirling_error(total) - stirling_error(r) - stirling_error(count)
    positive = -divergence - 0.5 * jnp.log1p(count / r) - 0.5 * log_y - _HALF_LOG_2_PI + errors
    return jnp.where(is_zero, -r * jnp.logaddexp(0.0, eta - log_r), positive)


def binomial_log_density(eta: Array, y: Array, trials: Array) -> Array:
    """Return the log-probability of y successes in trials whose log-odds are eta."""
    none, all_ = y == 0, y == trials
    inside = ~(none | all_)
    count, rest = jnp.where(inside, y, 1.0), jnp.where(inside, trials - y, 1.0)
    log_odds, total = jnp.log(count) - jnp.log(rest), count + rest
    errors = stirling_error(total) - stirling_error(count) - stirling_error(rest)
    constant = 0.5 * (jnp.log(total / count) - jnp.log(rest)) - _HALF_LOG_2_PI + errors
    middle = constant - total * share_deviance(eta - log_odds, log_odds)
    edge = -trials * jnp.logaddexp(0.0, jnp.where(none, eta, -eta))
    return jnp.where(inside, middle, edge)
