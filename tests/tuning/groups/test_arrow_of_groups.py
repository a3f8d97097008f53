"""The parts of the warm-up for groups against dense matrices and automatic derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm import tree
from isotherm.centring import charted
from isotherm.sampling.warmup import prepared
from isotherm.sums import precision
from isotherm.tuning.groups.coordinates import chart_of, frame_of
from isotherm.tuning.groups.derivatives import blocks, prior_blocks
from isotherm.tuning.groups.factor import arrow
from isotherm.tuning.groups.layout import layout_of, pair_index
from isotherm.tuning.groups.marginal import Marginal

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.slow]


def crossed(seed=0, rows=400, patients=12, sites=5):
    """A logistic regression with intercepts and correlated slopes by patient, intercepts by site, and a curve."""
    rng = np.random.default_rng(seed)
    data = {
        "x": rng.normal(size=(rows, 2)).astype(np.float32),
        "basis": rng.normal(size=(rows, 3)).astype(np.float32),
        "patient": rng.integers(patients, size=rows).astype(np.int32),
        "site": rng.integers(sites, size=rows).astype(np.int32),
        "y": rng.integers(2, size=rows).astype(np.float32),
    }

    def log_likelihood(q, row):
        own = q["by_patient"][row["patient"]]
        eta = row["x"] @ q["slopes"] + own[0] + own[1] * row["x"][0] + q["by_site"][row["site"]]
        eta += row["basis"] @ q["curve"]
        return row["y"] * eta - jax.nn.softplus(eta)

    def log_prior(q):
        r = q["r"][0]
        z = q["by_patient"] / q["sd"][None]
        square = (z[:, 0] ** 2 + z[:, 1] ** 2 - 2 * r * z[:, 0] * z[:, 1]) / (1 - r**2)
        value = -0.5 * jnp.sum(square) - patients * (0.5 * jnp.log(1 - r**2) + jnp.sum(jnp.log(q["sd"])))
        value += -0.5 * jnp.sum((q["by_site"] / q["sd_site"]) ** 2) - sites * jnp.log(q["sd_site"])
        value += (
            -0.5 * jnp.sum((q["curve"] / q["sd_curve"]) ** 2) - 3 * jnp.log(q["sd_curve"]) - q["sd_curve"]
        )
        return value - 0.5 * (jnp.sum(q["slopes"] ** 2) + jnp.sum(q["sd"] ** 2) + q["sd_site"] ** 2)

    transforms = {"slopes": None, "by_patient": None, "by_site": None, "sd": iso.Scale()}
    transforms |= {"sd_site": iso.Scale(), "r": iso.Correlations(), "curve": None, "sd_curve": iso.Scale()}
    groups = {
        "by_patient": iso.Group("patient", scale="sd", correlations="r"),
        "by_site": iso.Group("site", scale="sd_site"),
        "curve": iso.Group(scale="sd_curve"),
    }
    posterior = iso.Posterior(log_likelihood, log_prior, transforms=transforms, groups=groups)
    init = {"slopes": np.zeros(2, np.float32), "by_patient": np.zeros((patients, 2), np.float32)}
    init |= {"by_site": np.zeros(sites, np.float32), "sd": np.ones(2, np.float32), "sd_site": 1.0}
    init |= {"curve": np.zeros(3, np.float32), "sd_curve": 1.0}
    return posterior, data, init | {"r": np.zeros(1, np.float32)}


@pytest.fixture
def wide():
    """Posterior, density, rows, a point away from the start, layout and pairs, in float64."""
    posterior, data, init = crossed()
    with precision.float64(), prepared(posterior, data, init) as problem:
        layout = layout_of(posterior, problem.init, problem.data)
        density = precision.widened(problem.density)
        rng = np.random.default_rng(1)
        theta = jax.tree.map(
            lambda x: jnp.asarray(np.asarray(x) + 0.3 * rng.normal(size=x.shape)), problem.init
        )
        pairs = [pair_index(layout, problem.data, i, j) for i, j in layout.pairs]
        yield problem, density, theta, layout, pairs


def ordered(layout, theta):
    """The order of the flattened parameters as outer, head, largest group."""
    index = tree.put_like(np.arange(float(tree.size(theta))), theta)
    return np.concatenate([np.ravel(x) for x in layout.parts.split(index)]).astype(int)


def dense_hessian(density, data, theta):
    f = lambda x: density.log_density(tree.unravel_like(x, theta), data)
    return -np.asarray(jax.hessian(f)(tree.ravel(theta))), -np.asarray(jax.grad(f)(tree.ravel(theta)))


def test_the_factor_is_that_of_the_dense_hessian(wide):
    problem, density, theta, layout, pairs = wide
    rows = blocks(density, problem.data, theta, layout, pairs)
    found = arrow(layout, pairs, rows, prior_blocks(density, theta, layout), 1.0)
    hessian, gradient = dense_hessian(density, problem.data, theta)
    order, k, h = ordered(layout, theta), layout.num_outer, layout.num_head
    inner = order[k:]
    expected = np.linalg.solve(hessian[np.ix_(inner, inner)], -gradient[inner])
    head, group = found.solve(found.gradient)
    np.testing.assert_allclose(np.concatenate([head, group.ravel()]), expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.outer_gradient, -gradient[order[:k]], rtol=1e-9)
    np.testing.assert_allclose(
        found.outer_hessian, -hessian[np.ix_(order[:k], order[:k])], rtol=1e-8, atol=1e-9
    )
    by_outer = np.concatenate([found.by_outer[0], found.by_outer[1].reshape(-1, k)])
    np.testing.assert_allclose(by_outer, -hessian[np.ix_(inner, order[:k])], rtol=1e-8, atol=1e-9)
    eye = np.eye(len(inner))
    shape = (*found.group_root.shape[:2], len(inner))
    columns = found.spread((eye[:h], eye[h:].reshape(shape)))
    root = np.concatenate([columns[0], columns[1].reshape(-1, len(inner))])
    np.testing.assert_allclose(root @ root.T @ hessian[np.ix_(inner, inner)], eye, atol=1e-7)


def test_in_the_coordinates_the_hessian_given_the_outer_parameters_is_the_identity(wide):
    problem, density, theta, layout, pairs = wide
    center = Marginal(density, problem.data, layout, pairs, seed=0).center(theta)
    chart = chart_of(problem, layout, pairs, center)
    frame = frame_of(layout, pairs, center, chart)
    target = charted(density, chart)
    zero = jnp.zeros(tree.size(theta))
    f = lambda v: target.log_density(frame.to_params(tree.unravel_like(v, theta)), problem.data)
    hessian = -np.asarray(jax.hessian(f)(zero))
    order, k = ordered(layout, theta), layout.num_outer
    inner = order[k:]
    # The center is within 0.03 sd of the conditional mode, so its Hessian is not quite that of the arrow.
    np.testing.assert_allclose(hessian[np.ix_(inner, inner)], np.eye(len(inner)), atol=0.02)
    assert np.all(np.abs(hessian[np.ix_(inner, order[:k])]) < 0.1)


def test_there_and_back(wide):
    problem, density, theta, layout, pairs = wide
    center = Marginal(density, problem.data, layout, pairs, seed=0).center(theta)
    chart = chart_of(problem, layout, pairs, center)
    frame = frame_of(layout, pairs, center, chart)
    v = tree.normal_like(theta, key=jax.random.key(0))
    back = frame.from_params(frame.to_params(v))
    np.testing.assert_allclose(tree.ravel(back), tree.ravel(v), rtol=1e-6, atol=1e-6)
    pulled = frame.multiply_transposed(v)
    by_autodiff = jax.vjp(frame.multiply, theta)[1](v)[0]
    np.testing.assert_allclose(tree.ravel(pulled), tree.ravel(by_autodiff), rtol=1e-6, atol=1e-8)
    free = frame.to_params(v)
    again = chart.free(chart.constrained(free))
    np.testing.assert_allclose(tree.ravel(again), tree.ravel(free), rtol=1e-5, atol=1e-6)
    jacobian = jax.jacobian(lambda x: tree.ravel(chart.centred(tree.unravel_like(x, theta))))(
        tree.ravel(free)
    )
    np.testing.assert_allclose(chart.log_stretch(free), np.linalg.slogdet(jacobian)[1], rtol=1e-6)


def test_a_normal_model_is_isotropic_whatever_its_scales_are():
    """Given the scales the coordinates are standard normal: at others as well, but for the head's own spread."""
    from support.grouped import normal_groups

    posterior, data, init = normal_groups(10, 3)
    with precision.float64(), prepared(posterior, data, init) as problem:
        layout = layout_of(posterior, problem.init, problem.data)
        density, start = precision.widened(problem.density), precision.widened(problem.init)
        center = Marginal(density, problem.data, layout, [], seed=0).center(start)
        chart = chart_of(problem, layout, [], center)
        frame = frame_of(layout, [], center, chart)
        target = charted(density, chart)
        order, k, h = ordered(layout, start), layout.num_outer, layout.num_head
        for outer in ([0.0, 0.0], [-2.0, 1.0], [2.0, -2.0]):
            v0 = np.zeros(tree.size(start))
            v0[order[:k]] = outer
            f = lambda v: target.log_density(frame.to_params(tree.unravel_like(v, start)), problem.data)
            hessian = -np.asarray(jax.hessian(f)(jnp.asarray(v0)))
            levels = order[k + h :]
            np.testing.assert_allclose(hessian[np.ix_(levels, levels)], np.eye(len(levels)), atol=1e-4)
            assert np.all(np.abs(hessian[np.ix_(levels, order[k : k + h])]) < 1e-3)
