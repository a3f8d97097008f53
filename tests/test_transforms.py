"""Constrained parameters: bijections, their Jacobians, and posteriors that never leave their support."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_ndtr

import isotherm as iso
from isotherm.models import gaussian
from isotherm.transforms import Constraint
from support.monte_carlo import LIMIT

TRANSFORMS = {
    "positive": (iso.Positive(), 3),
    "bounded": (iso.Bounded(-2.0, 5.0), 3),
    "ordered": (iso.Ordered(), 4),
    "simplex": (iso.Simplex(), 3),
}
each = pytest.mark.parametrize(("transform", "size"), TRANSFORMS.values(), ids=TRANSFORMS.keys())

pytestmark = pytest.mark.usefixtures("quick_compilation")


@each
def test_there_and_back_and_the_volume_between(transform, size):
    """log |det| of the Jacobian equals that of autodiff (for a simplex, of all coordinates but the last)."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=size), jnp.float32)
    y = transform(x)
    np.testing.assert_allclose(transform.inv(y), x, rtol=1e-4, atol=1e-5)
    jacobian = np.asarray(jax.jacobian(transform)(x), np.float64)[:size]
    wanted = np.linalg.slogdet(jacobian)[1]
    assert float(jnp.sum(transform.log_abs_det_jacobian(x, y))) == pytest.approx(wanted, rel=1e-4)


@each
def test_values_are_inside_the_support(transform, size):
    """Also with leading axes, as in draws."""
    y = np.asarray(transform(jnp.asarray(np.random.default_rng(1).normal(size=(5, 2, size)), jnp.float32)))
    match transform:
        case iso.Positive():
            assert (y > 0).all()
        case iso.Bounded():
            assert ((y > -2) & (y < 5)).all()
        case iso.Ordered():
            assert (np.diff(y, axis=-1) > 0).all()
        case iso.Simplex():
            assert (y > 0).all()
            np.testing.assert_allclose(y.sum(axis=-1), 1, rtol=1e-5)
            assert y.shape[-1] == size + 1


def test_transforms_may_be_a_prefix_of_the_tree():
    constraint = Constraint({"a": iso.Positive(), "b": None})
    free = {"a": {"x": jnp.zeros(2), "y": jnp.ones(())}, "b": [jnp.ones(3)]}
    params = constraint.constrained(free)
    np.testing.assert_allclose(params["a"]["y"], np.e, rtol=1e-6)
    np.testing.assert_array_equal(params["b"][0], 1)
    assert float(constraint.log_volume(free)) == pytest.approx(1.0)


class Exp:
    """A transform with NumPyro's method names."""

    def __call__(self, x):
        return jnp.exp(x)

    def _inverse(self, y):
        return jnp.log(y)

    def log_abs_det_jacobian(self, x, y):
        return x


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_density_of_the_free_parameters(temperature):
    """exp(-U/T) dy = exp(-U/T) |dy/dx| dx, for a transform of the library and one with NumPyro's methods."""
    x = np.array([0.5, 1.5], np.float32)
    y, free = {"s": jnp.asarray(2.0)}, {"s": jnp.log(2.0)}
    for transform in (iso.Positive(), Exp()):
        posterior = iso.Posterior(
            lambda p, row: -row * p["s"],
            lambda p: -p["s"],
            temperature=temperature,
            transforms={"s": transform},
        )
        plain = posterior.unconstrained
        wanted = float(posterior.log_density(y, x)) / temperature + np.log(2.0)
        assert float(plain.log_density(free, x)) / temperature == pytest.approx(wanted, rel=1e-6)
        assert plain.transforms is None
        np.testing.assert_allclose(posterior.constraint.free(y)["s"], free["s"], rtol=1e-6)


@pytest.mark.parametrize(
    ("init", "transforms", "message"),
    [
        ({"s": -1.0}, {"s": iso.Positive()}, "`init.s` must be inside the support of its transform"),
        ({"s": 0.0}, {"s": iso.Positive()}, "`init.s` must be inside the support"),
        ({"s": 5.0}, {"s": iso.Bounded(0.0, 1.0)}, "`init.s` must be inside the support"),
        ({"s": jnp.asarray([2.0, 3.0])}, {"s": iso.Simplex()}, "`init.s` must be inside the support"),
    ],
)
def test_a_start_outside_the_support_is_refused(init, transforms, message):
    posterior = iso.Posterior(lambda p, row: -row * p["s"], transforms=transforms)
    with pytest.raises(ValueError, match=message):
        iso.sample(posterior, np.ones(5, np.float32), init, sampler=iso.SGLD(1e-3), batch_size=2)
    with pytest.raises(ValueError, match="above low"):
        iso.Bounded(1.0, 0.0)


@pytest.mark.parametrize(
    ("transforms", "message"),
    [
        (
            {"w": None, "sgima": iso.Positive()},
            "there is no parameter `sgima`; `s` is missing. Write `None` for a",
        ),
        ({"s": iso.Positive()}, "do not: `w` is missing"),
        ({"s": iso.Positive(), "w": None, "v": None}, "do not: there is no parameter `v`"),
    ],
)
def test_transforms_of_other_parameters_are_named(transforms, message):
    posterior = iso.Posterior(lambda p, row: -row * p["s"], transforms=transforms)
    with pytest.raises(ValueError, match=message):
        iso.sample(
            posterior, np.ones(5, np.float32), {"s": 1.0, "w": 0.0}, sampler=iso.SGLD(1e-3), batch_size=2
        )


@pytest.mark.slow
def test_draws_and_moments_are_of_the_constrained_parameters():
    """The rate of exponential data is Gamma(N + 1, sum x + 1), and shares of counts are Dirichlet. Uses defaults."""
    rng = np.random.default_rng(3)
    counts = rng.choice(3, size=3000, p=[0.6, 0.3, 0.1])
    data = {"t": rng.exponential(0.5, size=3000).astype(np.float32), "k": np.eye(3, dtype=np.float32)[counts]}
    posterior = iso.Posterior(
        lambda p, row: jnp.log(p["rate"]) - p["rate"] * row["t"] + row["k"] @ jnp.log(p["share"]),
        lambda p: -p["rate"],
        transforms={"rate": iso.Positive(), "share": iso.Simplex()},
    )
    init = {"rate": jnp.asarray(1.0), "share": jnp.full(3, 1 / 3)}
    draws = iso.sample(posterior, data, init, num_draws=500, num_chains=32, progress=False)
    assert draws.posterior["share"].shape == (32, 500, 3)
    n = np.bincount(counts) + 1
    wanted = {"rate": (3001 / (1 + data["t"].sum()), 3001**0.5 / (1 + data["t"].sum()))}
    wanted["share"] = (n / n.sum(), np.sqrt(n * (n.sum() - n) / n.sum() ** 2 / (n.sum() + 1)))
    for name, (mean, sd) in wanted.items():
        x = np.asarray(draws.posterior[name], np.float64)
        error = x.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(32)
        assert (np.abs(x.mean(axis=(0, 1)) - mean) < 1.3 * LIMIT * error).all()
        ratio = x.var(axis=1, ddof=1) / np.square(sd)
        assert (np.abs(ratio.mean(axis=0) - 1) < 1.3 * LIMIT * ratio.std(axis=0, ddof=1) / np.sqrt(32)).all()
        np.testing.assert_allclose(draws.moments.mean[name].mean(axis=0), mean, atol=0.1 * np.max(sd))
    assert len(draws.summary().rows) == 4


@pytest.mark.slow
def test_the_gaussian_experiment_never_leaves_its_support():
    """At the large step of Table 1, a chain in gamma may step to gamma < 0; a chain in log gamma cannot."""
    model = gaussian()
    data = np.random.default_rng(0).normal(size=100).astype(np.float32)
    constrained = iso.Posterior(
        model.log_likelihood, model.log_prior, transforms={"mu": None, "gamma": iso.Positive()}
    )
    draws = iso.sample(
        constrained,
        data,
        {"mu": jnp.asarray(0.0), "gamma": jnp.asarray(1.0)},
        sampler=iso.CCAdL(0.05, 1.0, covariance=iso.Dense(), scheme="symmetric"),
        batch_size=10,
        num_draws=2000,
        num_chains=8,
        burn_in=1000,
        thinning=5,
        progress=False,
    )
    assert draws.complete.all()
    assert (draws.posterior["gamma"] > 0).all()


def test_a_simplex_keeps_its_small_shares():
    """If the first break takes almost the whole stick, the rest is small but not zero."""
    x = jnp.asarray([20.0, 0.0])
    y = np.asarray(iso.Simplex()(x), np.float64)
    left = np.exp(-20.0) * 2
    np.testing.assert_allclose(y[1:], [left / 2, left / 2], rtol=1e-4)


def test_the_temperature_is_that_of_the_posterior():
    posterior = iso.Posterior(lambda p, row: -row * p, transforms=iso.Positive())
    with pytest.raises(ValueError, match=r"`temperature` of `SGLD` must be left to the posterior"):
        iso.sample(
            posterior, np.ones(5, np.float32), 1.0, sampler=iso.SGLD(1e-3, temperature=4.0), batch_size=2
        )


@pytest.mark.parametrize(("dtype", "ends"), [(np.float32, (-12, 20)), (np.float64, (-35, 60))])
def test_a_scale_is_exact_close_to_zero_and_far_out(dtype, ends):
    """y = -c log(1 - Phi(x)) by SciPy, and its slope c phi(x) / (1 - Phi(x)), up to rounding of x^2 in the exponent.

    The relative error of the smallest y is that of exp(-x^2 / 2), which is x^2 / 2 times the rounding of a number.
    """
    x = np.linspace(*ends, 801).astype(dtype)
    scale, wide = iso.Scale(2.0), x.astype(np.float64)
    with jax.enable_x64(dtype == np.float64):
        y = np.asarray(jax.jit(scale)(jnp.asarray(x)), np.float64)
        slope = np.asarray(jax.vmap(jax.grad(scale))(jnp.asarray(x)), np.float64)
        volume = np.asarray(scale.log_abs_det_jacobian(jnp.asarray(x), jnp.asarray(y, dtype)), np.float64)
        back = np.asarray(scale.inv(jnp.asarray(y, dtype)), np.float64)
    upper = log_ndtr(-wide)
    log_slope = math.log(2) - wide**2 / 2 - 0.5 * math.log(2 * math.pi) - upper
    rounding = 8 * np.finfo(dtype).eps * (1 + wide**2 / 2)
    assert np.all(np.abs(y / (-2 * upper) - 1) < rounding)
    assert np.all(np.abs(np.log(slope) - log_slope) < rounding)
    assert np.all(np.abs(volume - log_slope) < rounding)
    middle = np.abs(wide) < 5
    np.testing.assert_allclose(back[middle], wide[middle], atol=50 * np.finfo(dtype).eps)
