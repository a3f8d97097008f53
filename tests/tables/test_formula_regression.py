"""Regressions by formula: densities by hand, rows from files, predictions by hand, and refusals."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import isotherm as iso
from isotherm.tables.families import Prior
from isotherm.transforms import correlation_factor
from support.made_formula import flat, made, table

COLUMNS = table()
CODES = np.unique(COLUMNS["region"], return_inverse=True)[1]
MALE = (COLUMNS["sex"] == "m").astype(float)


def regression(formula, columns=COLUMNS, **given):
    return iso.tables.regression(formula, columns, progress=False, **given)


def some_params(problem, seed=1):
    rng = np.random.default_rng(seed)
    constraint = problem.posterior.constraint
    free = constraint.free(problem.init)
    return constraint.constrained(
        jax.tree.map(lambda x: x + 0.3 * rng.standard_normal(x.shape).astype(np.float32), free)
    )


def row_log_likelihoods(problem, params):
    return problem.posterior.row_log_likelihoods(params, jax.tree.map(jnp.asarray, problem.data))


def group_log_density(params, name, correlated=True):
    """Return the log-density of the effects of a group given sds and correlations, by SciPy."""
    sd = np.asarray(params[f"sd_{name}"], float)
    R = np.eye(len(sd))
    if correlated and len(sd) > 1:
        R[np.tril_indices(len(sd), -1)] = np.asarray(params[f"cor_{name}"])
        R = R + R.T - np.eye(len(sd))
    effects = np.asarray(params[f"r_{name}"], float)
    return stats.multivariate_normal(np.zeros(len(sd)), sd[:, None] * R * sd).logpdf(effects).sum()


def change(f, a, b):
    return float(f(a)) - float(f(b))


def test_a_poisson_model_with_groups_has_the_density_by_hand():
    problem = regression("count ~ x * sex + offset(log(area)) + (1 + x | region)", family="poisson")
    a, b = some_params(problem), some_params(problem, 2)
    x = COLUMNS["x"]

    def rows_by_hand(q):
        c, r = np.asarray(q["coefficients"], float), np.asarray(q["r_region"], float)
        eta = c[0] + c[1] * x + c[2] * MALE + c[3] * x * MALE + r[CODES, 0] + r[CODES, 1] * x
        return stats.poisson(np.exp(eta) * COLUMNS["area"]).logpmf(COLUMNS["count"])

    assert problem.labels["coefficients"] == [["intercept", "x", "sex[T.m]", "x:sex[T.m]"]]
    found = row_log_likelihoods(problem, a)
    np.testing.assert_allclose(found, rows_by_hand(a), rtol=2e-4, atol=2e-4)
    scales = 2.5 / np.array([1.0, x.std()])

    def prior_by_hand(q):
        # Coefficients of standardised columns: slopes times the scale of the column, and the mean of eta less origin.
        c = np.asarray(q["coefficients"], float)
        columns = np.stack([x, MALE, x * MALE])
        spread = np.array([x.std(), 1.0, (x * MALE).std()])
        origin = np.log(COLUMNS["count"].mean() / COLUMNS["area"].mean())
        value = stats.norm(0, 2.5).logpdf(c[1:] * spread).sum()
        value += stats.norm(0, 5).logpdf(c[0] + c[1:] @ columns.mean(axis=1) - origin)
        return (
            value + group_log_density(q, "region") + stats.halfnorm(scale=scales).logpdf(q["sd_region"]).sum()
        )

    assert change(problem.posterior.log_prior, a, b) == pytest.approx(
        prior_by_hand(a) - prior_by_hand(b), rel=1e-4
    )


def test_sigma_may_depend_on_the_row_and_groups_may_be_uncorrelated():
    problem = regression(["y ~ x + (1 + z || region)", "sigma ~ z"])
    q = some_params(problem)
    assert "cor_region" not in q
    assert "sigma" not in q
    c, s, r = (np.asarray(q[k], float) for k in ("coefficients", "sigma_coefficients", "r_region"))
    mean = c[0] + c[1] * COLUMNS["x"] + r[CODES, 0] + r[CODES, 1] * COLUMNS["z"]
    law = stats.norm(mean, np.exp(s[0] + s[1] * COLUMNS["z"]))
    found = row_log_likelihoods(problem, q)
    np.testing.assert_allclose(found, law.logpdf(COLUMNS["y"]), rtol=1e-4, atol=1e-4)
    p = some_params(problem, 2)
    spread = COLUMNS["z"].std()

    def by_hand(q):
        c, s = np.asarray(q["coefficients"], float), np.asarray(q["sigma_coefficients"], float)
        u = COLUMNS["y"].std()
        value = stats.norm(0, 2.5).logpdf(c[1] * COLUMNS["x"].std() / u)
        value += stats.norm(0, 5).logpdf((c[0] + c[1] * COLUMNS["x"].mean() - COLUMNS["y"].mean()) / u)
        value += stats.norm(0, 1).logpdf(s[1] * spread)
        value += stats.norm(0, 1).logpdf(s[0] + s[1] * COLUMNS["z"].mean() - np.log(u))
        value += group_log_density(q, "region", correlated=False)
        return value + stats.halfnorm(scale=2.5 * u / np.array([1, spread])).logpdf(q["sd_region"]).sum()

    assert change(problem.posterior.log_prior, p, q) == pytest.approx(by_hand(p) - by_hand(q), rel=1e-4)


def test_without_an_intercept_every_level_has_a_coefficient():
    problem = regression("y ~ 0 + sex")
    assert problem.labels["coefficients"] == [["sex[f]", "sex[m]"]]
    q = some_params(problem)
    c = np.asarray(q["coefficients"], float)
    law = stats.norm(np.where(MALE == 1, c[1], c[0]), float(q["sigma"]))
    found = row_log_likelihoods(problem, q)
    np.testing.assert_allclose(found, law.logpdf(COLUMNS["y"]), rtol=1e-4, atol=1e-4)


def test_an_intercept_alone_needs_no_column():
    problem = regression("y ~ 1 + (1 | region)")
    assert "x" not in problem.data
    q = some_params(problem)
    eta = float(q["coefficients"][0]) + np.asarray(q["r_region"], float)[CODES, 0]
    found = row_log_likelihoods(problem, q)
    np.testing.assert_allclose(
        found, stats.norm(eta, float(q["sigma"])).logpdf(COLUMNS["y"]), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(
    "formula", ["log(area) ~ x + s(z) + (1 | region:year)", ["y ~ x:sex + poly(z, 2)", "sigma ~ x"]]
)
def test_rows_of_a_file_are_those_in_memory(formula, tmp_path):
    import pandas as pd

    pd.DataFrame(COLUMNS).to_parquet(tmp_path / "t.parquet")
    there, here = regression(formula, tmp_path / "t.parquet"), regression(formula, pd.DataFrame(COLUMNS))
    rows = there.data if isinstance(there.data, dict) else there.data.in_memory()
    assert rows.keys() == here.data.keys()
    for name, values in here.data.items():
        np.testing.assert_array_equal(rows[name], values)
    assert there.description == here.description
    json.dumps(there.description)


def covariance(draws, name):
    """Return the Cholesky factor of the covariance of the effects at each draw."""
    sd = draws[f"sd_{name}"]
    factor = np.stack(
        [np.asarray(correlation_factor(jnp.float32(c), sd.shape[1])) for c in draws[f"cor_{name}"]]
    )
    return sd[:, :, None] * factor


def test_predictions_are_those_by_hand():
    problem = regression("successes | trials(trials) ~ x + s(z) + (1 + x | region)", family="binomial")
    draws = made(problem)
    new = table(8, seed=5)
    del new["successes"]
    found = iso.tables.forecast(draws, new)
    p, code = flat(draws), np.searchsorted(sorted(set(COLUMNS["region"])), new["region"])
    basis = next(iter(iso.tables.forecasting.fitted(draws).made_design.smooths)).spline(new["z"])
    eta = p["coefficients"] @ np.stack([np.ones(8), new["x"], new["z"]]) + p["s_z"] @ basis.T
    eta += p["r_region"][:, code, 0] + p["r_region"][:, code, 1] * new["x"]
    by_hand = new["trials"] / (1 + np.exp(-eta))
    np.testing.assert_allclose(found.expected.mean, by_hand.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(
        found.expected.quantiles, np.quantile(by_hand, [0.05, 0.95], axis=0), rtol=1e-3
    )


def test_sigma_of_the_row_enters_its_interval():
    problem = regression(["y ~ x", "sigma ~ z"])
    draws = made(problem)
    new = {"x": np.full(2, 3.0), "z": np.array([0.0, 1.0])}
    found, p = iso.tables.forecast(draws, new), flat(draws)
    mean = p["coefficients"] @ np.array([1.0, 3.0])
    for i, z in enumerate(new["z"]):
        sigma = np.exp(p["sigma_coefficients"] @ np.array([1.0, z]))
        # The law of a new observation is a mixture over the draws; its quantiles are known to 4.5 standard errors.
        for level, q in zip((0.05, 0.95), found.outcome.quantiles[:, i], strict=True):
            share = stats.norm(mean, sigma).cdf(q).mean()
            assert abs(share - level) < 4.5 * np.sqrt(0.05 * 0.95 / len(mean))


def test_levels_that_were_not_seen():
    problem = regression("y ~ x + (1 + x | region)")
    draws = made(problem)
    new = {"x": np.array([1.0, 2.0, 2.0, 1.0]), "region": np.array(["r1", "new", "other", "new"], object)}
    with pytest.raises(ValueError, match=r"`region` must be one of the 5 levels.*'new'.*row 2 .3 of 4 rows"):
        iso.tables.forecast(draws, new)
    p = flat(draws)
    fixed = p["coefficients"] @ np.stack([np.ones(4), new["x"]])
    mean = iso.tables.forecast(draws, new, unseen="mean")
    np.testing.assert_allclose(mean.expected.mean[1:], fixed.mean(axis=0)[1:], rtol=1e-4)
    gaps = iso.tables.forecast(draws, new, unseen="missing").columns["mean"]
    np.testing.assert_array_equal(np.isnan(gaps), [False, True, True, True])
    sampled = iso.tables.forecast(draws, new, unseen="sample").expected
    # Variance of the mean response of a new level: that of the fixed part, plus z' S z at each draw.
    z = np.array([1.0, 2.0])
    extra = np.einsum("q,dqk,dlk,l->d", z, *2 * [covariance(p, "region")], z)
    expected = fixed[:, 1].var() + extra.mean()
    assert sampled.sd[1] ** 2 == pytest.approx(expected, rel=4.5 * np.sqrt(3 / len(extra)))
    assert sampled.mean[1] != sampled.mean[2]
    again = iso.tables.forecast(draws, {k: x[[3, 1]] for k, x in new.items()}, unseen="sample").expected
    np.testing.assert_allclose(again.mean, sampled.mean[[3, 1]], rtol=1e-6)


def test_a_dot_stands_for_columns_without_another_part():
    few = {name: COLUMNS[name] for name in ("x", "z", "area", "region")} | {"weight": COLUMNS["area"] + 1}
    names = lambda made, leaf="coefficients": made.labels[leaf][0]
    made = regression("log(area) ~ . + (1 | region)", few, weights="weight")
    assert names(made) == ["intercept", "x", "z"]
    made = regression(["x ~ z", "sigma ~ ."], {name: few[name] for name in ("x", "z", "area")})
    assert names(made, "sigma_coefficients") == ["sigma: intercept", "sigma: z", "sigma: area"]
    odd = {"claims-2020": COLUMNS["y"], "claims": COLUMNS["x"]}
    made_up = made_of("`claims-2020` ~ .", odd)
    assert made_up.labels["coefficients"] == [["intercept", "claims"]]
    assert iso.tables.forecast(made_up, {"claims": np.zeros(2)}).scores is None


def made_of(formula, columns, **given):
    return made(regression(formula, columns, **given))


def test_an_offset_of_a_logarithm_is_for_any_family():
    problem = regression("area ~ x + offset(log(z))", family="gamma")
    assert "exposure" not in problem.description
    q = some_params(problem)
    without = regression("area ~ x", family="gamma")
    shifted = jax.tree.map(jnp.asarray, problem.data | {"offset": np.zeros(60, np.float32)})
    moved = problem.posterior.row_log_likelihoods(q, shifted)
    np.testing.assert_allclose(problem.data["offset"], np.log(COLUMNS["z"]), rtol=1e-6)
    assert not np.allclose(moved, row_log_likelihoods(problem, q))
    assert "offset" not in without.data


def test_new_levels_of_an_ordinal_model_are_scored_with_their_own_effects():
    draws = made_of("grade ~ x + (1 | region)", COLUMNS, family="ordinal")
    new = {"x": np.array([1.0, 1.0]), "region": np.array(["new", "r1"], object), "grade": np.array([2, 2])}
    found = iso.tables.forecast(draws, new, unseen="mean")
    p = flat(draws)
    eta = p["coefficients"] @ np.array([1.0, 1.0])
    cut = np.concatenate([np.zeros((len(eta), 1)), p["thresholds"]], axis=1)
    inside = 1 / (1 + np.exp(eta - cut[:, 1])) - 1 / (1 + np.exp(eta - cut[:, 0]))
    np.testing.assert_allclose(found.log_likelihood.rows[0], np.log(inside.mean()), rtol=1e-4)


def test_a_mean_alone_is_predicted_for_any_table():
    draws = made(regression("y ~ 1"))
    found = iso.tables.forecast(draws, {"other": np.zeros(3)})
    expected = np.full(3, flat(draws)["coefficients"].mean())
    np.testing.assert_allclose(found.expected.mean, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("formula", "options", "message"),
    [
        ("grade ~ x + (1 | region)", {"family": "softmax"}, "`model` must be another than softmax"),
        (["count ~ x", "sigma ~ x"], {"family": "poisson"}, "`formula` must be for a parameter of poisson"),
        (["y ~ x", "sigma ~ (1 | region)"], {}, "`formula` must be one of columns"),
        (["y ~ x", "sigma ~ x", "sigma ~ z"], {}, "`model` must be one formula for `sigma`"),
        ("grade ~ 0 + x", {"family": "ordinal"}, "`formula` must be one with an intercept for ordinal"),
        ("y ~ 0 + (1 | region)", {}, "`formula` must be one with an intercept or a column"),
        ("y ~ x + weigth", {}, "weigth"),
        ("y ~ x", {"target": "y"}, "`target` must be left out if there is a formula"),
        ("y ~ x", {"features": ["x"]}, "`features` must be left out if there is a formula"),
        ("y ~ x + offset(z)", {"offset": "z"}, "`offset` must be given once"),
        ("yes ~ x", {"family": "poison"}, "Did you mean `poisson`"),
        ("linear", {}, "`target` must be the name of a column"),
        ("successes ~ x", {"family": "binomial"}, "`trials` must be the name of a column"),
        ([], {}, "`model` must be a formula"),
    ],
)
def test_bad_requests_are_refused(formula, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        regression(formula, **options)


def test_the_scale_of_the_priors_of_groups_can_be_chosen():
    wide, narrow = (regression("y ~ x + (1 | region)", prior=Prior(groups=s)) for s in (5.0, 0.5))
    q, p = some_params(wide), some_params(wide, 2)
    u = COLUMNS["y"].std()
    law = lambda s: lambda q: stats.halfnorm(scale=s * u).logpdf(np.asarray(q["sd_region"])).sum()
    found = change(wide.posterior.log_prior, q, p) - change(narrow.posterior.log_prior, q, p)
    assert found == pytest.approx(change(law(5.0), q, p) - change(law(0.5), q, p), rel=1e-3)
