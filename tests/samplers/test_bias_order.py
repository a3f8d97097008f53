"""Bias of the variance against the step size: a normal target, known noise that depends on the parameter.

U = sum theta_i^2 / 2, and the gradient of coordinate i has noise of variance C(theta_i) = C0 + C1 theta_i^2,
known exactly to the samplers that use it (`averaging=1.0`). If the second moments obey a closed recursion, the
measured variance is compared with its solution at every h. A thermostat has none, so its order is measured.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from support.monte_carlo import LIMIT

# Before the first step the noise is measured from contrasts, which here are exact only for `Diagonal`.
pytestmark = pytest.mark.filterwarnings("ignore:At the start:isotherm.IsothermWarning")

C0, C1 = 1.0, 0.25
KNOWN = iso.Diagonal(averaging=1.0)
POSTERIOR = iso.Posterior(lambda theta, row: 0.0 * row, lambda theta: -jnp.sum(theta**2) / 2)


class CoordinateNoise(iso.extend.Gradient):
    """-theta plus noise of variance C0 + C1 theta_i^2. Its single contrast is exact for `Diagonal`."""

    all_rows = True

    def __call__(self, position, batch, *, needs, key):
        del batch
        sd = jnp.sqrt(C0 + C1 * position**2)
        force = -position + sd * jax.random.normal(key, position.shape)
        return iso.extend.GradientEstimate(force, None if not needs.contrasts else sd[None], jnp.zeros(()))


def sweep(samplers, *, seed, dimension, num_chains, num_steps):
    """Return draws of all settings, started from the target distribution."""
    return iso.sweep(
        POSTERIOR,
        np.zeros(2, np.float32),
        jnp.zeros(dimension),
        samplers,
        batch_size=2,
        num_draws=num_steps // 5,
        thinning=5,
        burn_in=400,
        num_chains=num_chains,
        gradient=CoordinateNoise(),
        init_scale=1.0,
        seed=seed,
        progress=False,
    )


def second_moments(runs):
    """Return E theta^2 over coordinates and steps: (settings, chains)."""
    return np.array([np.mean(draws.moments.variance + draws.moments.mean**2, axis=1) for draws in runs])


def measure(samplers, **size):
    """Return the second moment of each setting, and its standard error from the spread over chains."""
    per_chain = second_moments(sweep(samplers, **size))
    return per_chain.mean(axis=1), per_chain.std(axis=1, ddof=1) / np.sqrt(per_chain.shape[1])


def sgld(h):
    return (2 * h + h**2 * C0) / (1 - (1 - h) ** 2 - h**2 * C1)


def modified_sgld(h):
    return 2 * h / (1 - (1 - h) ** 2)


def sghmc(h, A, c0, c1):
    """Return E theta^2 from (theta^2, theta p, p^2): q = theta + h p, p <- (1 - h A) p - h q + noise."""
    a = 1 - h * A
    q2, qp, p2 = np.array([1, 2 * h, h**2]), np.array([0, 1, h]), np.array([0, 0, 1])
    rows = np.stack([q2, a * qp - h * q2, a**2 * p2 - 2 * a * h * qp + h**2 * (1 + c1) * q2])
    return np.linalg.solve(np.eye(3) - rows, [0, 0, 2 * h * A + h**2 * c0])[0]


CLOSED = {
    "SGLD": (iso.SGLD, sgld, (0.2, 0.1, 0.05)),
    "ModifiedSGLD": (lambda h: iso.ModifiedSGLD(h, KNOWN), modified_sgld, (0.2, 0.1, 0.05)),
    "SGHMC": (lambda h: iso.SGHMC(h, 1.0), lambda h: sghmc(h, 1.0, C0, C1), (0.2, 0.1, 0.05)),
    "SGHMC with C": (lambda h: iso.SGHMC(h, 2.0, KNOWN), lambda h: sghmc(h, 2.0, 0, 0), (0.4, 0.2, 0.1)),
}
closed = pytest.mark.parametrize("name", CLOSED)


@pytest.mark.slow
@closed
def test_variance_at_a_finite_step_solves_its_recursion(name):
    """At every h to 5 standard errors (6e-7 each), which are below a tenth of the largest bias."""
    make, theory, ladder = CLOSED[name]
    value, error = measure([make(h) for h in ladder], seed=1, dimension=128, num_chains=32, num_steps=1000)
    want = np.array([theory(h) for h in ladder])
    assert (error < 0.1 * np.abs(want - 1).max()).all()
    assert (np.abs(value - want) < LIMIT * error).all(), (value, want, (value - want) / error)


@closed
def test_order_of_the_recursions(name):
    """By closed forms, without Monte Carlo error: halving h halves the bias. Only SGHMC with the exact C has no
    first-order term in the variance of a normal target, and its bias falls to a quarter."""
    _, theory, _ = CLOSED[name]
    order = np.log2((theory(2e-4) - 1) / (theory(1e-4) - 1))
    assert order == pytest.approx(2 if name == "SGHMC with C" else 1, abs=2e-3)


@pytest.mark.slow
def test_modified_sgld_beats_sgld():
    """Its bias is smaller at every step size, by more than 5 standard errors of the difference over chains.

    Theory: h/2 against (h/2)(1 + C0 + C1), 2.25 times as much; both have the same random numbers.
    """
    ladder = (0.2, 0.1, 0.05)
    size = {"seed": 2, "dimension": 128, "num_chains": 32, "num_steps": 1000}
    plain = second_moments(sweep([iso.SGLD(h) for h in ladder], **size))
    modified = second_moments(sweep([iso.ModifiedSGLD(h, KNOWN) for h in ladder], **size))
    difference = plain - modified
    error = difference.std(axis=1, ddof=1) / np.sqrt(32)
    assert (difference.mean(axis=1) > LIMIT * error).all()
    want = np.array([sgld(h) - modified_sgld(h) for h in ladder])
    assert (np.abs(difference.mean(axis=1) - want) < LIMIT * error).all()


LADDER = np.array([0.16, 0.08, 0.04])
ORDERS = {
    "SGLD": (iso.SGLD, sgld),
    "ModifiedSGLD": (lambda h: iso.ModifiedSGLD(h, KNOWN), modified_sgld),
    "SGHMC": (lambda h: iso.SGHMC(h, 1.0), CLOSED["SGHMC"][1]),
    "SGNHT": (lambda h: iso.SGNHT(h, 1.0), None),
    "CCAdL": (lambda h: iso.CCAdL(h, 1.0, KNOWN), None),
    "CCAdL with the running average": (lambda h: iso.CCAdL(h, 1.0, iso.Diagonal()), None),
}


def fit(bias):
    """Return the slope of log|bias| on log h, and a and b of bias = a h + b h^2. A bias has variance ~ 1/h."""
    slope = np.polyfit(np.log(LADDER), np.log(np.abs(bias)), 1, w=LADDER**1.5)[0]
    b, a = np.polyfit(LADDER, bias / LADDER, 1, w=LADDER**1.5)
    return np.array([slope, a, b])


@pytest.mark.slow
@pytest.mark.parametrize("name", ORDERS)
def test_order_of_the_bias(name):
    """log|bias of the variance| against log h has slope 1, by regression.

    Standard errors are jackknifed over chains, since all h share their random numbers; 5 of them give a false-alarm
    rate of 6e-7. If the bias is known in closed form, the slope must be that of the closed form on this ladder.
    Otherwise the band is 5 standard errors plus |b/a| h_max, the most by which a second-order term b h^2 tilts the
    line, and it must be below 1/2, so that orders 0 and 2 are excluded. For CCAdL theory also
    gives a = -A/2: stationarity of theta^2 and theta p makes E theta^2 = T (1 - h xi / 2) up to h^2, with
    xi = A up to h, and a share 1/mu for a moving xi.
    """
    make, theory = ORDERS[name]
    runs = sweep([make(h) for h in LADDER], seed=3, dimension=128, num_chains=64, num_steps=7000)
    bias = second_moments(runs) - 1
    slope, a, b = fit(bias.mean(axis=1))
    left_out = np.stack([fit(np.delete(bias, c, axis=1).mean(axis=1)) for c in range(64)])
    error = np.sqrt(63 / 64 * np.sum((left_out - left_out.mean(axis=0)) ** 2, axis=0))
    tilt = abs(b / a) * LADDER[0]
    print(f"{name}: slope {slope:.3f} +- {error[0]:.3f}, a {a:.3f} +- {error[1]:.3f}, tilt below {tilt:.2f}")
    assert abs(a) > LIMIT * error[1]
    if theory is not None:
        assert abs(slope - fit(np.array([theory(h) - 1 for h in LADDER]))[0]) < LIMIT * error[0]
    else:
        assert LIMIT * error[0] + tilt < 0.5
        assert abs(slope - 1) < LIMIT * error[0] + tilt
    if name.startswith("CCAdL"):
        assert abs(a + 0.5) < LIMIT * error[1] + 1 / 128
    if "xi" in runs[0].stats:
        # At any h the thermostat makes the kinetic temperature 1, up to (xi at the end - start) / time.
        for draws in runs:
            kinetic = draws.stats["kinetic_temperature"].mean(axis=1, dtype=np.float64)
            assert abs(kinetic.mean() - 1) < LIMIT * kinetic.std(ddof=1) / 8
