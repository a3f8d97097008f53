"""Control variates for effects of groups: on all rows they are the plain density, and batches are unbiased."""

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from isotherm import tree
from isotherm.centring import charted
from isotherm.chains.stored import known_objects
from isotherm.data.plans import WithReplacement
from isotherm.gradients.arrow_variate import AlwaysUsed
from isotherm.kernel import Kernel
from isotherm.preconditioner import in_coordinates
from isotherm.records import Batch, Needs
from isotherm.samplers import CCAdL
from isotherm.sampling.warmup import prepared
from isotherm.store import plain
from isotherm.sums import precision
from isotherm.tuning.groups.coordinates import chart_of, frame_of
from isotherm.tuning.groups.expansion import expansion
from isotherm.tuning.groups.layout import layout_of, pair_index
from isotherm.tuning.groups.marginal import Marginal
from isotherm.tuning.groups.tune import _as_dtype
from support.grouped import crossed_groups, normal_groups

# Slow, since second derivatives of the chart take long to compile.
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_compilation")]


def expanded(posterior, data, init, *, narrow=False):
    """Return the problem, control variates, the plain density of v, and both as functions of v in the same precision.

    With `narrow` all of them are in float32, as in chains.
    """
    with precision.float64(), prepared(posterior, data, init) as problem:
        layout = layout_of(posterior, problem.init, problem.data)
        density, start = precision.widened(problem.density), precision.widened(problem.init)
        pairs = [pair_index(layout, problem.data, i, j) for i, j in layout.pairs]
        center = Marginal(density, problem.data, layout, pairs, seed=0).center(start)
        chart = chart_of(problem, layout, pairs, center)
        frame = frame_of(layout, pairs, center, chart)
        rounded = [precision.widened(_as_dtype(x, np.dtype(np.float32))) for x in (chart, frame)]
        gradient = expansion(density, problem.data, layout, pairs, *rounded)
        plain = in_coordinates(charted(density, rounded[0]), rounded[1])
        if narrow:
            gradient = eqx.tree_at(lambda g: g.posterior, gradient, problem.density)
            gradient = _as_dtype(gradient, np.dtype(np.float32))
        return problem, gradient, plain


def at_random(like, *, seed=1, dtype=np.float64):
    """A position of the chains: standard normal."""
    v = np.random.default_rng(seed).standard_normal(tree.size(like))
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), tree.put_like(v, like))


def force_of(density, v, data):
    return tree.flat(value_and_force(density, v, data)[1])


@eqx.filter_jit
def value_and_force(density, v, data):
    return jax.value_and_grad(lambda x: density.log_density(x, data))(v)


@eqx.filter_jit
def estimate(gradient, v, batch, needs, key):
    found = gradient(v, batch, needs=needs, key=key)
    x = tree.multiply(2.0, v)
    return found.force, found.contrasts, None if found.operator is None else found.operator.mv(x)


def always_of(gradient, data, levels):
    """Use the rows of some levels of the largest group in every step."""
    factor = gradient.sums.factors[-1]
    column = jax.tree.leaves(data)[factor.column]
    mask = np.zeros(factor.gradient.shape[0], bool)
    mask[levels] = True
    rows = jax.tree.map(lambda x: x[np.flatnonzero(mask[np.asarray(column)])], data)
    always = AlwaysUsed(rows, (factor.column,), (jnp.asarray(mask),))
    return eqx.tree_at(lambda g: g.always, gradient, always, is_leaf=lambda x: x is None)


@pytest.fixture(scope="module")
def crossed():
    return expanded(*crossed_groups())


def test_on_all_rows_the_density_is_the_plain_one(crossed):
    problem, gradient, plain = crossed
    with precision.float64():
        v = at_random(gradient.anchor)
        for g in (gradient, always_of(gradient, problem.data, [0, 3])):
            found, expected = (value_and_force(x, v, problem.data) for x in (g.expanded, plain))
            np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
            np.testing.assert_allclose(tree.flat(found[1]), tree.flat(expected[1]), atol=1e-11)


def test_at_the_anchor_batches_have_no_noise(crossed):
    problem, gradient, plain = crossed
    with precision.float64():
        v, rows = tree.put_zeros_like(gradient.anchor), jax.tree.map(lambda x: x[:8], problem.data)
        batch = Batch(rows, jnp.arange(8), problem.num_data, 1.0)
        force, contrasts, _ = estimate(gradient, v, batch, Needs(contrasts=1), jax.random.key(0))
        np.testing.assert_allclose(tree.flat(force), force_of(plain, v, problem.data), atol=1e-10)
        np.testing.assert_allclose(tree.flat(contrasts), 0, atol=1e-10)


def test_batches_are_unbiased_and_their_contrasts_have_the_covariance_of_their_noise(crossed):
    """4,000 batches: errors of means and of the trace are compared with their own spread, 4.5 of it.

    With 34 numbers that is a false alarm in 1 of 4,000 seeds; the seed is fixed.
    """
    problem, gradient, plain = crossed
    gradient = always_of(gradient, problem.data, [1])
    with precision.float64():
        v = at_random(gradient.anchor)
        sampler = CCAdL(0.1, 1.0)
        kernel = Kernel(
            sampler,
            gradient,
            problem.num_data,
            16,
            WithReplacement(),
            gradient.preconditioner,
            gradient.chart,
        )

        @jax.jit
        def one(key):
            rows, chain, signs = jax.random.split(key, 3)
            batch = kernel.batch(problem.data, jnp.asarray(0), key=rows, chain_key=chain)
            found = kernel.estimate(v, batch, needs=Needs(contrasts=1), key=signs)
            return tree.ravel(found.force), tree.ravel(found.contrasts)

        forces, contrasts = jax.lax.map(one, jax.random.split(jax.random.key(3), 4000))
        errors = np.asarray(forces) - force_of(plain, v, problem.data)
        assert np.all(np.abs(errors.mean(axis=0)) < 4.5 * errors.std(axis=0) / len(errors) ** 0.5 + 1e-12)
        difference = np.sum(errors**2, axis=1) - np.sum(np.asarray(contrasts) ** 2, axis=1)
        assert abs(difference.mean()) < 4.5 * difference.std() / len(errors) ** 0.5


def test_the_operator_is_the_mean_of_exact_contrasts(crossed):
    problem, gradient, _ = crossed
    with precision.float64():
        v = at_random(gradient.anchor)
        rows = jax.tree.map(lambda x: x[:16], problem.data)
        batch = Batch(rows, jnp.arange(16), problem.num_data, 1.0)
        needs = Needs(contrasts="exact", operator=True)
        _, contrasts, product = estimate(gradient, v, batch, needs, jax.random.key(0))
        z = np.stack([tree.flat(jax.tree.map(lambda y, i=i: y[i], contrasts)) for i in range(16)])
        expected = z.T @ (z @ tree.flat(v)) / 16
        np.testing.assert_allclose(tree.flat(product) / 2, expected, rtol=1e-8, atol=1e-12)


def test_a_kernel_is_stored_and_read_back(crossed):
    """The density of the chains' coordinates is not stored: it follows from that of the free parameters."""
    problem, gradient, _ = crossed
    with precision.float64():
        gradient = dataclasses.replace(always_of(gradient, problem.data, [1]), posterior=problem.density)
        after = dataclasses.replace(problem, density=charted(problem.density, gradient.chart))
        frame, sampler = gradient.preconditioner, CCAdL(0.1, 1.0)
        kernel = Kernel(sampler, gradient, problem.num_data, 16, WithReplacement(), frame, gradient.chart)
        node, arrays = plain.encode(kernel, known_objects(after))
        assert plain.opaque(node) == []
        again = plain.decode(json.loads(json.dumps(node)), arrays, known_objects(problem))
        assert again.gradient.posterior is problem.density
        assert eqx.tree_equal(again, kernel)


def test_float32_holds_the_force_with_raw_columns_and_levels_with_thousands_of_rows():
    """A column 2000 +- 10, and levels with 2,000 rows: rounding moves the force by less than 0.003 sd.

    The coefficients are correlated so closely that their distances from the anchor cancel to one part in 200, which
    is 2000 / 10: 200 roundings of 6e-8, times a few for the products, are below 1e-4 in y. The differences in the
    remainders of 2e4 rows round by 6e-8 each, and add up to 2e-5 or so.
    """
    posterior, rows, init = normal_groups(10, 2000)
    rows["x"] = (2000 + 10 * rows["x"]).astype(np.float32)
    problem, gradient, plain = expanded(posterior, rows, init, narrow=True)
    with precision.float64():
        v = at_random(gradient.anchor)
        expected = force_of(plain, v, problem.data)
    narrow = at_random(gradient.anchor, dtype=np.float32)
    found = force_of(gradient.expanded, narrow, problem.data)
    assert np.max(np.abs(found - expected)) < 0.003
