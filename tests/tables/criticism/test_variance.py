"""R^2 against its definition, with the variance of each family from SciPy."""

import dataclasses

import numpy as np
import pytest

import isotherm as iso
from isotherm.tables.criticism.variance import residual_variance
from isotherm.tables.families import family_of, registry
from isotherm.tables.fitted import fitted
from isotherm.tables.marginal.given import encoded, some_rows
from isotherm.tables.marginal.means import some_draws
from isotherm.tables.replicated import blocks_of
from support.made_effects import drawn, rows
from support.made_forecast import family, flat, made_forecast, table

pytestmark = pytest.mark.usefixtures("quick_compilation")
T = iso.tables
NEW = table(30, seed=3)
NUMBERS = [name for name in registry.MODELS if name not in ("softmax", "ordinal")]


def exact_variance(model, draws):
    """Return the variance of a new observation, (draw, row)."""
    law = family(model, draws, NEW)
    if not model.startswith("zero-inflated"):
        return law.var()
    mean, share = law.law.mean(), law.share
    return (1 - share) * (law.law.var() + mean**2) - ((1 - share) * mean) ** 2


@pytest.mark.parametrize("model", NUMBERS)
def test_the_variance_of_a_new_observation(model):
    draws = made_forecast(model)
    regression, rng = fitted(draws), np.random.default_rng(0)
    given = some_rows(regression, NEW, None, 0)
    (block,) = blocks_of(regression, some_draws(draws), encoded(regression, given.columns))
    found = residual_variance(regression, block, rng)
    if model in ("logistic", "probit"):
        exact = block.response.astype(float) * (1 - block.response.astype(float))
    else:
        exact = exact_variance(model, draws)
    np.testing.assert_allclose(found, np.broadcast_to(exact, found.shape), rtol=3e-4)


def test_r_squared_is_the_share_of_the_variance_of_the_expected_response():
    draws = made_forecast("linear")
    b, aux = flat(draws)
    X = np.stack([np.ones(30), NEW["age"], NEW["dose"], NEW["sex"] == "m"], axis=1).astype(float)
    explained = (b @ X.T + NEW["known"]).var(axis=1)
    exact = explained / (explained + aux["sigma"][:, 0] ** 2)
    found = T.r_squared(draws, NEW, interval=0.8)
    np.testing.assert_allclose(found.samples, exact, rtol=1e-4)
    assert (found.mean, found.low) == pytest.approx((exact.mean(), np.quantile(exact, 0.1)), rel=1e-4)
    assert str(found).startswith("R^2 0.")


def test_a_family_of_somebody_else_is_simulated():
    """Squared distances of simulated from expected counts have the mean of the variance: 5 standard errors."""
    poisson = family_of("poisson")

    class Own(type(poisson)):
        name = "own-counts"

    registry.register(Own())
    columns = rows(100)
    draws = drawn("claims ~ km", columns, Own())
    regression = fitted(draws)
    block = next(blocks_of(regression, some_draws(draws), encoded(regression, columns)))
    found = residual_variance(regression, block, np.random.default_rng(0))
    mean = block.response.astype(float)
    error = np.sqrt(np.sum(mean + 2 * mean**2)) / mean.size  # of a squared distance: mean + 2 mean^2
    assert abs(found.mean() - mean.mean()) < 5 * error


def test_where_there_is_no_r_squared():
    with pytest.raises(ValueError, match="numbers, counts or two classes; got 'softmax'"):
        T.r_squared(made_forecast("softmax"), NEW)
    columns = rows(40)
    prior = T.families.Prior(degrees_of_freedom=2.0)
    model = T.regression("cost ~ km", columns, family="student-t", prior=prior, progress=False)
    assert model.description["degrees of freedom"] == 2.0
    draws = drawn("cost ~ km", columns, "student-t")
    draws = dataclasses.replace(draws, about=dataclasses.replace(draws.about, model=model.description))
    with pytest.raises(ValueError, match="`degrees_of_freedom` must be above 2"):
        T.r_squared(draws, columns)
