"""What samplers say about themselves: limits of s, orders of the bias, thermostats, temperatures, remedies."""

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.samplers.traits import Traits
from isotherm.typed_json import typed
from support.models import normal_mean
from support.table import SAMPLERS

S_LIMITS = {
    "SGLD": 0.25,
    "ModifiedSGLD-dense": 4.0,
    "SGHMC": 0.25,
    "SGHMC-symmetric": 4.0,
    "SGNHT": 0.25,
    "SGNHT-midpoint": 1.0,
    "SGNHT-symmetric": 0.5,
    "CCAdL-dense": 0.25,
    "CCAdL-midpoint": 1.0,
    "CCAdL-symmetric": 4.0,
    "CCAdL-symmetric-low-rank": 4.0,
    "CCAdL-symmetric-matrix-free": 0.5,
    "ModifiedCCAdL": 0.02,
}


@pytest.mark.parametrize("name", S_LIMITS)
def test_largest_s(name):
    assert SAMPLERS[name].traits.s_limit == S_LIMITS[name]


def test_orders_of_the_bias():
    """Second order if the scheme is symmetric and no noise is left to itself."""
    orders = lambda s: (s.traits.bias_order, s.traits.exact_bias_order)
    assert orders(SAMPLERS["CCAdL-symmetric"]) == (2, 2)
    assert orders(SAMPLERS["SGHMC-symmetric"]) == (2, 2)
    assert orders(SAMPLERS["CCAdL-symmetric-low-rank"]) == (1, 2)
    assert orders(SAMPLERS["SGNHT-symmetric"]) == (1, 2)
    for name in (
        "SGLD",
        "ModifiedSGLD-dense",
        "SGHMC-dense",
        "CCAdL-dense",
        "CCAdL-midpoint",
        "ModifiedCCAdL",
    ):
        assert orders(SAMPLERS[name]) == (1, 1)


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_step_at_which_s_is_another(name):
    """s is h^2 C / T with a momentum and 2 h C / T without: at the step that `step_for` gives it is the target."""
    sampler = SAMPLERS[name]
    s = sampler.noise_scale(0) * 7.0
    h = sampler.traits.step_for(sampler.numbers_at(0)[0], s, 0.01)
    changed = eqx.tree_at(lambda x: x.step_size, sampler, jnp.asarray(h, jnp.float32))
    assert changed.noise_scale(0) * 7.0 == pytest.approx(0.01, rel=1e-5)


@pytest.mark.parametrize("name", SAMPLERS)
def test_traits_survive_a_file(name):
    traits = SAMPLERS[name].traits
    assert typed(Traits, json.loads(json.dumps(dataclasses.asdict(traits))), "traits") == traits


def test_the_mean_of_xi():
    """A if the noise is controlled, and larger by the friction of the noise if not (Propositions 1 and 2)."""
    assert iso.CCAdL(0.1, 2.0).traits.thermostat.mean(3.0) == 2.0
    assert iso.SGNHT(0.1, 2.0).traits.thermostat.mean(3.0) == 5.0
    assert iso.SGNHT(0.1, 2.0).traits.thermostat.mean(None) is None
    assert iso.SGNHT(0.1, lambda t: 2.0).traits.thermostat is None
    assert iso.SGNHT(0.1, 2.0, initial_xi=0.0).traits.thermostat.start == 0.0


def test_where_added_noise_is_clipped():
    """SGHMC: A - s/(2h) must not be negative. ModifiedSGLD: neither must 1 - s/4."""
    assert iso.SGHMC(0.1, 2.0, iso.Dense()).traits.clips_above == pytest.approx(0.4, rel=1e-6)
    assert iso.SGHMC(0.1, 2.0).traits.clips_above is None
    assert iso.ModifiedSGLD(0.1, iso.Dense()).traits.clips_above == 4.0


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLERS)
def test_temperatures_of_leaves_agree_with_that_of_all(name):
    """The mean over leaves, weighted by their sizes, is the kinetic temperature that the step reports."""
    posterior, data, _ = normal_mean()
    likelihood = lambda t, d: posterior.log_likelihood(jnp.concatenate([t["a"], t["b"]]), d)
    split = iso.Posterior(likelihood, lambda t: -0.5 * jnp.sum(t["a"] ** 2))
    kernel = iso.extend.Kernel(SAMPLERS[name], iso.Minibatch(split), len(data), batch_size=8)
    key, rows = jax.random.key(0), jnp.asarray(data)
    state = kernel.init({"a": jnp.ones(1), "b": -jnp.ones(1)}, rows, key=key)
    after, info, visit = kernel.step(state, rows, key=key)
    measured = kernel.sampler.temperatures(state, after, visit.position)
    if info.kinetic_temperature is None:
        assert measured.kinetic is None
        return
    np.testing.assert_allclose(jnp.mean(measured.kinetic), info.kinetic_temperature, rtol=1e-5)


def test_symmetric_sghmc_pairs_its_force_with_the_middle():
    """Half a drift before the gradient and half after it: the force belongs to the mean of the two ends."""
    sampler = iso.SGHMC(0.1, 1.0, scheme="symmetric")
    before = sampler.init(jnp.zeros(2), key=jax.random.key(0))
    after = iso.extend.State(jnp.ones(2), 3 * before.momentum, None, None, before.step + 1)
    measured = sampler.temperatures(before, after, jnp.full(2, 7.0))
    np.testing.assert_array_equal(measured.position, 0.5)
    want = (1 + 0.1 / 2) * jnp.mean((2 * before.momentum) ** 2)
    np.testing.assert_allclose(measured.kinetic, [want], rtol=1e-5)
    plain = iso.SGHMC(0.1, 1.0).temperatures(before, after, jnp.full(2, 7.0))
    np.testing.assert_array_equal(plain.position, 7.0)
