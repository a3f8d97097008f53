"""NumPyro models as posteriors: the density and the posterior agree with NumPyro's, and bad models are refused."""

import dataclasses
import importlib.util
import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer.util import potential_energy

import isotherm as iso
from support.monte_carlo import LIMIT
from support.table import slow_unless

SPEC = importlib.util.spec_from_file_location(
    "numpyro_models", Path(__file__).parents[2] / "benchmarks" / "numpyro_models.py"
)
examples = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(examples)
REFERENCE = json.loads((Path(examples.__file__).parent / "references" / "numpyro.json").read_text())

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(autouse=True)
def numpyro_as_it_is():
    """Allow rank promotion and key reuse, which NumPyro relies on."""
    with jax.numpy_rank_promotion("allow"), jax.debug_key_reuse(False):
        yield


def random_position(posterior, init, seed):
    """Random unconstrained parameters."""
    free = init if posterior.constraint is None else posterior.constraint.free(init)
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape)), free)


@pytest.mark.parametrize("name", slow_unless(["mixture", "horseshoe"], examples.MODELS))
def test_the_density_equals_numpyros_and_rows_add_up(name):
    model, args = examples.MODELS[name], examples.arguments(name, 12)

    @jax.jit
    def at(free):
        whole = unconstrained.row_log_likelihoods(free, data)
        parts = [
            unconstrained.row_log_likelihoods(free, jax.tree.map(lambda x, s=s: x[s], data))
            for s in (slice(0, 5), slice(5, 12))
        ]
        return (
            unconstrained.log_density(free, data),
            -potential_energy(model, args, {}, free),
            whole,
            jnp.concatenate(parts),
        )

    with jax.enable_x64(True):
        # Recognised groups have free parameters of their own, which are not NumPyro's.
        posterior, data, init = iso.interop.numpyro.posterior(model, args, groups=False)
        unconstrained = posterior.unconstrained
        for seed in range(3):
            density, wanted, whole, parts = at(random_position(posterior, init, seed))
            assert whole.shape == (12,)
            assert float(density) == pytest.approx(float(wanted), rel=1e-9)
            np.testing.assert_allclose(parts, whole, rtol=1e-9)


X = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)
Y = X @ np.array([1.0, 2.0], np.float32)


def normal_rows(y, mean, scale=1.0):
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.Normal(mean, scale), obs=y)


@pytest.mark.slow
def test_scales_masks_factors_and_other_plates_keep_their_place():
    """Sites in the data plate count once per row, and all others count once."""

    def model(x, y, weight, seen, known):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("known", 3):
            numpyro.sample("before", dist.Normal(mean, 2.0), obs=known)
        numpyro.factor("belief", -(mean**2))
        columns, rows = numpyro.plate("columns", 2, dim=-1), numpyro.plate("data", x.shape[0], dim=-2)
        with columns, rows, handlers.scale(scale=weight[:, None]), handlers.mask(mask=seen):
            numpyro.sample("x", dist.Normal(mean, 1.0), obs=x)
        with numpyro.plate("data", x.shape[0]):
            numpyro.factor("y", -jnp.abs(y - mean))

    rng = np.random.default_rng(1)
    args = (X, Y, rng.random(12).astype(np.float32), rng.random((12, 2)) < 0.7, np.ones(3, np.float32))
    with pytest.raises(
        ValueError, match=r"`data_plate` must be the plate of rows, one of `known`, .*`columns`"
    ):
        iso.interop.numpyro.posterior(model, args)
    posterior, data, init = iso.interop.numpyro.posterior(model, args, data_plate="data")
    assert set(data) == {"x", "y", "weight", "seen"}
    params = {"mean": jnp.asarray(0.3)}
    normal = lambda z, s: -0.5 * (z / s) ** 2 - np.log(s) - 0.5 * np.log(2 * np.pi)
    wanted = args[2] * np.sum(args[3] * normal(X - 0.3, 1), axis=1) - np.abs(Y - 0.3)
    np.testing.assert_allclose(posterior.row_log_likelihoods(params, data), wanted, rtol=1e-5)
    prior = normal(0.3, 1) + 3 * normal(0.7, 2) - 0.09
    assert float(posterior.prior_log_density(params)) == pytest.approx(prior, rel=1e-5)
    assert posterior.transforms is None
    assert init["mean"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "of",
    [
        lambda x: dist.Bernoulli(logits=x),
        lambda x: dist.Bernoulli(logits=x).mask(x < 1),
        lambda x: dist.Binomial(total_count=1, logits=x),
        lambda x: dist.ZeroInflatedPoisson(0.0, jnp.exp(x)),
    ],
    ids=["Bernoulli", "masked", "Binomial", "other"],
)
def test_derivatives_at_logits_of_exactly_zero(of):
    """NumPyro's own derivative of a Bernoulli is 0 there, where it is 1/2 on both sides."""

    def model(y):
        x = numpyro.sample("x", dist.Normal(0, 1))
        with numpyro.plate("rows", y.shape[0]):
            numpyro.sample("y", of(x * jnp.ones(y.shape[0])), obs=y)

    posterior, data, _ = iso.interop.numpyro.posterior(model, (np.array([0, 1, 1]),))
    total = lambda x: jnp.sum(posterior.row_log_likelihoods({"x": x}, data))
    first, second = (
        np.array([f(x) for x in (-1e-4, 0.0, 1e-4)]) for f in (jax.grad(total), jax.grad(jax.grad(total)))
    )
    np.testing.assert_allclose(
        first, first[::2].mean(), atol=1e-3
    )  # second derivative times 1e-4, and rounding
    np.testing.assert_allclose(second, second[::2].mean(), atol=1e-3)


def test_a_constant_as_long_as_the_data_needs_rows_to_be_listed():
    def model(y, index, table):
        w = numpyro.sample("w", dist.Normal(0, 1))
        normal_rows(y, w * table[index])

    args = (Y, np.arange(12)[::-1].copy(), np.linspace(1, 2, 12).astype(np.float32))
    with pytest.raises(ValueError, match="list in `rows` the arguments that hold rows"):
        iso.interop.numpyro.posterior(model, args)
    posterior, data, _ = iso.interop.numpyro.posterior(model, args, rows=("y", "index"))
    assert set(data) == {"y", "index"}
    half = jax.tree.map(lambda x: x[6:], data)
    params = {"w": jnp.asarray(2.0)}
    wanted = posterior.row_log_likelihoods(params, data)[6:]
    np.testing.assert_allclose(posterior.row_log_likelihoods(params, half), wanted, rtol=1e-6)


@pytest.mark.slow
def test_draws_have_the_deterministic_sites_and_can_be_judged(tmp_path):
    def model(table, y):
        scale = numpyro.sample("scale", dist.LogNormal(0, 1))
        w = numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
        numpyro.deterministic("ratio", w / scale)
        numpyro.deterministic("constant", jnp.ones(()))
        numpyro.deterministic("fitted", table["x"] @ w)
        normal_rows(y, table["x"] @ w, scale)

    found = iso.interop.numpyro.posterior(model, ({"x": X}, Y))
    assert set(found.data) == {"table.x", "y"}
    draws = found.sample(
        sampler=iso.CCAdL(0.01, 2.0, iso.Dense()), batch_size=6, num_draws=40, num_chains=2, progress=False
    )
    ratio = draws.posterior["w"] / draws.posterior["scale"][..., None]
    np.testing.assert_allclose(draws.derived["ratio"], ratio, rtol=1e-5)
    assert set(draws.derived) == {
        "ratio",
        "constant",
    }  # sites that depend on the rows are left to predictions
    assert set(draws.to_arviz()["posterior"].data_vars) == {"scale", "w", "ratio", "constant"}
    draws.save(tmp_path / "run.iso")
    assert np.array_equal(iso.load(tmp_path / "run.iso").derived["ratio"], draws.derived["ratio"])
    summary = draws.summary()
    assert summary["ratio[1]"].mean == pytest.approx(ratio[..., 1].mean(), rel=1e-5)
    assert "ratio[1]" in str(summary)
    assert "constant" not in summary.verdict
    with pytest.raises(ValueError, match="`draws` must be draws of the sites"):
        found.draws(dataclasses.replace(draws, posterior={"w": ratio}))


def latent_per_row(x, y):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("data", x.shape[0]):
        z = numpyro.sample("z", dist.Normal(w, 1))
        numpyro.sample("y", dist.Normal(z, 1), obs=y)


def latent_without_a_plate(x, y):
    normal_rows(y, numpyro.sample("z", dist.Normal(0, 1).expand([x.shape[0]]).to_event(1)))


def discrete(x, y):
    with numpyro.plate("data", x.shape[0]):
        k = numpyro.sample("k", dist.Bernoulli(0.5))
        numpyro.sample("y", dist.Normal(k, numpyro.sample("s", dist.Exponential(1))), obs=y)


def no_plate(x, y):
    numpyro.sample("y", dist.Normal(x @ numpyro.sample("w", dist.Normal(0, 1).expand([2])), 1), obs=y)


def nothing_observed(x, y):
    normal_rows(x[:, 0], 0.0) if y is None else numpyro.sample("w", dist.Normal(0, 1))


def no_parameters(x, y):
    normal_rows(y, 0.0)


def fixed_plate(x, y):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("data", 12):
        numpyro.sample("y", dist.Normal(x @ w, 1), obs=y)


def observed_outside(x):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(w, 1), obs=Y)


def columns_outside(y):
    normal_rows(y, X @ numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1)))


def all_outside():
    normal_rows(Y, numpyro.sample("w", dist.Normal(0, 1)))


def subsampled(x, y):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("data", x.shape[0], subsample_size=4) as i:
        numpyro.sample("y", dist.Normal(w, 1), obs=y[i])


def with_param(x, y):
    normal_rows(y, numpyro.sample("w", dist.Normal(0, 1)) + numpyro.param("a", 0.0))


def moving_support(x, y):
    high = numpyro.sample("high", dist.Exponential(1))
    normal_rows(y, numpyro.sample("w", dist.Uniform(0, high)))


def random_numbers(x, y):
    noise = jax.random.normal(numpyro.prng_key(), ())
    normal_rows(y, numpyro.sample("w", dist.Normal(0, 1)) + noise)


def centred(x, y):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
    normal_rows(y, (x - x.mean(axis=0)) @ w)


def scaled(x, y):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with handlers.scale(scale=12 / y.shape[0]):
        normal_rows(y, w)


def prior_of_rows(x, y):
    normal_rows(y, numpyro.sample("w", dist.Normal(0, x.std())))


def second_outcome_without_plate(x, y):
    w = numpyro.sample("w", dist.Normal(0, 1))
    normal_rows(y, w)
    numpyro.sample("other", dist.Normal(w, 1), obs=x[:, 0])


def size_from_values(x, y):
    index = (x[:, 0] > 0).astype(int)
    with numpyro.plate("groups", int(index.max()) + 1):
        w = numpyro.sample("w", dist.Normal(0, 1))
    normal_rows(y, w[index])


def column_observed(x, y):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.Normal(w, 1), obs=y[:, None])


BAD = {
    "latent per row": (
        latent_per_row,
        (X, Y),
        "without a latent variable for each row; got the site 'z' with 12",
    ),
    "latent, no plate": (
        latent_without_a_plate,
        (X, Y),
        "without a latent variable for each row; got the site 'z'",
    ),
    "discrete": (
        discrete,
        (X, Y),
        "continuous in its latent sites.*discrete site 'k'. If it is observed, pass",
    ),
    "no plate": (
        no_plate,
        (X, Y),
        "written with a plate of rows; got `y` outside any plate. Put `with numpyro.plate",
    ),
    "nothing observed": (nothing_observed, (X, Y), "one with data; got no observed site. Write .*obs=y"),
    "no parameters": (no_parameters, (X, Y), "one with parameters; got no latent site"),
    "fixed plate": (
        fixed_plate,
        (X, Y),
        "`size` of plate `data` must be the number of rows.*got 12.*x.shape.0.",
    ),
    "y closed over": (observed_outside, (X,), r"its observations as arguments; got shape \(12,\) at 'y'"),
    "x closed over": (
        columns_outside,
        (Y,),
        "Incompatible shapes.*(?s:.)*2 of the 12 rows. Arrays of all rows",
    ),
    "all closed over": (
        all_outside,
        (),
        "`args` must be arrays with the 12 rows of plate `data`.*not close over",
    ),
    "subsample_size": (
        subsampled,
        (X, Y),
        "`subsample_size` of plate `data` must be left out.*got 4.*x.shape.0.",
    ),
    "param": (
        with_param,
        (X, Y),
        "parameters all have a prior.*param site 'a'. Replace it by `numpyro.sample`",
    ),
    "support": (
        moving_support,
        (X, Y),
        "supports are fixed; got a support of 'w' that depends on other",
    ),
    "random numbers": (random_numbers, (X, Y), "random only at its sites; got `numpyro.prng_key"),
    "centred": (
        centred,
        (X, Y),
        "rows are independent; got a row whose log-likelihood depends on.*beforehand",
    ),
    "scaled by N/n": (
        scaled,
        (X, Y),
        "rows are independent; got a row whose log-likelihood depends on the other rows",
    ),
    "prior of rows": (prior_of_rows, (X, Y), "only sites in the data plate depend on rows; got the site 'w'"),
    "outcome": (
        second_outcome_without_plate,
        (X, Y),
        "only sites in the data plate.*the site 'other' outside it. Put it into",
    ),
    "size from values": (
        size_from_values,
        (X, Y),
        "shapes and branches.*Pass sizes, such as the number of groups",
    ),
    "column": (column_observed, (X, Y), r"in the shape of their distribution; got shape \(12, 1\) at 'y'"),
    "one row": (centred, (X[:1], Y[:1]), "`size` of plate `data` must be at least 2 rows; got 1"),
    "args": (
        centred,
        X,
        "`args` must be a tuple of the model's arguments; got an array.*by position: write `.x, y.`",
    ),
    "no function": (3, (X, Y), "`model` must be a function"),
}


@pytest.fixture
def as_users_run_it():
    """Turn off run-time type checks, which users do not have: the errors must come from the library."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(("model", "args", "message"), BAD.values(), ids=BAD.keys())
def test_models_that_minibatches_cannot_sample_are_refused(model, args, message):
    with pytest.raises((ValueError, TypeError)) as caught:
        iso.interop.numpyro.posterior(model, args)
    text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert re.search(message, text), text


def test_frames_of_pandas_are_arrays():
    import pandas as pd

    def model(x, y):
        slope = numpyro.sample("slope", dist.Normal(0, 1).expand([2]).to_event(1))
        normal_rows(y, x @ slope)

    of_frames = iso.interop.numpyro.posterior(model, (pd.DataFrame(X), pd.Series(Y)))
    of_arrays = iso.interop.numpyro.posterior(model, (X, Y))
    for name, values in of_arrays.data.items():
        np.testing.assert_array_equal(of_frames.data[name], values)


def test_bad_names_are_refused():
    with pytest.raises(
        ValueError, match="`data_plate` must be a plate with observed sites: `data`; got 'rows'"
    ):
        iso.interop.numpyro.posterior(centred, (X, Y), data_plate="rows")
    with pytest.raises(ValueError, match="`rows` must be names of arguments, among `x`, `y`; got 'z'"):
        iso.interop.numpyro.posterior(centred, (X, Y), rows=("z",))
    with pytest.raises(AttributeError, match="no attribute 'torch'"):
        _ = iso.interop.torch


@pytest.mark.slow
@pytest.mark.parametrize("name", REFERENCE["means"])
def test_means_are_those_of_nuts(name):
    """Every parameter and deterministic site, within `LIMIT` Monte Carlo errors of the difference."""
    args = examples.arguments(name, REFERENCE["rows"])
    draws = iso.interop.numpyro.posterior(examples.MODELS[name], args).sample(
        sampler=iso.CCAdL(0.02, 5.0, iso.Dense(), scheme="symmetric"),
        batch_size=200,
        num_draws=500,
        thinning=20,
        burn_in=2000,
        progress=False,
    )
    assert draws.complete.all()
    scores = examples.z_scores(draws, REFERENCE["means"][name])
    assert max(scores.values()) < LIMIT, scores
    if name == "linear":  # has a deterministic site, which the diagnosis must not treat as a parameter
        found = iso.diagnose(draws, effort=0.1, progress=False)
        assert [block.name for block in found.blocks] == sorted(draws.posterior)
        assert len(found.halving.means.value) == len(found.summary.rows)
