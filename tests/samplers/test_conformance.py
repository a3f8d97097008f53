"""What every sampler must support: pytrees, dtypes, jit, vmap, a single trace, the same bits."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm import tree
from isotherm.data.rows import as_rows
from support.table import DYNAMICS, SAMPLERS, every_sampler

# Batches of six rows are too noisy for good draws, which do not matter here.
pytestmark = [
    pytest.mark.filterwarnings("ignore:At the start:isotherm.IsothermWarning"),
    pytest.mark.usefixtures("quick_compilation"),
]

RNG = np.random.default_rng(0)
DATA = {"x": RNG.normal(size=(60, 2)).astype(np.float32), "y": RNG.normal(size=60).astype(np.float32)}


def log_likelihood(params, datum):
    residual = datum["y"] - datum["x"] @ params["w"] - params["rest"][0]
    return -0.5 * residual**2


def log_prior(params):
    return -0.5 * sum(jnp.sum(x**2) for x in jax.tree.leaves(params))


POSTERIOR = iso.Posterior(log_likelihood, log_prior)
INIT = {"w": jnp.zeros(2), "rest": (jnp.zeros(()), jnp.ones((1, 2)))}


def kernel_of(sampler):
    return iso.extend.Kernel(sampler, iso.Minibatch(POSTERIOR), num_data=60, batch_size=6)


@eqx.filter_jit
def run_loop(sampler, key, init=INIT, steps=20):
    """The loop of a user: the kernel in a `lax.scan`. Compiled once per kind of sampler."""
    data, _ = as_rows(DATA)
    kernel = kernel_of(sampler)

    def body(state, _):
        state, info, _visit = kernel.step(state, data, key=key)
        return state, (state.position, info)

    return jax.lax.scan(body, kernel.init(init, data, key=key), length=steps)


@every_sampler
def test_state_keeps_structure_shapes_and_dtypes(name):
    sampler = SAMPLERS[name]
    final, (positions, _) = run_loop(sampler, jax.random.key(0))
    assert jax.tree.structure(final.position) == jax.tree.structure(INIT)
    for before, after in zip(jax.tree.leaves(INIT), jax.tree.leaves(final.position), strict=True):
        assert (before.shape, before.dtype) == (after.shape, after.dtype)
    assert final.step == 20
    assert all(bool(jnp.all(jnp.isfinite(x))) for x in jax.tree.leaves(positions))
    # Every parameter has moved, including the one that only the prior depends on.
    assert all(bool(jnp.all(x[-1] != x[0])) for x in jax.tree.leaves(positions))


@pytest.mark.slow
@every_sampler
def test_float64_chain_stays_float64(name):
    sampler = SAMPLERS[name]
    with jax.enable_x64(True):
        init = jax.tree.map(lambda x: jnp.asarray(np.asarray(x), jnp.float64), INIT)
        final, _ = run_loop(sampler, jax.random.key(0), init=init)
        assert {x.dtype for x in jax.tree.leaves(final.position)} == {jnp.dtype("float64")}


@pytest.mark.slow
@every_sampler
def test_float32_chain_stays_float32_under_x64(name):
    sampler = SAMPLERS[name]
    with jax.enable_x64(True):
        final, _ = run_loop(sampler, jax.random.key(0))
        assert {x.dtype for x in jax.tree.leaves(final.position)} == {jnp.dtype("float32")}


@every_sampler
def test_same_key_repeats_and_another_differs(name):
    sampler = SAMPLERS[name]
    first, again, other = (tree.ravel(run_loop(sampler, jax.random.key(k))[0].position) for k in (1, 1, 2))
    assert jnp.array_equal(first, again)
    assert not jnp.any(first == other)


@pytest.mark.slow
@every_sampler
def test_vmap_over_hyper_parameters_and_chains(name):
    sampler = SAMPLERS[name]

    def final(step_size, key):
        changed = eqx.tree_at(lambda s: s.step_size, sampler, step_size)
        return tree.ravel(run_loop(changed, key)[0].position)

    steps, keys = jnp.asarray([1e-3, 2e-3, 4e-3]), jax.random.split(jax.random.key(0), 3)
    together = eqx.filter_vmap(final)(steps, keys)
    alone = jnp.stack([final(steps[i], jax.random.split(jax.random.key(0), 3)[i]) for i in range(3)])
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5)


@every_sampler
def test_resume_from_a_state_equals_uninterrupted(name):
    sampler = SAMPLERS[name]
    data, _ = as_rows(DATA)
    kernel, key = kernel_of(sampler), jax.random.key(5)
    step = eqx.filter_jit(lambda s: kernel.step(s, data, key=key)[0])
    state = kernel.init(INIT, data, key=key)
    for _ in range(4):
        state = step(state)
    # Through plain arrays, as a checkpoint would.
    leaves, structure = jax.tree.flatten(state)
    revived = jax.tree.unflatten(structure, [jnp.asarray(np.asarray(x)) for x in leaves])
    assert jnp.array_equal(tree.ravel(step(state).position), tree.ravel(step(revived).position))


@pytest.mark.slow
@every_sampler
def test_driver_equals_a_plain_loop(name):
    sampler = SAMPLERS[name]
    seed = jax.random.key(7)
    draws = iso.sample(
        POSTERIOR,
        DATA,
        INIT,
        sampler=sampler,
        batch_size=6,
        num_draws=20,
        num_chains=2,
        seed=seed,
        progress=False,
    )
    for chain in range(2):
        _, (positions, _) = run_loop(sampler, jax.random.fold_in(seed, chain))
        for looped, driven in zip(jax.tree.leaves(positions), jax.tree.leaves(draws.posterior), strict=True):
            np.testing.assert_allclose(driven[chain], looped, rtol=2e-5, atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", DYNAMICS)
def test_schedules_may_replace_scalars(name):
    sampler = SAMPLERS[name]
    names = [name for name in ("step_size", "friction", "temperature") if hasattr(sampler, name)]
    values = [jnp.ones(()) if getattr(sampler, name) is None else getattr(sampler, name) for name in names]

    def final(schedule):
        scheduled = eqx.tree_at(
            lambda s: [getattr(s, name) for name in names],
            sampler,
            [lambda step, v=v: schedule(v, step) for v in values],
            is_leaf=lambda x: x is None,
        )
        return tree.ravel(run_loop(scheduled, jax.random.key(0))[0].position)

    fixed = tree.ravel(run_loop(sampler, jax.random.key(0))[0].position)
    np.testing.assert_allclose(final(lambda v, step: v), fixed, atol=1e-5)
    assert not np.allclose(final(lambda v, step: v / (1 + step)), fixed, atol=1e-3)


@pytest.mark.slow
@every_sampler
def test_one_trace_serves_all_numbers_chunks_and_seeds(name):
    sampler = SAMPLERS[name]
    traces = []

    def counted(params, datum):
        traces.append(1)
        return log_likelihood(params, datum)

    posterior = iso.Posterior(counted, log_prior)

    def call(sampler, seed, burn_in, num_draws, thinning):
        return iso.sample(
            posterior,
            DATA,
            INIT,
            sampler=sampler,
            batch_size=6,
            num_draws=num_draws,
            thinning=thinning,
            burn_in=burn_in,
            num_chains=2,
            seed=seed,
            progress=False,
        )

    call(sampler, 0, 3, 16, 1)
    traced = len(traces)
    # Checks trace the log-likelihood and its gradient, once per call each, without compiling.
    call(sampler, 0, 3, 16, 1)
    per_call = len(traces) - traced
    other = eqx.tree_at(lambda s: s.step_size, sampler, sampler.step_size / 2)
    call(other, 1, 0, 13, 5)
    assert len(traces) - traced == 2 * per_call
    assert per_call <= 2
