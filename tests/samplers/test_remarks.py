"""The paper's remarks (i) and (ii): SGHMC's friction, and momenta under a wrong covariance.

A cheaper version of `benchmarks/remarks.py`, whose problem and loops it uses: a linear regression, exactly
N(0, I), with gradient noise four times as strong in one direction as in the others.
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
    """C known: just above A = beta h lambda_max(C M^-1) / 2 no step is clipped, just below each."""
    bound = h / temperature * np.max(np.linalg.eigvals(NOISE / np.asarray(MASS)).real) / 2
    for factor, count in ((1.001, 0), (0.999, 50)):
        sampler = iso.SGHMC(h, factor * bound, iso.Dense(), mass=MASS, temperature=temperature)
        assert clipped_steps(sampler) == count


def visited(sampler, start, keys, num_steps=200):
    """Positions where the gradient was taken, from rest: (chains, steps, d)."""
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
@pytest.mark.parametrize("controlled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_sghmc_with_friction_1_over_h_is_sgld_with_step_h_squared(controlled):
    """Remark (i): p loses all memory, so the path is that of (modified) SGLD, up to rounding."""
    h, start = 0.1, jnp.full(remarks.DIMENSION, 0.5)
    covariance = iso.Dense() if controlled else None
    langevin = iso.ModifiedSGLD(h**2, covariance) if controlled else iso.SGLD(h**2)
    keys = jax.random.split(jax.random.key(2), 4)
    heavy, light = visited(iso.SGHMC(h, 1 / h, covariance), start, keys), visited(langevin, start, keys)
    assert np.ptp(light[:, :, 0]) > 1
    np.testing.assert_allclose(heavy, light, atol=2e-4)


@pytest.mark.slow
def test_sghmc_slows_down_as_sgld_does():
    """Remark (i): at every A the autocorrelation time is that of SGLD with step h / A, 2 A / h steps.

    Each time is a variance of chain means over 64 chains in 6 directions, so has relative error sqrt(2/384),
    7 %; the band is 5 of them, false alarm 6e-7 each.
    """
    rows = remarks.overdamped(remarks.problem(), frictions=(2.0, 10.0), num_draws=800)
    for row in rows:
        want = 2 * row["A"] / 0.1
        for time in (row["sghmc_time"], row["sgld_time"]):
            assert abs(time / want - 1) < LIMIT * np.sqrt(2 / 384)
    assert rows[1]["sghmc_variance"] < rows[0]["sghmc_variance"]


@pytest.mark.slow
def test_ccadl_keeps_its_temperature_under_a_wrong_covariance_and_sghmc_does_not():
    """Remark (ii), with estimates wrong by 1/2 and 2, from 3 rows, and from the latest 3 rows alone.

    CCAdL: kinetic temperature 1 to 5 standard errors over chains, in every case (6e-7 each). SGHMC: hotter
    with half the covariance and colder with twice, by more than 5 standard errors, and by as much as the SDE
    predicts, h (1 - f) tr C / (2 A d), up to 5 % for the Euler step, which multiplies it by 1/(1 - hA/2).
    """
    rows = remarks.wrong_covariance(remarks.problem())
    found = {(r["estimate"], r["method"]): r for r in rows}
    for (_, method), row in found.items():
        if method == "CCAdL":
            assert abs(row["kinetic_temperature"] - 1) < LIMIT * row["standard_error"], row
    right = found["C", "SGHMC"]
    for estimate in ("C / 2", "2 C"):
        row = found[estimate, "SGHMC"]
        shift = row["kinetic_temperature"] - right["kinetic_temperature"]
        error = np.hypot(row["standard_error"], right["standard_error"])
        assert abs(row["kinetic_temperature"] - 1) > LIMIT * row["standard_error"], row
        assert abs(shift) > LIMIT * error
        assert abs(shift / (row["predicted"] - 1) - 1) < 0.05 + LIMIT * error / abs(shift)
    poor = found["latest batch, n = 3", "SGHMC"]
    assert poor["kinetic_temperature"] > 1 + LIMIT * poor["standard_error"]


@pytest.mark.slow
def test_noise_in_one_direction_heats_it_unless_controlled():
    """Remark (ii): variance of the noisiest direction at h = 0.05, A = 2, s = 0.11, where 1 is right.

    Each method is hotter than the next by more than 5 standard errors over chains, and CCAdL is where its
    Euler step puts it, 1 - (s/4 + hA/2), to 5 standard errors (6e-7) and the square of the correction.
    """
    p, h, A = remarks.problem(), 0.05, 2.0
    values, directions = p.noise(50)
    samplers = [iso.SGHMC(h, A), iso.SGNHT(h, A), iso.CCAdL(h, A, iso.Dense())]
    runs = remarks.sweep(p, samplers, batch_size=50, num_draws=1000, num_chains=64)
    per_chain = np.array([np.mean((d.posterior @ directions[:, 0]) ** 2, axis=1) for d in runs])
    error = per_chain.std(axis=1, ddof=1) / np.sqrt(64)
    hmc, nht, controlled = per_chain.mean(axis=1)
    assert hmc - nht > LIMIT * np.hypot(error[0], error[1])
    assert nht - controlled > LIMIT * np.hypot(error[1], error[2])
    correction = h**2 * values[0] / 4 + h * A / 2
    assert abs(controlled - (1 - correction)) < LIMIT * error[2] + correction**2
