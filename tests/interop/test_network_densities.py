"""The densities of networks: likelihoods against SciPy, priors against hand calculation, finite gradients."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from scipy import stats

import isotherm as iso
from isotherm.interop.likelihoods import likelihood_of
from support.networks import SMALL, Perceptron, X, lenient_ranks, small_programs  # noqa: F401

RNG = np.random.default_rng(1)
OUTPUTS = RNG.normal(size=(5, 3)).astype(np.float32)
COUNTS = np.asarray([[0, 1, 7], [2, 0, 0], [1, 1, 1], [3, 0, 2], [0, 0, 4]])
CLASSES = np.asarray([0, 2, 1, 1, 2])
WIDE = OUTPUTS.astype(np.float64)
DENSITIES = {
    "gaussian of unknown scale": (
        ("gaussian", None, {"log_scale": 0.3}),
        OUTPUTS[::-1],
        stats.norm.logpdf(WIDE[::-1], WIDE, np.exp(0.3)).sum(axis=1),
        WIDE,
    ),
    "gaussian": (
        ("gaussian", 0.5, {}),
        OUTPUTS[::-1],
        stats.norm.logpdf(WIDE[::-1], WIDE, 0.5).sum(axis=1),
        WIDE,
    ),
    "categorical": (
        ("categorical", None, {}),
        CLASSES,
        [
            stats.multinomial.logpmf(np.eye(3)[k], 1, np.exp(o) / np.exp(o).sum())
            for o, k in zip(WIDE, CLASSES, strict=True)
        ],
        np.exp(WIDE) / np.exp(WIDE).sum(axis=1, keepdims=True),
    ),
    "bernoulli": (
        ("bernoulli", None, {}),
        COUNTS > 0,
        stats.bernoulli.logpmf(COUNTS > 0, 1 / (1 + np.exp(-WIDE))).sum(axis=1),
        1 / (1 + np.exp(-WIDE)),
    ),
    "poisson": (
        ("poisson", None, {}),
        COUNTS,
        stats.poisson.logpmf(COUNTS, np.exp(WIDE)).sum(axis=1),
        np.exp(WIDE),
    ),
}


@pytest.mark.parametrize(("given", "y", "expected", "mean"), DENSITIES.values(), ids=DENSITIES.keys())
def test_likelihoods_are_those_of_scipy(given, y, expected, mean):
    kind, scale, extra = given
    likelihood = likelihood_of(kind, scale=scale, extra=None)
    assert likelihood.extra.keys() == extra.keys()
    with jax.numpy_rank_promotion("raise"):
        extra = {name: jnp.asarray(x) for name, x in extra.items()}
        density = likelihood.density(jnp.asarray(OUTPUTS), jnp.asarray(y), extra)
    np.testing.assert_allclose(density, expected, rtol=2e-5)
    np.testing.assert_allclose(likelihood.mean(jnp.asarray(OUTPUTS)), mean, rtol=2e-5)


@pytest.mark.parametrize("kind", ["gaussian", "bernoulli", "poisson"])
def test_one_output_may_have_an_extra_axis(kind):
    """Broadcasting (n, 1) against (n,) would give n^2 numbers."""
    likelihood = likelihood_of(kind, scale=None, extra=None)
    y, outputs = jnp.asarray([0.0, 1.0, 1.0]), jnp.asarray([0.1, 0.2, -0.3])
    flat = likelihood.density(outputs, y, likelihood.extra)
    np.testing.assert_array_equal(likelihood.density(outputs[:, None], y, likelihood.extra), flat)
    with pytest.raises(ValueError, match="`outputs` must be of the shape of y"):
        likelihood.density(outputs[:, None], y[:2], likelihood.extra)


@pytest.mark.parametrize(
    ("kind", "y"),
    [("categorical", 3), ("categorical", -1), ("bernoulli", -1), ("poisson", -1), ("poisson", 0.5)],
)
def test_a_label_outside_the_support_is_refused(kind, y):
    outputs = 3 if kind == "categorical" else "scalar"
    net = iso.interop.equinox.posterior(eqx.nn.Linear(3, outputs, key=jax.random.key(0)), kind)
    data = {"x": X, "y": np.full(12, y)}
    with pytest.raises(ValueError, match="log-likelihood of row 0 is nan"):
        iso.sample(net.posterior, data, net.init, **SMALL)


def test_a_user_defined_likelihood_may_have_parameters():
    laplace = lambda outputs, y, extra: -jnp.abs(y - outputs[:, 0]) / extra["b"] - jnp.log(2 * extra["b"])
    linear = eqx.nn.Linear(3, 1, key=jax.random.key(0))
    net = iso.interop.equinox.posterior(linear, laplace, extra={"b": 0.7}, prior={"b": 0.5})
    rows = {"x": jnp.asarray(X), "y": jnp.asarray(X[:, 0])}
    expected = stats.laplace.logpdf(X[:, 0], np.asarray(net.apply(net.init, rows["x"]))[:, 0], 0.7)
    np.testing.assert_allclose(net.posterior.row_log_likelihoods(net.init, rows), expected, rtol=1e-5)
    assert net.posterior.log_prior.scales == pytest.approx({"weight": 3**-0.5, "bias": 1.0, "b": 0.5})
    with pytest.raises(ValueError, match="Use `apply`"):
        net.mean(net.init, rows["x"])


def by_hand(net, scales):
    assert scales.keys() == net.init.keys()
    return sum(stats.norm.logpdf(np.asarray(net.init[name]), 0, s).sum() for name, s in scales.items())


DEFAULT = {"layers.0.weight": 3**-0.5, "layers.0.bias": 1.0, "layers.2.weight": 0.5, "layers.2.bias": 1.0}
PRIORS = {
    "default": (1.0, {}),
    "number": (2.0, {"layers.0.weight": 2 * 3**-0.5, "layers.2.weight": 1.0}),
    "layer": ({"layers.0": 0.1}, {"layers.0.weight": 0.1, "layers.0.bias": 0.1}),
    "longest": (
        {"layers.0.bias": 3.0, "layers": 0.1},
        dict.fromkeys(DEFAULT, 0.1) | {"layers.0.bias": 3.0},
    ),
}


@pytest.mark.parametrize(("prior", "changes"), PRIORS.values(), ids=PRIORS.keys())
def test_priors_are_normals_of_the_scales_asked_for(prior, changes):
    net = iso.interop.equinox.posterior(Perceptron(), "gaussian", prior=prior)
    expected = by_hand(net, DEFAULT | {"log_scale": 1.0} | changes)
    assert float(net.posterior.log_prior(net.init)) == pytest.approx(expected, rel=1e-5)


def test_a_prior_may_be_a_function():
    net = iso.interop.equinox.posterior(
        Perceptron(), "gaussian", prior=lambda p: -jnp.sum(jnp.abs(p["layers.0.bias"]))
    )
    expected = -float(jnp.sum(jnp.abs(net.init["layers.0.bias"])))
    assert float(net.posterior.log_prior(net.init)) == pytest.approx(expected)


def test_fan_in_by_the_kind_of_layer_in_equinox():
    keys = jax.random.split(jax.random.key(0), 3)
    layers = [
        eqx.nn.Embedding(7, 4, key=keys[0]),
        eqx.nn.Conv2d(2, 5, 3, key=keys[1]),
        eqx.nn.LayerNorm(5),
        eqx.nn.GRUCell(4, 2, key=keys[2]),
    ]
    net = iso.interop.equinox.posterior(layers, "gaussian", scale=1.0, forward=lambda layers, x: x[0])
    ones = ("0.weight", "1.bias", "2.weight", "2.bias", "3.bias", "3.bias_n")
    scales = {"1.weight": 18**-0.5, "3.weight_ih": 0.5, "3.weight_hh": 2**-0.5, **dict.fromkeys(ones, 1.0)}
    assert net.posterior.log_prior.scales == pytest.approx(scales)


def test_fan_in_by_the_kind_of_layer_in_flax():
    rngs = nnx.Rngs(0)
    layers = nnx.Sequential(
        nnx.Embed(7, 4, rngs=rngs),
        nnx.Conv(2, 5, (3, 3), rngs=rngs),
        nnx.LayerNorm(5, rngs=rngs),
        nnx.MultiHeadAttention(2, 4, 6, rngs=rngs, decode=False),
    )
    net = iso.interop.flax.posterior(layers, "gaussian", scale=1.0)
    scales = net.posterior.log_prior.scales
    expected = {
        "layers.0.embedding": 1.0,
        "layers.1.kernel": 18**-0.5,
        "layers.1.bias": 1.0,
        "layers.2.scale": 1.0,
    }
    expected |= {"layers.3.query.kernel": 0.5, "layers.3.out.kernel": 6**-0.5, "layers.3.query.bias": 1.0}
    assert {name: scales[name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["gaussian", "categorical", "bernoulli", "poisson"])
def test_gradients_are_finite_at_outputs_of_any_size(kind):
    net = iso.interop.equinox.posterior(Perceptron(), kind)
    rows = {"x": 1e3 * jnp.asarray(X) if kind != "poisson" else jnp.asarray(X)}
    rows["y"] = jnp.arange(12) % 2 if kind == "categorical" else jnp.ones((12, 2))
    gradient = jax.jit(jax.grad(net.posterior.log_density))(net.init, rows)
    assert gradient.keys() == net.init.keys()
    assert all(np.isfinite(g).all() and np.abs(g).max() > 0 for g in gradient.values())
