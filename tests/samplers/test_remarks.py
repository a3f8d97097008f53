"""The paper's remarks (i) and (ii): the friction of SGHMC, and temperatures under a wrong covariance.

A cheaper version of `benchmarks/remarks.py`, which provides the problem and the loops: a linear regression whose
posterior is exactly N(0, I), with gradient noise four times as strong in one direction as in the others.
"""

import importlib.util
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from support.known_noise import GaussianTarget, KnownNoise, constant
from support.monte_carlo import LIMIT

SPEC = importlib.util.spec_from_file_location(
    "remarks", Path(__file__).parents[2] / "benchmarks" / "remarks.py"
)
remarks = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(remarks)

NOISE = np.array([[30.0, 8.0], [8.0, 6.0]])
MASS = jnp.asarray([2.0, 0.5])


def clipped_steps(sampler, num_steps=50):
    kernel = iso.extend.Kernel(sampler, KnownNoise(GaussianTarget(np.eye(2)), constant(NOISE)), 2, 2)

    def step(state, _):
        state, info, _ = kernel.step(state, jnp.zeros(2), key=jax.random.key(1))
        return state, info.clipped

    state = kernel.init(jnp.zeros(2), jnp.zeros(2), key=jax.random.key(1))
    return int(jnp.sum(jax.lax.scan(step, state, length=num_steps)[1] > 0))


@pytest.mark.slow
@pytest.mark.parametrize(("h", "temperature"), [(0.02, 1.0), (0.1, 0.5)])
def test_smallest_friction_is_half_beta_h_lambda(h, temperature):
    """With C known, no step is clipped just above A = beta h lambda_max(C M^-1) / 2, and every step just below."""
    bound = h / temperature * np.max(np.linalg.eigvals(NOISE / np.asarray(MASS)).real) / 2
    for factor, count in ((1.001, 0), (0.999, 50)):
        sampler = iso.SGHMC(h, factor * bound, iso.Dense(), mass=MASS, temperature=temperature)
        assert clipped_steps(sampler) == count


def visited(sampler, start, keys, num_steps=200):
    """Return the positions at which the gradient is evaluated, (chains, steps, d), for chains started at rest."""
    p = remarks.problem()
    kernel = iso.extend.Kernel(sampler, iso.Minibatch(p.posterior), remarks.NUM_DATA, 50)
    rows = {k: jnp.asarray(v) for k, v in p.rows.items()}

    def chain(key):
        def step(state, _):
            state, _, visit = kernel.step(state, rows, key=key)
            return state, visit.position

        state = kernel.init(start, rows, key=key)
        if state.momentum is not None:
            state = eqx.tree_at(lambda s: s.momentum, state, jnp.zeros_like(start))
        return jax.lax.scan(step, state, length=num_steps)[1]

    return np.asarray(jax.jit(jax.vmap(chain))(keys))


@pytest.mark.slow
@pytest.mark.parametrize("controlled", [False, True])
def test_sghmc_with_friction_1_over_h_is_sgld_with_step_h_squared(controlled):
    """Remark (i): p has no memory, so the path is that of (modified) SGLD up to rounding."""
    h, start = 0.1, jnp.full(remarks.DIMENSION, 0.5)
    covariance = iso.Dense() if controlled else None
    langevin = iso.ModifiedSGLD(h**2, covariance) if controlled else iso.SGLD(h**2)
    keys = jax.random.split(jax.random.key(2), 4)
    sghmc, sgld = visited(iso.SGHMC(h, 1 / h, covariance), start, keys), visited(langevin, start, keys)
    assert np.ptp(sgld[:, :, 0]) > 1
    np.testing.assert_allclose(sghmc, sgld, atol=2e-4)


@pytest.mark.slow
def test_sghmc_slows_down_as_sgld_does():
    """Remark (i): at every A the autocorrelation time is that of SGLD with step h / A, 2 A / h steps.

    Each time is a variance of chain means over 64 chains in 6 directions, so its relative error is sqrt(2/384),
    or 7 %. The tolerance is 5 standard errors: a false-alarm rate of 6e-7 each.
    """
    rows = remarks.overdamped(remarks.problem(), frictions=(2.0, 10.0), num_draws=800)
    for row in rows:
        expected = 2 * row["A"] / 0.1
        for time in (row["sghmc_time"], row["sgld_time"]):
            assert abs(time / expected - 1) < LIMIT * np.sqrt(2 / 384)
    assert rows[1]["sghmc_variance"] < rows[0]["sghmc_variance"]


@pytest.mark.slow
def test_ccadl_keeps_its_temperature_under_a_wrong_covariance_and_sghmc_does_not():
    """Remark (ii), with estimates wrong by factors 1/2 and 2, from 3 rows, and from the latest 3 rows alone.

    CCAdL: the kinetic temperature is 1 within 5 standard errors over chains in every case (false-alarm rate 6e-7
    each). SGHMC: hotter with half the covariance and colder with twice, by more than 5 standard errors. The shift
    is the one that the SDE predicts, h (1 - f) tr C / (2 A d), within 5 % for the Euler step, which multiplies it
    by 1/(1 - hA/2).
    """
    rows = remarks.wrong_covariance(remarks.problem())
    by_case = {(r["estimate"], r["method"]): r for r in rows}
    for (_, method), row in by_case.items():
        if method == "CCAdL":
            assert abs(row["kinetic_temperature"] - 1) < LIMIT * row["standard_error"], row
    exact = by_case["C", "SGHMC"]
    for estimate in ("C / 2", "2 C"):
        row = by_case[estimate, "SGHMC"]
        shift = row["kinetic_temperature"] - exact["kinetic_temperature"]
        error = np.hypot(row["standard_error"], exact["standard_error"])
        assert abs(row["kinetic_temperature"] - 1) > LIMIT * row["standard_error"], row
        assert abs(shift) > LIMIT * error
        assert abs(shift / (row["predicted"] - 1) - 1) < 0.05 + LIMIT * error / abs(shift)
    noisy = by_case["latest batch, n = 3", "SGHMC"]
    assert noisy["kinetic_temperature"] > 1 + LIMIT * noisy["standard_error"]


@pytest.mark.slow
def test_noise_in_one_direction_heats_it_unless_controlled():
    """Remark (ii): variance in the noisiest direction at h = 0.05, A = 2, s = 0.11. The exact value is 1.

    SGHMC is hotter than SGNHT, and SGNHT than CCAdL, by more than 5 standard errors over chains. CCAdL has the
    variance of its Euler step, 1 - (s/4 + hA/2), within 5 standard errors (false-alarm rate 6e-7) plus the square
    of the correction.
    """
    p, h, A = remarks.problem(), 0.05, 2.0
    values, directions = p.noise(50)
    samplers = [iso.SGHMC(h, A), iso.SGNHT(h, A), iso.CCAdL(h, A, iso.Dense())]
    runs = remarks.sweep(p, samplers, batch_size=50, num_draws=1000, num_chains=64)
    per_chain = np.array([np.mean((d.posterior @ directions[:, 0]) ** 2, axis=1) for d in runs])
    error = per_chain.std(axis=1, ddof=1) / np.sqrt(64)
    sghmc, sgnht, ccadl = per_chain.mean(axis=1)
    assert sghmc - sgnht > LIMIT * np.hypot(error[0], error[1])
    assert sgnht - ccadl > LIMIT * np.hypot(error[1], error[2])
    correction = h**2 * values[0] / 4 + h * A / 2
    assert abs(ccadl - (1 - correction)) < LIMIT * error[2] + correction**2
