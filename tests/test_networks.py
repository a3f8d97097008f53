"""Networks as posteriors: names, what is skipped, likelihoods, priors, refusals, and a posterior known exactly."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from scipy import stats

import isotherm as iso
from isotherm.interop.likelihoods import likelihood_of
from monte_carlo import LIMIT

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3)).astype(np.float32)
SMALL = {
    "sampler": iso.CCAdL(0.01, 1.0, iso.Diagonal(), scheme="symmetric"),
    "batch_size": 4,
    "progress": False,
}


@pytest.fixture(autouse=True)
def small_programs(request):
    if "slow" not in request.keywords:
        request.getfixturevalue("quick_compilation")


@pytest.fixture(autouse=True)
def lenient_ranks():
    """The layers of both libraries add a bias of one axis to rows."""
    with jax.numpy_rank_promotion("allow"):
        yield


class Perceptron(eqx.Module):
    """With all that is not to be sampled: a function, a count, a number, dropout."""

    layers: list
    dropout: eqx.nn.Dropout
    count: jax.Array
    shift: float

    def __init__(self):
        keys = jax.random.split(jax.random.key(0), 2)
        self.layers = [eqx.nn.Linear(3, 4, key=keys[0]), jax.nn.tanh, eqx.nn.Linear(4, 2, key=keys[1])]
        self.dropout = eqx.nn.Dropout(0.5)
        self.count = jnp.asarray(3)
        self.shift = 1.0

    def __call__(self, x):
        return self.layers[2](self.dropout(self.layers[1](self.layers[0](x)))) + self.shift


class Block(nnx.Module):
    """With all that is not to be sampled: batch statistics, random state, a variable, an integer."""

    def __init__(self):
        rngs = nnx.Rngs(0)
        self.layers = nnx.List([nnx.Linear(3, 4, rngs=rngs), nnx.Linear(4, 2, rngs=rngs)])
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.shift = nnx.Variable(jnp.ones(2))
        self.count = nnx.Param(jnp.asarray(3))

    def __call__(self, x):
        return self.layers[1](self.dropout(self.norm(self.layers[0](x)))) + self.shift[...]


def equinox_case():
    module = Perceptron()
    fixed = eqx.nn.inference_mode(module)
    names = [f"layers.{i}.{part}" for i in (0, 2) for part in ("weight", "bias")]
    return iso.interop.equinox, module, jax.vmap(fixed)(jnp.asarray(X)), names


def flax_case():
    module = Block()
    module.norm.mean[...] = jnp.full(4, 0.5)
    fixed = nnx.clone(module)
    fixed.eval()
    names = [f"layers.{i}.{part}" for i in (0, 1) for part in ("kernel", "bias")]
    return iso.interop.flax, module, fixed(jnp.asarray(X)), [*names, "norm.scale", "norm.bias"]


CASES = pytest.mark.parametrize("case", [equinox_case, flax_case], ids=["equinox", "flax"])


@CASES
def test_parameters_have_names_and_the_rest_is_left_out(case):
    library, module, _, names = case()
    net = library.posterior(module, "categorical")
    assert sorted(net.init) == sorted(names)
    assert all(name in repr(net) for name in names)


@CASES
def test_apply_is_the_module_in_inference_mode(case):
    library, module, outputs, _ = case()
    net = library.posterior(module, "categorical")
    np.testing.assert_allclose(net.apply(net.init, jnp.asarray(X)), outputs, rtol=1e-5, atol=1e-6)
    # What `iso.predict` and others will do with it.
    np.testing.assert_allclose(jax.jit(net.mean)(net.init, X), jax.nn.softmax(outputs), rtol=1e-4)


@CASES
def test_a_module_comes_back_from_parameters(case):
    library, module, outputs, names = case()
    net = library.posterior(module, "categorical")
    again = net.module(net.init)
    assert type(again) is type(module)
    x = jnp.asarray(X)
    same = again(x) if library is iso.interop.flax else jax.vmap(again)(x)
    np.testing.assert_allclose(same, outputs, rtol=1e-5, atol=1e-6)
    moved = library.posterior(net.module({**net.init, names[0]: net.init[names[0]] + 1}), "categorical")
    for name in names:
        shift = 1.0 if name == names[0] else 0.0
        np.testing.assert_allclose(moved.init[name], net.init[name] + shift)
    with pytest.raises(ValueError, match=r"`params` must be a mapping with layers.0"):
        net.module({})


@CASES
def test_the_module_that_was_given_is_not_changed(case):
    library, module, _, _ = case()
    library.posterior(module, "categorical")
    dropout = module.dropout
    assert not (dropout.inference if library is iso.interop.equinox else dropout.deterministic)


@CASES
def test_a_filter_says_what_is_trainable(case):
    library, module, outputs, names = case()
    if library is iso.interop.flax:
        only = nnx.All(nnx.Param, nnx.PathContains("norm"))
    else:
        only = eqx.tree_at(
            lambda m: m.layers[2].bias,
            jax.tree.map(lambda _: False, module),
            True,
            is_leaf=lambda x: x is None,
        )
    net = library.posterior(module, "categorical", trainable=only)
    assert set(net.init) == {n for n in names if n.startswith(("norm", "layers.2.bias"))}
    np.testing.assert_allclose(net.apply(net.init, jnp.asarray(X)), outputs, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("case", [equinox_case, flax_case])
def test_it_samples_and_gives_a_module_for_each_draw(case):
    library, module, _, _ = case()
    net = library.posterior(module, "categorical")
    data = {"x": X, "y": np.arange(12) % 2}
    draws = iso.sample(net.posterior, data, net.init, num_draws=3, num_chains=2, **SMALL)
    assert draws.complete.all()
    assert set(draws.flat()) == set(net.init)
    modules = list(net.modules(draws))
    assert len(modules) == 6
    last = {name: leaf[1, 2] for name, leaf in draws.posterior.items()}
    run = lambda module: module(X) if library is iso.interop.flax else jax.vmap(module)(X)
    np.testing.assert_allclose(run(modules[5]), net.apply(last, X), rtol=1e-5, atol=1e-6)
    assert np.abs(run(modules[5]) - run(modules[4])).max() > 1e-4


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
def test_one_output_may_have_an_axis_of_its_own(kind):
    """Broadcast against each other, (n, 1) and (n,) would be n^2 numbers."""
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


def test_a_likelihood_of_ones_own_has_parameters_of_its_own():
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


def test_x_may_be_a_pytree():
    linear = eqx.nn.Linear(3, "scalar", key=jax.random.key(0))
    forward = lambda module, x: module(x["a"]) + x["b"]
    net = iso.interop.equinox.posterior(linear, "gaussian", scale=1.0, forward=forward)
    x = {"a": jnp.asarray(X), "b": jnp.arange(12.0)}
    np.testing.assert_allclose(net.apply(net.init, x), jax.vmap(linear)(x["a"]) + x["b"], rtol=1e-5)


def test_batch_norm_of_equinox_keeps_its_statistics():
    norm, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(3, axis_name="batch", mode="ema")
    with pytest.raises(ValueError, match="`module` must be without state where `forward` is not given"):
        iso.interop.equinox.posterior(norm, "gaussian")
    net = iso.interop.equinox.posterior(norm, "gaussian", forward=lambda module, x: module(x, state)[0])
    assert set(net.init) == {"weight", "bias", "log_scale"}
    one = net.apply(net.init, jnp.asarray(X[:1]))
    np.testing.assert_allclose(net.apply(net.init, jnp.asarray(X))[:1], one, rtol=1e-6)


LINEAR = eqx.nn.Linear(3, 2, key=jax.random.key(0))
NAMED = {"log_scale": jnp.zeros(())}
REFUSED = {
    "likelihood": ((LINEAR, "normal"), {}, '`likelihood` must be one of "gaussian", "categorical"'),
    "scale": ((LINEAR, "gaussian"), {"scale": -1.0}, "`scale` must be a positive number; got -1.0"),
    "scale of none": ((LINEAR, "poisson"), {"scale": 1.0}, "`scale` must be None unless"),
    "extra": ((LINEAR, "poisson"), {"extra": {}}, "`extra` must be None unless"),
    "prior": ((LINEAR, "poisson"), {"prior": 0.0}, "`prior` must be a positive number"),
    "prior of a name": (
        (LINEAR, "poisson"),
        {"prior": {"weight": -1}},
        r'`prior\["weight"\]` must be a positive',
    ),
    "no such name": (
        (LINEAR, "poisson"),
        {"prior": {"wei": 1.0}},
        "beginnings of names, of weight, bias; got 'wei'",
    ),
    "nothing": ((jax.nn.tanh, "poisson"), {}, "`module` must be one with trainable parameters"),
    "not callable": (([LINEAR], "poisson"), {}, "`module` must be callable where `forward` is not given"),
    "name twice": ((NAMED, "gaussian"), {"forward": lambda p, x: x}, "parameters the module does not have"),
}


@pytest.mark.parametrize(("arguments", "options", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refusals(arguments, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        iso.interop.equinox.posterior(*arguments, **options)


def test_flax_refuses_what_is_no_module_of_its_own():
    with pytest.raises(TypeError, match=r"`module` must be an `nnx.Module`; got 'Linear'"):
        iso.interop.flax.posterior(LINEAR, "gaussian")


def test_one_hot_labels_are_refused():
    net = iso.interop.equinox.posterior(LINEAR, "categorical")
    with pytest.raises(ValueError, match="`y` must be an array of integers"):
        net.posterior.row_log_likelihoods(net.init, {"x": jnp.asarray(X), "y": jnp.ones((12, 2))})


def test_interop_knows_its_modules_and_no_others():
    assert {"equinox", "flax", "numpyro"} <= set(dir(iso.interop))
    with pytest.raises(AttributeError, match="has no attribute 'torch'"):
        _ = iso.interop.torch


@pytest.mark.slow
@CASES
def test_a_linear_network_has_the_posterior_of_linear_regression(case):
    """Means to five standard errors; variances to five of theirs and what the scheme adds at this s, a hundredth."""
    library = case()[0]
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 3)).astype(np.float32)
    y = (x @ [0.5, -1.0, 0.2] + 0.3 + 0.5 * rng.normal(size=400)).astype(np.float32)
    flax = library is iso.interop.flax
    module = nnx.Linear(3, 1, rngs=nnx.Rngs(0)) if flax else eqx.nn.Linear(3, 1, key=jax.random.key(0))
    net = library.posterior(module, "gaussian", scale=0.5)
    wide = np.column_stack([x, np.ones(400)]).astype(np.float64)
    precision = wide.T @ wide / 0.25 + np.diag([3.0, 3.0, 3.0, 1.0])
    exact = np.linalg.solve(precision, wide.T @ y / 0.25)
    variance = np.diag(np.linalg.inv(precision))
    draws = iso.sample(
        net.posterior,
        {"x": x, "y": y},
        net.init,
        sampler=iso.CCAdL(0.003, 20.0, iso.Dense(), scheme="symmetric"),
        batch_size=100,
        burn_in=2000,
        num_draws=2000,
        thinning=20,
        num_chains=4,
        progress=False,
    )
    assert draws.settings["s"] < 0.25
    summary = draws.summary()
    weight = "kernel[{}, 0]" if flax else "weight[0, {}]"
    for i, name in enumerate([*(weight.format(i) for i in range(3)), "bias[0]"]):
        row = summary[name]
        assert abs(row.mean - exact[i]) < LIMIT * row.mcse
        # Of a normal the variance has the relative standard error sqrt(2/n).
        assert abs(row.sd**2 / variance[i] - 1) < LIMIT * (2 / row.ess_bulk) ** 0.5 + 0.01
