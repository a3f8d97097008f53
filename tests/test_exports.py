"""Draws by name, as data frames, and in ArviZ."""

import builtins
import dataclasses
from importlib import metadata

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import isotherm as iso
from support.made_run import CHAINS, LENGTH, made_draws

OLDER = int(metadata.version("arviz").split(".")[0]) < 1
# What ArviZ and the libraries below it warn of is not ours.
pytestmark = pytest.mark.filterwarnings("ignore")


def made(**changes):
    """Return draws with derived quantities: an array whose name has a slash, and a truth value."""
    draws = made_draws(3)
    above = draws.posterior["sigma"] > 1
    return dataclasses.replace(
        draws, derived={"net/odds": np.exp(draws["intercept"]), "above": above}, **changes
    )


def test_draws_by_the_name_of_a_parameter_a_derived_quantity_or_an_element():
    draws = made()
    assert draws["sigma"] is draws.posterior["sigma"]
    assert draws["above"] is draws.derived["above"]
    assert np.array_equal(draws["intercept"], draws.posterior["coefficients"][..., 0])
    assert list(draws) == ["coefficients", "sigma", "net/odds", "above"]
    assert "sigma" in draws
    assert "tau" not in draws
    bare = dataclasses.replace(draws, posterior=np.ones((CHAINS, LENGTH, 2)), derived={}, labels={})
    assert bare["theta"].shape == (CHAINS, LENGTH, 2)
    assert bare["theta[1]"].shape == (CHAINS, LENGTH)


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("layer", "`layer.b, layer.w.0`"),
        ("tau", "`layer.b, layer.w.0, sigma`"),
        ("a\x9b", r"'a\x9b' is not the name of a parameter"),
    ],
)
def test_an_unknown_name_is_refused_with_those_that_there_are(name, listed):
    leaf = np.ones((CHAINS, LENGTH))
    tree = {"layer": {"w": [leaf], "b": leaf}, "sigma": leaf}
    draws = dataclasses.replace(made_draws(), posterior=tree, labels={})
    with pytest.raises(KeyError) as caught:
        draws[name]
    assert listed.strip("`") in caught.value.args[0]


def test_a_data_frame_has_a_row_for_each_draw_of_the_chains_that_did_not_fail():
    draws = made(complete=np.asarray([True, False, True, True]))
    table = draws.to_pandas()
    assert list(table.columns[:2]) == ["intercept", "a_rather_long_name_of_a_column_0"]
    assert list(table.columns[-3:]) == ["sigma", "net/odds", "above"]
    assert table.index.names == ["chain", "draw"]
    assert list(table.index.unique("chain")) == [0, 2, 3]
    assert len(table) == 3 * LENGTH
    assert table.loc[(2, 7), "sigma"] == draws["sigma"][2, 7]
    assert table["above"].dtype == bool
    assert np.array_equal(table.loc[3]["intercept"], draws["intercept"][3])


def test_a_summary_as_a_data_frame_has_a_row_for_each_parameter():
    summary = made().summary()
    table = summary.to_pandas()
    assert list(table.index) == [row.name for row in (*summary.rows, *summary.derived)]
    assert table.loc["sigma", "sd"] == summary["sigma"].sd
    assert list(table.columns[:4]) == ["mean", "sd", "low", "high"]
    nothing = dataclasses.replace(summary, rows=(), derived=()).to_pandas()
    assert len(nothing) == 0
    assert list(nothing.columns) == list(table.columns)


def test_without_pandas_the_error_names_the_extra(monkeypatch):
    draws, real = made(), builtins.__import__

    def without(name, *args, **kwargs):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"`draws.to_pandas\(\)` needs the extra `pandas`: pip install"):
        draws.to_pandas()
    with pytest.raises(ImportError, match=r"`summary.to_pandas\(\)` needs the extra `pandas`"):
        draws.summary().to_pandas()


@pytest.mark.slow
def test_arviz_data_come_back_from_a_netcdf_file(tmp_path):
    draws, rng = made(), np.random.default_rng(0)
    data = draws.to_arviz(
        posterior_predictive={"y": rng.normal(size=(CHAINS, LENGTH, 5))}, observed_data={"y": np.arange(5.0)}
    )
    data.to_netcdf(tmp_path / "draws.nc")
    groups = {"posterior", "sample_stats", "posterior_predictive", "observed_data"}
    again = xarray.open_datatree(tmp_path / "draws.nc")
    assert set(again.children) == groups
    assert np.array_equal(again["posterior"]["coefficients"], draws["coefficients"])
    assert np.array_equal(again["posterior"]["above"], draws["above"])
    assert np.array_equal(again["posterior"]["net.odds"], draws["net/odds"])
    assert again["posterior"]["coefficients_0"].values[0] == "intercept"
    assert again["posterior_predictive"]["y"].dims[2:] == again["observed_data"]["y"].dims
    attributes = again["posterior"].attrs
    assert attributes["inference_library"] == "isotherm"
    assert (attributes["isotherm_sampler"], attributes["isotherm_interrupted"]) == ("CCAdL", 0)


@pytest.mark.slow
@pytest.mark.skipif(not OLDER, reason="ArviZ from 1.0 on takes a DataTree")
def test_functions_of_arviz_0_23_take_what_to_arviz_returns(tmp_path):
    import arviz as az
    from matplotlib import pyplot

    draws, rng = made(), np.random.default_rng(0)
    y = {"y": draws["intercept"][..., None] + rng.normal(size=(CHAINS, LENGTH, 20))}
    data = draws.to_arviz(posterior_predictive=y, observed_data={"y": rng.normal(size=20)})
    assert isinstance(data, az.InferenceData)
    table = az.summary(data, round_to="none")
    assert table.loc["sigma", "mean"] == pytest.approx(draws["sigma"].mean())
    data.to_netcdf(str(tmp_path / "draws.nc"))
    assert az.summary(az.from_netcdf(str(tmp_path / "draws.nc")), round_to="none").equals(table)
    for function in (az.ess, az.rhat, az.mcse, az.hdi):
        assert set(function(data).data_vars) >= {"sigma", "coefficients"}
    figures = (az.plot_trace, az.plot_posterior, az.plot_forest, az.plot_rank, az.plot_pair)
    others = len(pyplot.get_fignums())
    try:
        for plot in figures:
            plot(data, var_names=["sigma", "coefficients"])
        az.plot_ppc(data)
        az.plot_bpv(data)
        assert len(pyplot.get_fignums()) - others == len(figures) + 2
    finally:
        pyplot.close("all")


@pytest.mark.slow
@pytest.mark.skipif(OLDER, reason="ArviZ before 1.0 takes an InferenceData")
def test_functions_of_arviz_take_what_to_arviz_returns():
    import arviz as az

    draws = made()
    data = draws.to_arviz()
    assert isinstance(data, xarray.DataTree)
    table = az.summary(data, round_to="none")
    assert float(table.loc["sigma", "mean"]) == pytest.approx(draws["sigma"].mean())
    az.plot_trace_dist(data, var_names=["sigma"])


@pytest.mark.slow
def test_log_likelihoods_reach_leave_one_out():
    import arviz_stats

    rng = np.random.default_rng(0)
    posterior = iso.Posterior(lambda p, row: -0.5 * (row - p["sigma"]) ** 2 - 0.5 * jnp.log(2 * jnp.pi))
    data = iso.with_log_likelihood(made(), posterior, rng.normal(1.0, size=30).astype(np.float32))
    assert data["log_likelihood"]["rows"].dims == ("chain", "draw", "row")
    elpd = arviz_stats.loo(data)
    # Each row's density is that at sigma = 1, which the draws are near: elpd is about -30 (log(2 pi) + 1) / 2.
    assert elpd.elpd == pytest.approx(-42.6, abs=5 * 3.9)
    if OLDER:
        import arviz

        assert arviz.loo(data).elpd_loo == pytest.approx(elpd.elpd, abs=0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            {"observed_data": np.ones(3)}, "`observed_data` must be arrays by name", marks=pytest.mark.slow
        ),
        (
            {"posterior_predictive": {"y": np.ones((2, 3))}},
            r"that begins with \(4, 200\); got an array of shape",
        ),
        (
            {"posterior_predictive": {"y": np.ones((4, 200, 3))}, "observed_data": {"y": np.ones(2)}},
            r"of the shape \(3,\) of its predictions; got an array of shape \(2,\)",
        ),
    ],
)
def test_predictions_that_do_not_fit_the_draws_are_refused(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        made().to_arviz(**arguments)


def test_predictions_are_a_function_mapped_over_the_draws():
    """The example of the documentation."""
    draws = made()
    f = lambda p: p["coefficients"][:2] * p["sigma"]
    y = jax.vmap(jax.vmap(f))(draws.posterior)
    tree = draws.to_arviz(posterior_predictive={"y": y})
    assert tree["posterior_predictive"]["y"].shape == (CHAINS, LENGTH, 2)
