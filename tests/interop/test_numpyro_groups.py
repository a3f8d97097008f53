"""Effects of groups in NumPyro models: what is recognised, what is not, and draws against quadrature."""

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer.reparam import LocScaleReparam

import isotherm as iso
from isotherm.sampling.undeclared import about_undeclared_groups
from isotherm.sampling.warmup import prepared

pytestmark = pytest.mark.usefixtures("quick_compilation")

LEVELS, ROWS = 6, 40
RNG = np.random.default_rng(0)
SCHOOL, ITEM = (RNG.integers(0, LEVELS, ROWS).astype(np.int32) for _ in range(2))
X, Y = RNG.normal(size=(2, ROWS)).astype(np.float32)
FAR = 4.5  # Monte Carlo errors: ten independent numbers are all nearer but for once in 15,000 runs


@pytest.fixture(autouse=True)
def numpyro_as_it_is():
    """Allow rank promotion and key reuse, which NumPyro relies on."""
    with jax.numpy_rank_promotion("allow"), jax.debug_key_reuse(False):
        yield


def observed(eta, y):
    with numpyro.plate("rows", y.shape[0]):
        numpyro.sample("y", dist.Normal(eta, 1), obs=y)


def scale(name):
    return numpyro.sample(name, dist.HalfNormal(1))


def levels(name, prior):
    with numpyro.plate(f"levels of {name}", LEVELS):
        return numpyro.sample(name, prior)


def centred(school, y):
    mean, sd = numpyro.sample("mean", dist.Normal(0, 5)), numpyro.sample("sd", dist.HalfCauchy(5))
    observed(levels("effect", dist.Normal(mean, sd))[school], y)


def non_centred(school, y):
    mean, sd = numpyro.sample("mean", dist.Normal(0, 5)), scale("sd")
    observed(mean + sd * levels("effect", dist.Normal(0, 1))[school], y)


def reparametrised(school, y):
    handlers.reparam(centred, config={"effect": LocScaleReparam(0)})(school, y)


def crossed(school, item, y):
    of_schools, of_items = scale("of_schools"), numpyro.sample("of_items", dist.Gamma(2, 2))
    effects = levels("a", dist.Normal(0, of_schools))[school], levels("b", dist.Normal(1.5, of_items))[item]
    observed(effects[0] - effects[1], y)


def slopes(school, x, y, standardized):
    sd = numpyro.sample("sd", dist.HalfNormal(1).expand([2]).to_event(1))
    root = numpyro.sample("root", dist.LKJCholesky(2, 2.0))
    K = sd[:, None] * root
    if standardized:
        b = levels("b", dist.Normal(0, 1).expand([2]).to_event(1)) @ K.T
    else:
        b = levels("b", dist.MultivariateNormal(jnp.zeros(2), scale_tril=K))
    observed(b[school, 0] + b[school, 1] * x, y)


def scale_of_an_expression(school, y):
    log_sd = numpyro.sample("log_sd", dist.Normal(0, 1))
    observed(levels("effect", dist.Normal(0, jnp.exp(log_sd)))[school], y)


def mean_by_level(school, y):
    slope, column = numpyro.sample("slope", dist.Normal(0, 1)), jnp.arange(LEVELS) / LEVELS
    observed(levels("effect", dist.Normal(slope * column, scale("sd")))[school], y)


def fixed_prior(school, y):
    observed(levels("effect", dist.Normal(0, 5))[school], y)


def all_levels_in_each_row(school, y):
    effect = levels("effect", dist.Normal(0, scale("sd")))
    observed((effect - effect.mean())[school], y)


def dependent_levels(school, y):
    observed(numpyro.sample("effect", dist.GaussianRandomWalk(scale("sd"), LEVELS))[school], y)


def nested(school, y):
    district = levels("district", dist.Normal(0, scale("sd")))
    observed(levels("effect", dist.Normal(district, scale("sd_within")))[school], y)


RECOGNISED = {
    "centred": (centred, (SCHOOL, Y), {"effect": iso.Group("school", scale="sd", location="mean")}),
    "non-centred": (non_centred, (SCHOOL, Y), {"effect": iso.Group("school", scale="sd", standardized=True)}),
    "reparametrised": (
        reparametrised,
        (SCHOOL, Y),
        {"effect_decentered": iso.Group("school", scale="sd", standardized=True)},
    ),
    "crossed": (
        crossed,
        (SCHOOL, ITEM, Y),
        {
            "a": iso.Group("school", scale="of_schools"),
            "b": iso.Group("item", scale="of_items", location=1.5),
        },
    ),
    "slopes": (
        slopes,
        (SCHOOL, X, Y, False),
        {"b": iso.Group("school", scale="sd", correlations="root")},
    ),
    "slopes, non-centred": (
        slopes,
        (SCHOOL, X, Y, True),
        {"b": iso.Group("school", scale="sd", correlations="root", standardized=True)},
    ),
    "an expression": (scale_of_an_expression, (SCHOOL, Y), {"effect": iso.Group("school")}),
    "mean by level": (mean_by_level, (SCHOOL, Y), {"effect": iso.Group("school")}),
    "fixed prior": (fixed_prior, (SCHOOL, Y), {}),
    "all levels": (all_levels_in_each_row, (SCHOOL, Y), {}),
    "dependent": (dependent_levels, (SCHOOL, Y), {}),
    "nested": (nested, (SCHOOL, Y), {"effect": iso.Group("school")}),
}


@pytest.mark.parametrize(("model", "args", "groups"), RECOGNISED.values(), ids=RECOGNISED.keys())
def test_groups_are_recognised_by_what_rows_depend_on(model, args, groups):
    found = iso.interop.numpyro.posterior(model, args).posterior
    assert dict(found.groups) == groups
    scales = {group.scale for group in groups.values()} & {"sd", "of_schools"}
    assert all(isinstance(found.transforms[name], iso.Scale) for name in scales)
    assert not isinstance((found.transforms or {}).get("of_items"), iso.Scale)  # its density is zero at zero


@pytest.fixture
def as_users_run_it():
    """Turn off run-time type checks, which users do not have: the errors must come from the library."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("as_users_run_it")
def test_groups_are_declared_or_left_out():
    posterior = iso.interop.numpyro.posterior
    declared = posterior(fixed_prior, (SCHOOL, Y), groups={"effect": "school"}).posterior
    assert dict(declared.groups) == {"effect": iso.Group("school")}
    assert posterior(centred, (SCHOOL, Y), groups=False).posterior.groups == ()
    for groups, message in (
        ({"effects": "school"}, "`groups` must be latent sites by name: `effect`; got 'effects'"),
        ({"effect": "region"}, "`groups.effect` must be the name of an argument with rows: .*; got 'region'"),
        ("school", "`groups` must be a dictionary from sites to arguments"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            posterior(fixed_prior, (SCHOOL, Y), groups=groups)


@pytest.mark.parametrize(
    "args", [(SCHOOL, X, Y, True), (SCHOOL, X, Y, False)], ids=["standardized", "centred"]
)
def test_deviations_have_the_density_of_the_model(args):
    """The density of the free parameters is that of the model times the determinant of a numerical Jacobian."""
    posterior, data, init = iso.interop.numpyro.posterior(slopes, args)
    plain = iso.interop.numpyro.posterior(slopes, args, groups=False).posterior.constraint
    chains = posterior.constraint
    ravel = lambda free: jax.flatten_util.ravel_pytree(free)[0]
    start = jax.tree.map(
        lambda x: x + 0.3 * jnp.sin(jnp.arange(x.size) + 1.0).reshape(x.shape), chains.free(init)
    )
    _, unravel = jax.flatten_util.ravel_pytree(start)
    params = chains.constrained(start)
    np.testing.assert_allclose(ravel(chains.free(params)), ravel(start), rtol=1e-4, atol=1e-5)

    # By the free parameters without groups, whose determinant NumPyro knows.
    @jax.jit
    def both(start):
        free = plain.free(chains.constrained(start))
        there = jax.jacobian(lambda x: ravel(plain.free(chains.constrained(unravel(x)))))(ravel(start))
        volume = plain.log_volume(free) + jnp.linalg.slogdet(there)[1]
        expected = posterior.log_density(chains.constrained(start), data) + volume
        return posterior.unconstrained.log_density(start, data), expected

    np.testing.assert_allclose(*both(start), rtol=1e-4)


def test_groups_that_are_not_declared_are_named():
    def log_likelihood(q, row):
        return -0.5 * (row["y"] - q["effect"][row["school"]]) ** 2

    posterior = iso.Posterior(log_likelihood)
    data = {"school": np.arange(ROWS, dtype=np.int32) % LEVELS, "other": ITEM, "y": Y}
    with prepared(posterior, data, {"effect": np.zeros(LEVELS, np.float32)}) as problem:
        (reason,) = about_undeclared_groups(problem)
    assert 'groups={"effect": iso.Group("school", scale=...)}' in reason.why
    labels = iso.Posterior(lambda q, row: jax.nn.log_softmax(q["effect"])[row["school"]])
    with prepared(labels, data, {"effect": np.zeros(LEVELS, np.float32)}) as problem:
        assert about_undeclared_groups(problem) == ()


def eight_schools():
    """Effects of coaching and their known standard errors; mean and sd of mean and spread, by quadrature."""
    y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    error = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    tau = np.linspace(0.002, 200, 50_000)
    precision = 1 / (error**2 + tau[:, None] ** 2)
    total = precision.sum(axis=1) + 1 / 25
    mean = (precision @ y) / total
    log_density = 0.5 * (np.log(precision).sum(axis=1) - np.log(total) + mean**2 * total - precision @ y**2)
    weight = np.exp(log_density - log_density.max()) / (1 + (tau / 5) ** 2)
    weight /= weight.sum()
    moments = lambda x, own: (weight @ x, (weight @ (x**2 + own) - (weight @ x) ** 2) ** 0.5)
    return y.astype(np.float32), error.astype(np.float32), moments(mean, 1 / total), moments(tau, 0.0)


@pytest.mark.slow
def test_eight_schools_written_non_centred_have_the_moments_of_quadrature():
    def model(school, error, y):
        mean, spread = numpyro.sample("mean", dist.Normal(0, 5)), numpyro.sample("spread", dist.HalfCauchy(5))
        with numpyro.plate("schools", 8):
            z = numpyro.sample("z", dist.Normal(0, 1))
        with numpyro.plate("rows", y.shape[0]):
            numpyro.sample("y", dist.Normal(mean + spread * z[school], error), obs=y)

    y, error, *moments = eight_schools()
    draws = iso.interop.numpyro.posterior(model, (np.arange(8, dtype=np.int32), error, y)).sample(
        progress=False
    )
    summary = draws.summary()
    assert "No fault" in summary.verdict
    for name, (mean, sd) in zip(("mean", "spread"), moments, strict=True):
        row = summary[name]
        assert abs(row.mean - mean) < FAR * row.mcse, (name, row, mean)
        # The sd of N effective draws has an error of sd / sqrt(2 N); the tail of the spread makes it twice that.
        assert abs(row.sd / sd - 1) < FAR * 2 / (2 * row.ess_bulk) ** 0.5, (name, row, sd)
