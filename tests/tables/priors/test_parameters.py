"""Draws from the priors have the density that chains sample from."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import isotherm as iso
from isotherm.tables.families import family_of, laws
from isotherm.tables.families.registry import MODELS
from isotherm.tables.priors.parameters import prior_draws, uniform_correlations
from support.laws import target
from support.made_effects import MIXED, rows
from support.made_forecast import FEATURES, options, table

pytestmark = pytest.mark.usefixtures("quick_compilation")
COUNT = 20_000
LIMIT = (np.log(2 / 1e-6) / 2 / COUNT) ** 0.5  # of the Kolmogorov-Smirnov distance: false alarms 1e-6


@pytest.mark.parametrize(
    ("law", "scale", "end"),
    [
        (laws.EXPONENTIAL, 1.7, 50.0),
        (laws.ROOT_HALF_NORMAL, 0.8, 30.0),
        (laws.LOG_NORMAL, 0.9, 400.0),
        (laws.UNIFORM, 1.0, 1.0),
    ],
    ids=["exponential", "root-half-normal", "log-normal", "uniform"],
)
def test_a_law_is_sampled_with_the_density_of_its_energy(law, scale, end):
    """The distribution function comes from the energy by quadrature on a fine grid in the square root of x."""
    root = np.linspace(0, end**0.5, 200_001)[1:]
    density = np.exp(-np.asarray(law.energy(root**2, scale), float)) * 2 * root
    cdf = np.cumsum(density) / density.sum()
    values = law.sample(np.random.default_rng(0), scale, (COUNT,))
    assert values.max() < end
    found = stats.kstest(values, lambda x: np.interp(np.sqrt(x), root, cdf)).statistic
    assert found < LIMIT + 1e-4


def test_steps_between_thresholds_are_exponential():
    """The energy of a vector is the sum of its differences, over the scale."""
    values = laws.STEPS.sample(np.random.default_rng(0), 2.0, (COUNT, 3))
    steps = np.diff(values, axis=1, prepend=0)
    np.testing.assert_allclose(laws.STEPS.energy(values, 2.0), steps.sum(axis=1) / 2.0)
    assert all(stats.kstest(x, stats.expon(scale=2.0).cdf).statistic < LIMIT for x in steps.T)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_correlations_are_uniform_among_matrices(size):
    """A correlation is then a beta variable of shape size / 2 on (-1, 1): Lewandowski, Kurowicka and Joe (2009)."""
    found = uniform_correlations(size, COUNT, np.random.default_rng(size))
    law = stats.beta(size / 2, size / 2, -1, 2)
    for i, j in zip(*np.tril_indices(size, -1), strict=True):
        assert stats.kstest(found[:, i, j], law.cdf).statistic < LIMIT
    np.testing.assert_allclose(np.diagonal(found, axis1=1, axis2=2), 1)


def virial(regression, count=4000, seed=0):
    """Return by leaf the mean of x . d log p / dx over prior draws plus the size of the leaf, and its error.

    It is zero, by partial integration, if the draws have the density p and x p vanishes at the ends.
    """
    draws = prior_draws(regression, count, np.random.default_rng(seed))
    with jax.enable_x64(True):
        params = {name: jnp.asarray(x, jnp.float64) for name, x in draws.items()}
        slopes = jax.vmap(jax.grad(regression.posterior.log_prior))(params)
        total = {
            name: np.asarray(x * slopes[name]).reshape(count, -1).sum(axis=1) for name, x in params.items()
        }
    size = {name: x[0].size for name, x in draws.items()}
    return {name: (x.mean() + size[name], x.std() / count**0.5) for name, x in total.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formula", "family"), [(MIXED, "poisson"), (["cost ~ s(age) + sex", "sigma ~ km"], "linear")]
)
def test_draws_of_all_parameters_have_the_density_of_the_prior(formula, family):
    """Each leaf within 5 standard errors. Correlations end where their density does not vanish: tested above."""
    regression = iso.tables.regression(formula, rows(60), family=family, progress=False)
    found = virial(regression)
    assert found.keys() == set(regression.init)
    for name, (value, error) in found.items():
        if not name.startswith("cor_"):
            assert abs(value) < 5 * error + 1e-6, name


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_draws_of_every_family(model):
    """As above. A uniform share of zeros has no slope, and its density does not vanish at 1."""
    columns = table(60) | {"y": target(model, 60)}
    regression = iso.tables.regression(model, columns, "y", FEATURES, **options(model))
    for name, (value, error) in virial(regression).items():
        if name != "zero_inflation":
            assert abs(value) < 5 * error + 1e-6, name
    for name, x in prior_draws(regression, 10, np.random.default_rng(0)).items():
        assert x.shape[1:] == np.shape(regression.init[name])


def test_a_law_without_a_sample_is_named():
    import dataclasses

    poisson = family_of("negative-binomial")
    dispersion = dataclasses.replace(
        poisson.auxiliaries[0], prior=laws.Law(laws.EXPONENTIAL.energy, "exponential")
    )

    class Own(type(poisson)):
        name = "own-dispersion"
        auxiliaries = (dispersion,)

    regression = iso.tables.regression("claims ~ km", rows(40), family=Own(), progress=False)
    with pytest.raises(ValueError, match="`dispersion` must be a parameter whose prior can be drawn from"):
        prior_draws(regression, 10, np.random.default_rng(0))
