"""Samplers, gradients and models print their settings by value and their arrays by shape."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.records import State
from support.made_run import made_draws
from support.table import SAMPLERS


def one_line(x):
    """Return the text of `x` as if lines were long enough."""
    return re.sub(r"([({]) | (?=[)}])", r"\1", " ".join(repr(x).split()))


@pytest.mark.parametrize(
    ("thing", "shown"),
    [
        (iso.CCAdL(0.001, 5.0, iso.Dense()), "CCAdL(step_size=0.001, friction=5.0, covariance=Dense())"),
        (iso.SGLD(np.float64(1e-3)), "SGLD(step_size=0.001)"),
        (iso.SGNHT(0.1, 1, temperature=0.5), "SGNHT(step_size=0.1, friction=1.0, temperature=0.5)"),
        (
            iso.SGHMC(0.1, 2.0, iso.DiagonalLowRank(3), mass={"w": jnp.array([0.5, 1.0]), "b": jnp.ones(9)}),
            "SGHMC(step_size=0.1, friction=2.0, covariance=DiagonalLowRank(rank=3), "
            "mass={'b': f32[9], 'w': [0.5, 1. ]})",
        ),
        (iso.SGLD(lambda step: 0.1), "SGLD(step_size=<function <lambda>>)"),
        (iso.ControlVariate(refresh=50), "ControlVariate(refresh=50)"),
        (iso.Reshuffled(), "Reshuffled()"),
        (iso.Bounded(0, 2.5), "Bounded(low=0.0, high=2.5)"),
        (
            iso.DiagonalPreconditioner(jnp.zeros(2), jnp.ones(2)),
            "DiagonalPreconditioner(center=[0., 0.], scale=[1., 1.])",
        ),
    ],
    ids=lambda x: "" if isinstance(x, str) else type(x).__name__,
)
def test_settings_are_shown_by_value(thing, shown):
    assert one_line(thing) == shown


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
def test_no_sampler_shows_a_number_by_its_dtype(sampler):
    assert "[]" not in repr(sampler)
    assert f"step_size={float(sampler.step_size):.3g}" in repr(sampler)


def test_values_that_cannot_be_read_are_shown_by_dtype_and_shape():
    sampler, shown = iso.SGLD(0.5), []

    def traced(h, k):
        shown.append(repr(iso.SGLD(h)))
        return iso.SGLD(h).step_size + k

    jax.jit(traced)(jnp.float32(1), 0.0)
    jax.vmap(traced, in_axes=(0, None))(jnp.ones(3), 0.0)
    assert shown == ["SGLD(step_size=f32[])", "SGLD(step_size=f32[])"]
    assert "key<fry>[]" in one_line(State({"w": jnp.zeros(2)}, jax.random.key(0), None, None, jnp.array(3)))
    state = State(jnp.zeros(()), None, None, None, jnp.array(3))
    state.step.delete()
    assert one_line(state) == "State(position=0.0, momentum=None, xi=None, covariance=None, step=weak_i32[])"
    assert repr(sampler) == "SGLD(step_size=0.5)"


def test_printing_a_module_changes_nothing_in_it():
    mass = {"w": jnp.ones(2), "rest": [jnp.ones(())]}
    sampler = iso.SGHMC(0.1, 2.0, iso.Dense(), mass=mass)
    before = jax.tree.structure(sampler)
    assert "rest" in repr(sampler)
    assert jax.tree.structure(sampler) == before
    assert isinstance(sampler.mass["rest"][0], jax.Array)


@pytest.mark.usefixtures("quick_compilation")
def test_a_setup_shows_no_rows():
    posterior = iso.Posterior(lambda p, row: -0.5 * jnp.sum((row - p) ** 2))
    data = np.random.default_rng(0).normal(size=(500, 2)).astype(np.float32)
    setup = iso.setup(posterior, data, jnp.zeros(2), sampler=iso.CCAdL(0.001, 5.0), batch_size=20)
    assert "data=f32[500,2]" in one_line(setup.problem)
    assert "step_size=0.001" in one_line(setup.kernel)
    assert one_line(setup.gradient).startswith("Minibatch(posterior=Posterior(log_likelihood=<function")
    assert "mean={'coefficients': f64[4,7](numpy)" in one_line(made_draws().moments)


def test_a_regression_shows_no_rows():
    columns = {name: np.random.default_rng(i).normal(size=300) for i, name in enumerate("aby")}
    shown = one_line(iso.tables.regression("linear", columns, "y", progress=False))
    assert "data={'x': f32[300,2](numpy), 'y': f32[300](numpy)}" in shown
    assert len(shown) < 2500


@pytest.mark.slow
def test_a_numpyro_model_shows_no_arrays():
    import numpyro
    import numpyro.distributions as dist

    from isotherm.interop.numpyro import posterior

    def model(x, y):
        w = numpyro.sample("w", dist.Normal(0, 1).expand([30]).to_event(1))
        with numpyro.plate("rows", x.shape[0]):
            numpyro.sample("y", dist.Normal(x @ w, 1.0), obs=y)

    x = np.random.default_rng(0).normal(size=(500, 30)).astype(np.float32)
    shown = one_line(posterior(model, (x, x[:, 0])))
    assert shown.startswith("Model(posterior=Posterior(")
    assert "f32[500,30]" in shown
    assert len(shown) < 2000
