"""Draws of models with groups against posteriors that are known by quadrature."""

import numpy as np
import pytest

import isotherm as iso
from support.grouped import curve, exact_moments, exact_moments_of_curve, normal_groups

FAR = 4.5  # Monte Carlo errors: the chance that one of a thousand independent numbers is further off is 0.7 %


def compared(draws, moments):
    """Return for each parameter the error of its mean in Monte Carlo errors and in sd, and the ratio of sds."""
    rows = iter(draws.summary().rows)
    named = {}
    for name, leaf in draws.flat().items():
        found = [next(rows) for _ in range(int(np.prod(leaf.shape[2:])))]
        mean, sd = (np.ravel(x) for x in moments[name])
        error = np.array([row.mean for row in found]) - mean
        mcse = np.array([row.mcse for row in found])
        named[name] = error / mcse, error / sd, np.array([row.sd for row in found]) / sd
    return named


def check(draws, moments):
    named = compared(draws, moments)
    errors, distances, ratios = (np.concatenate([x[i] for x in named.values()]) for i in range(3))
    assert np.all(np.abs(errors) < FAR), named
    assert np.median(np.abs(distances)) < 0.05, named
    assert np.quantile(np.abs(distances), 0.99) < 0.1, named  # a mean of 2,000 draws is known to 0.02 sd
    assert abs(np.median(ratios) - 1) < 0.03, named
    # The sd of N effective draws has a relative error of 1 / sqrt(2 N), with heavy tails of a scale twice that.
    assert np.all(np.abs(ratios - 1) < 0.2), named


@pytest.mark.slow
@pytest.mark.parametrize(
    ("groups", "rows_each", "scale"),
    [(5, 5, 0.7), (5, 500, 0.7), (200, 5, 0.7), (200, 5, 0.05), (300, 1, 0.7)],
    ids=["few and small", "few and large", "many", "hardly any effect", "one row each"],
)
def test_normal_groups_have_the_moments_of_quadrature(groups, rows_each, scale):
    posterior, rows, init = normal_groups(groups, rows_each, scale=scale)
    draws = iso.sample(posterior, rows, init, progress=False)
    assert "No fault" in draws.summary().verdict
    check(draws, exact_moments(rows))


@pytest.mark.slow
def test_a_block_that_all_rows_use_has_the_moments_of_quadrature():
    """The coefficients of a curve and their standard deviation; twelve are more than are written out."""
    posterior, rows, init = curve()
    draws = iso.sample(posterior, rows, init, progress=False)
    assert "No fault" in draws.summary().verdict
    check(draws, exact_moments_of_curve(rows))


@pytest.mark.slow
def test_a_temperature_applies_to_groups_as_well():
    """At temperature T the density is that at 1 to the power of 1/T: all variances given the scales are T times."""
    posterior, rows, init = normal_groups(40, 6)
    known = {**rows}
    hot = iso.Posterior(
        lambda q, row: posterior.log_likelihood({**q, "tau": 0.7, "sigma": 1.0}, row),
        lambda q: posterior.log_prior({**q, "tau": 0.7, "sigma": 1.0}),
        groups={"effect": "level"},
        temperature=4.0,
    )
    start = {name: init[name] for name in ("a", "slopes", "effect")}
    draws = iso.sample(hot, known, start, progress=False)
    x = np.concatenate([np.ones((len(rows["y"]), 1)), rows["x"], np.eye(40)[rows["level"]]], axis=1)
    prior = np.diag(np.concatenate([np.full(3, 1 / 25), np.full(40, 1 / 0.7**2)]))
    covariance = np.linalg.inv(x.T @ x + prior)
    mean, sd = covariance @ x.T @ rows["y"], 2 * np.sqrt(np.diag(covariance))
    moments = {
        "a": (mean[0], sd[0]),
        "slopes": (mean[1:3], sd[1:3]),
        "effect": (mean[3:], sd[3:]),
    }
    check(draws, moments)
