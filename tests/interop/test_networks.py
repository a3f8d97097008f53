"""Networks as posteriors: names, filters, refused input, and a posterior known exactly."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import isotherm as iso
from support.monte_carlo import LIMIT
from support.networks import SMALL, Block, Perceptron, X, lenient_ranks, small_programs  # noqa: F401


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
def test_parameters_have_names_and_all_else_is_left_out(case):
    library, module, _, names = case()
    net = library.posterior(module, "categorical")
    assert sorted(net.init) == sorted(names)
    assert all(name in repr(net) for name in names)


@CASES
def test_apply_is_the_module_in_inference_mode(case):
    library, module, outputs, _ = case()
    net = library.posterior(module, "categorical")
    np.testing.assert_allclose(net.apply(net.init, jnp.asarray(X)), outputs, rtol=1e-5, atol=1e-6)
    # Jitted, as in `iso.predict`.
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
def test_a_filter_selects_what_is_trainable(case):
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


def test_x_may_be_a_pytree():
    linear = eqx.nn.Linear(3, "scalar", key=jax.random.key(0))
    forward = lambda module, x: module(x["a"]) + x["b"]
    net = iso.interop.equinox.posterior(linear, "gaussian", scale=1.0, forward=forward)
    x = {"a": jnp.asarray(X), "b": jnp.arange(12.0)}
    np.testing.assert_allclose(net.apply(net.init, x), jax.vmap(linear)(x["a"]) + x["b"], rtol=1e-5)


def test_batch_norm_of_equinox_keeps_its_statistics():
    norm, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(3, axis_name="batch", mode="ema")
    with pytest.raises(ValueError, match="`module` must be without state if `forward` is not given"):
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
        "prefixes of the names weight, bias; got 'wei'",
    ),
    "nothing": ((jax.nn.tanh, "poisson"), {}, "`module` must be one with trainable parameters"),
    "not callable": (([LINEAR], "poisson"), {}, "`module` must be callable if `forward` is not given"),
    "name twice": ((NAMED, "gaussian"), {"forward": lambda p, x: x}, "parameters that the module also has"),
}


@pytest.mark.parametrize(("arguments", "options", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refusals(arguments, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        iso.interop.equinox.posterior(*arguments, **options)


def test_flax_refuses_modules_of_other_libraries():
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
    assert draws.record.s < 0.25
    summary = draws.summary()
    weight = "kernel[{}, 0]" if flax else "weight[0, {}]"
    for i, name in enumerate([*(weight.format(i) for i in range(3)), "bias[0]"]):
        row = summary[name]
        assert abs(row.mean - exact[i]) < LIMIT * row.mcse
        # The variance of a normal has the relative standard error sqrt(2/n).
        assert abs(row.sd**2 / variance[i] - 1) < LIMIT * (2 / row.ess_bulk) ** 0.5 + 0.01
