"""The symmetric scheme of SGNHT and CCAdL, A D O D A before the gradient and K after it, letter by letter.

The numbers are those of `one_step.py`. A drift from p and one from -p, with the same key, have the same xi and the
same noise: their difference gives the friction and their sum the noise. K adds no noise, so it consists of two
matrices, on the momentum and on the force, which are compared to rounding.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm import tree
from support.one_step import (
    BATCH,
    DIAGONAL,
    KEYS,
    MASS,
    MU,
    ROUNDING,
    STEP,
    THERMOSTAT,
    THETA,
    XI,
    A,
    C,
    D,
    F,
    P,
    T,
    assert_covariance,
    h,
    kick,
    shaped,
    state_of,
)

SAMPLERS = {
    "SGNHT": (iso.SGNHT, {}, np.zeros((D, D))),
    "CCAdL-dense": (iso.CCAdL, {"covariance": iso.Dense()}, C),
    "CCAdL-diagonal": (iso.CCAdL, {"covariance": iso.Diagonal()}, DIAGONAL),
    "CCAdL-low-rank": (iso.CCAdL, {"covariance": iso.DiagonalLowRank(D)}, C),
}
IDENTITY = np.eye(D)

pytestmark = pytest.mark.usefixtures("quick_compilation")


def make(name, **settings):
    kind, options, covariance = SAMPLERS[name]
    return kind(**(THERMOSTAT | {"scheme": "symmetric"} | options | settings)), covariance


def kinetic(p):
    """p' M^-1 p - N_d T, in float64."""
    p = np.asarray(p, np.float64)
    return p @ (p / MASS) - D * T


@pytest.mark.parametrize("name", ["SGNHT", "CCAdL-dense"])
def test_drift(name):
    """Half a drift and half a step of xi with the old momentum, and both again with the momentum after O."""
    sampler, _ = make(name)
    before = state_of(sampler, THETA, P)
    after = sampler.drift(before, key=jax.random.key(1))
    mirrored = sampler.drift(state_of(sampler, THETA, -P), key=jax.random.key(1))
    half = XI + h / (2 * MU) * kinetic(P)
    p, q = (np.asarray(tree.ravel(x.momentum), np.float64) for x in (after, mirrored))
    np.testing.assert_allclose(p - q, 2 * np.exp(-half * h) * P, **ROUNDING)
    assert np.abs(p + q).max() > 0.1
    np.testing.assert_allclose(float(after.xi), half + h / (2 * MU) * kinetic(p), **ROUNDING)
    np.testing.assert_allclose(tree.ravel(after.position), THETA + h / 2 * (P + p) / MASS, **ROUNDING)
    assert int(after.step) == STEP
    jax.tree.map(np.testing.assert_array_equal, after.covariance, before.covariance)


def damped(xi, p, count, seed):
    """Return momenta after O, (count, d), with xi held constant by an infinite thermal mass."""
    sampler, _ = make("SGNHT", thermal_mass=np.inf)

    def one(key):
        state = sampler.drift(state_of(sampler, THETA, p, xi), key=key)
        return tree.ravel(state.momentum), state.xi

    momenta, after = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(seed), count))
    np.testing.assert_array_equal(after, np.float32(xi))
    return np.asarray(momenta, np.float64)


@pytest.mark.parametrize("xi", [0.0, 1e-7, -1e-7, 1e-3, XI, -0.8, 30.0])
def test_friction_and_noise_are_exact_for_any_xi(xi):
    """Mean e^(-xi h) p and covariance A T M (1 - e^(-2 xi h))/xi, which is 2 h A T M at xi = 0.

    The root of the noise depends on xi only by a factor, so the ratio of two runs with the same keys gives the factor
    to rounding. Its size at xi = 0 is compared to Monte Carlo error.
    """
    p, q = damped(xi, P, 200, 2), damped(xi, -P, 200, 2)
    np.testing.assert_allclose((p - q) / 2, np.broadcast_to(np.exp(-xi * h) * P, p.shape), **ROUNDING)
    free = damped(0.0, np.zeros(D), 200, 2)
    share = 1.0 if xi == 0 else -np.expm1(-2 * xi * h) / (2 * xi * h)
    np.testing.assert_allclose((p + q) / 2, np.sqrt(share) * free, **ROUNDING)


def test_noise_at_zero_xi_and_at_its_mean():
    """2 h A T M at xi = 0, and T M (1 - e^(-2 A h)), which preserves N(0, T M), at xi = A. 5 standard errors."""
    assert_covariance(damped(0.0, np.zeros(D), KEYS, 3), 2 * h * A * T * np.diag(MASS))
    assert_covariance(damped(A, np.zeros(D), KEYS, 4), -np.expm1(-2 * A * h) * T * np.diag(MASS))


@pytest.mark.parametrize("name", SAMPLERS)
def test_kick(name):
    """p' = (I + S/4)^-1 [(I - S/4) p + h F], S = h^2 beta C M^-1; theta and xi stay; no noise is added."""
    sampler, covariance = make(name)
    state, info = kick(sampler, THETA, P, F, jax.random.key(4))
    S = h**2 / T * covariance @ np.diag(1 / MASS)
    want = np.linalg.solve(IDENTITY + S / 4, (IDENTITY - S / 4) @ P + h * F)
    np.testing.assert_allclose(tree.ravel(state.momentum), want, **ROUNDING)
    np.testing.assert_array_equal(tree.ravel(state.position), np.float32(THETA))
    assert float(state.xi) == float(info.xi) == np.float32(XI)
    assert int(state.step) == STEP + 1
    np.testing.assert_allclose(float(info.kinetic_temperature), (kinetic(want) / D + T), **ROUNDING)
    assert info.clipped is None
    if name != "SGNHT":
        assert int(state.covariance.count) == 2


def test_matrix_free_kick():
    """p + (I + Sbar/4)^-1 (h F - (S_t/2) p): S_t of this batch, Sbar the running diagonal."""
    sampler, _ = make("CCAdL-dense", covariance=iso.MatrixFree())
    state, _ = kick(sampler, THETA, P, F, jax.random.key(4))
    batch, running = (h**2 / T * x @ np.diag(1 / MASS) for x in (BATCH, DIAGONAL))
    want = P + np.linalg.solve(IDENTITY + running / 4, h * F - batch @ P / 2)
    np.testing.assert_allclose(tree.ravel(state.momentum), want, **ROUNDING)


def test_exponential_kick():
    """p' = e^(-S/4) [e^(-S/4) p + h F]. S is 0.52 at most: a Taylor polynomial of degree 3 in S/16 leaves 4e-7."""
    sampler, _ = make("CCAdL-dense", scheme="exponential")
    state, _ = kick(sampler, THETA, P, F, jax.random.key(4))
    values, vectors = np.linalg.eig(h**2 / T * C @ np.diag(1 / MASS))
    half = (vectors @ np.diag(np.exp(-values / 4)) @ np.linalg.inv(vectors)).real
    np.testing.assert_allclose(tree.ravel(state.momentum), half @ (half @ P + h * F), **ROUNDING)
    np.testing.assert_array_equal(tree.ravel(state.position), np.float32(THETA))


def kicks(sampler, contrasts):
    """Return the matrices of K on momentum and on force, with these contrasts in the average, in float64."""
    with jax.enable_x64(True):
        wide = lambda x: jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float64), x)
        sampler = eqx.tree_at(lambda s: s.mass, sampler, wide(sampler.mass))
        unit = lambda v: wide(shaped(v))
        z = jax.vmap(lambda v: tree.unravel_like(v, unit(np.zeros(D))))(jnp.asarray(contrasts))

        def one(p, force):
            start = sampler.init(unit(THETA), key=jax.random.key(5))
            state = iso.extend.State(
                start.position, unit(p), jnp.asarray(XI), start.covariance, jnp.asarray(STEP)
            )
            estimate = iso.extend.GradientEstimate(unit(force), z, jnp.zeros(()))
            after, _ = sampler.kick(state, estimate, key=jax.random.key(6))
            return np.asarray(tree.ravel(after.momentum))

        zero = np.zeros(D)
        columns = [(one(e, zero), one(zero, e)) for e in IDENTITY]
    return (np.column_stack(side) for side in zip(*columns, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["CCAdL-dense", "CCAdL-diagonal", "CCAdL-low-rank"])
def test_kick_leaves_the_thermal_momentum_for_every_s(name):
    """K T M K' + G C G' = T M with gradient noise C, for S with eigenvalues from 0.1 to 10; float64 rounding.

    Explicit damping in place of K would give 1/(1 - s/4): 1.03 at s = 0.1, and no stationary state from s = 4 on.
    """
    root = np.sqrt(MASS)
    turned = (
        IDENTITY
        if name == "CCAdL-diagonal"
        else np.linalg.qr(np.random.default_rng(1).normal(size=(D, D)))[0]
    )
    white = turned @ np.diag([0.1, 0.7, 3.0, 10.0]) @ turned.T * T / h**2
    noise = white * np.outer(root, root)
    sampler, _ = make(name)
    contrasts = np.sqrt(D) * np.linalg.cholesky(noise).T
    K, G = kicks(sampler, contrasts)
    thermal = T * np.diag(MASS)
    S = h**2 / T * noise @ np.diag(1 / MASS)
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(S).real), [0.1, 0.7, 3.0, 10.0])
    np.testing.assert_allclose(K @ thermal @ K.T + G @ noise @ G.T, thermal, atol=1e-7)
    assert np.abs(K @ thermal @ K.T - thermal).max() > 0.1
