"""The check of a run's arithmetic: it passes for a sound run, and each kind of fault is in the verdict."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm import tree
from isotherm.chains import verify
from isotherm.chains.verify import part_to_check, verified
from isotherm.draws.record import Arithmetic
from support.table import slow_unless

FORCE, JUMP = (
    "the force that the chains used differs",
    "along a line through the posterior the log-density changes by",
)

pytestmark = pytest.mark.usefixtures("quick_compilation")


@functools.cache
def raw_columns():
    """Logistic regression on latitude, longitude and their product as they are, and the setup of the warm-up."""
    rng, N = np.random.default_rng(0), 20_000
    lat, lon = rng.normal(45, 2, N), rng.normal(-100, 5, N)
    x = np.column_stack([np.ones(N), lat, lon, lat * lon]).astype(np.float32)
    p = 1 / (1 + np.exp(-0.3 * (lat - 45) + 0.1 * (lon + 100)))
    data = {"x": x, "y": np.where(rng.random(N) < p, 1, -1).astype(np.float32)}
    posterior = iso.Posterior(lambda w, row: jax.nn.log_sigmoid(row["y"] * (row["x"] @ w)))
    return posterior, data, iso.warmup(posterior, data, jnp.zeros(4), progress=False)


def sample(setup):
    posterior, data, _ = raw_columns()
    return iso.sample(posterior, data, setup, num_draws=20, progress=False)


@pytest.mark.slow
def test_the_arithmetic_of_a_sound_run():
    draws = sample(raw_columns()[2])
    arithmetic = draws.record.arithmetic
    assert arithmetic.dtype == "float32"
    assert arithmetic.rounding < 1e-3
    assert arithmetic.force_error < 0.003
    assert arithmetic.density_error < 1e-6
    verdict = draws.summary().verdict
    assert FORCE not in verdict
    assert JUMP not in verdict
    assert "cannot hold" not in verdict
    again = type(draws.record).from_json(draws.record.to_json())
    assert again.arithmetic == arithmetic


def test_a_wrong_known_hessian_is_in_the_verdict():
    """One that is 1.3 times too large adds 0.3 H v to the force; the check says by how much."""
    setup = raw_columns()[2]
    hessian = setup.gradient.sums[2]
    wrong = setup.with_gradient(eqx.tree_at(lambda g: g.sums[2], setup.gradient, 1.3 * hessian))
    draws = sample(wrong)
    # The last draws are the last positions. The force is checked at points near those of the first and last chain.
    v = jax.vmap(setup.preconditioner.from_params)(jnp.asarray(draws.posterior[[-1, 0], -1]))
    points = verify._from_mode(np.asarray(v, np.float64), 1.0)
    v = np.stack([points[np.argmin(np.linalg.norm(points - end, axis=1))] for end in np.asarray(v)])
    added = 0.3 * v @ np.asarray(hessian, np.float64)
    assert draws.record.arithmetic.force_error == pytest.approx(np.sqrt(np.mean(added**2)), rel=0.02)
    assert draws.record.arithmetic.density_error < 1e-6
    assert FORCE in draws.summary().verdict


def test_a_hessian_that_was_added_up_in_single_precision_is_found():
    """Over the parameters, row by row: what the first version of the library used on these columns."""
    _, data, setup = raw_columns()
    theta, root = (
        np.asarray(x, np.float64) for x in (setup.preconditioner.center, setup.preconditioner.root)
    )
    x = data["x"]
    p = 1 / (1 + np.exp(-x.astype(np.float64) @ theta))
    terms = (p * (1 - p)).astype(np.float32)[:, None, None] * x[:, :, None] * x[:, None, :]
    hessian = np.cumsum(terms, axis=0, dtype=np.float32)[-1].astype(np.float64)
    narrow = jnp.asarray(-root.T @ hessian @ root, jnp.float32)
    wrong = setup.with_gradient(eqx.tree_at(lambda g: g.sums[2], setup.gradient, narrow))
    ends = np.random.default_rng(1).normal(size=(2, 4))
    check = lambda setup: verified(setup, ends).force_error
    assert check(wrong) > 1
    assert check(setup) < 0.003


def by_hand(posterior, data, init, gradient=None, **options):
    """Return a setup that is checked although a user has chosen it, so that nothing needs a warm-up."""
    options = {"sampler": iso.SGLD(1e-3), "batch_size": 10} | options
    setup = iso.setup(
        posterior, data, init, gradient=iso.FullData() if gradient is None else gradient, **options
    )
    return dataclasses.replace(setup, arithmetic=Arithmetic("float32"))


def check(setup, first, last, rows_used=0.0):
    """Return what the check finds at two positions."""
    ends = np.stack([tree.flat(first), tree.flat(last)])
    return verified(setup, ends, part=part_to_check(setup, rows_used, key=jax.random.key(0)))


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_a_sound_posterior_has_no_error_whatever_its_prior_and_temperature(temperature):
    """U is a polynomial of degree 6 along a line, which the rule integrates exactly; the prior is most of it."""
    posterior = iso.Posterior(
        lambda p, row: -0.5 * (row - p["m"]) ** 2,
        lambda p: -10.0 * p["m"] ** 6 - 5.0 * p["s"] ** 2 + 3.0 * p["s"],
        temperature=temperature,
    )
    rows = np.random.default_rng(2).normal(size=50).astype(np.float32)
    setup = by_hand(posterior, rows, {"m": jnp.zeros(()), "s": jnp.zeros(())})
    found = check(setup, {"m": -0.5, "s": 1.0}, {"m": 1.5, "s": -2.0})
    assert found.density_error < 1e-10
    assert found.integration_error > 1
    assert found.force_error < 1e-4


@pytest.mark.slow
def test_control_variates_are_checked_in_their_coordinates():
    posterior = iso.Posterior(lambda w, row: -jnp.exp(row @ w), lambda w: -0.5 * jnp.sum(w**2))
    rows = np.random.default_rng(3).normal(size=(50, 2)).astype(np.float32)
    root = np.array([[0.2, 0.0], [0.1, 0.05]], np.float32)
    coordinates = iso.DensePreconditioner(jnp.zeros(2), jnp.asarray(root), jnp.asarray(np.linalg.inv(root)))
    setup = by_hand(posterior, rows, jnp.zeros(2), iso.ControlVariate(order=2), preconditioner=coordinates)
    setup = setup.bound(jnp.zeros((4, 2)))
    v = np.array([[1.0, -0.5], [-2.0, 1.0]])
    assert check(setup, *v).force_error < 1e-4
    # The gradient at the anchor, in sd: what is left out is the error, whatever the position.
    gradient = np.asarray(setup.gradient.sums[1], np.float64)
    without = setup.with_gradient(eqx.tree_at(lambda g: g.sums[1], setup.gradient, jnp.zeros(2)))
    assert check(without, *v).force_error == pytest.approx(np.sqrt(np.mean(gradient**2)), rel=1e-3)


@jax.custom_vjp
def wrong_square(x):
    """-x^2 / 2 with a gradient that is 1.2 times too large."""
    return -0.5 * x**2


wrong_square.defvjp(lambda x: (wrong_square(x), x), lambda x, g: (-1.2 * g * x,))


@pytest.mark.parametrize("fewest", [4096, 10])
def test_the_error_of_a_wrong_gradient_is_that_of_all_rows(monkeypatch, fewest):
    """60 equal rows: U changes by 60 (2^2 - 0.5^2) / 2, and a tenth of the rows stand for all of them."""
    monkeypatch.setattr(verify, "_FEWEST_ROWS", fewest)
    setup = by_hand(
        iso.Posterior(lambda m, row: wrong_square(m - row)), np.zeros(60, np.float32), jnp.zeros(())
    )
    found = check(setup, 0.5, 2.0)
    assert found.density_error == pytest.approx(0.2 * 60 * (2.0**2 - 0.5**2) / 2, rel=1e-6)
    assert found.force_error < 1e-4


@pytest.mark.slow
def test_a_wrong_gradient_is_in_the_verdict():
    """Twenty parameters: U differs by 4 between two chains, the integral of its gradient by 1.2 times as much."""
    rows = np.random.default_rng(4).normal(size=(100, 20)).astype(np.float32)
    posterior = iso.Posterior(lambda m, row: jnp.sum(wrong_square(m - row)))
    sampler = iso.CCAdL(0.05, 10.0, iso.Diagonal(), scheme="symmetric")
    setup = by_hand(posterior, rows, jnp.zeros(20), sampler=sampler, burn_in=50, thinning=5)
    draws = iso.sample(posterior, rows, setup, num_draws=20, progress=False)
    verdict = draws.summary().verdict
    assert JUMP in verdict
    assert FORCE not in verdict


def scaled_gradient(factor):
    """Return the identity with a gradient that is `factor` times too large, which JAX can differentiate twice."""

    @jax.custom_jvp
    def identity(x):
        return x

    identity.defjvp(lambda x, dx: (identity(*x), factor * dx[0]))
    return identity


@pytest.mark.slow
@pytest.mark.parametrize(("size", "factor"), [(1, 1.1), (3, 1.1), (10, 1.2), (50, 1.1)])
def test_a_gradient_that_is_wrong_by_a_factor_is_found_whatever_the_number_of_parameters(size, factor):
    """From the mode to r sd, U changes by r^2/2 in the sd of the right gradient, the integral by `factor` times that.

    The coordinates are those of the wrong Hessian. r is 4, or more with many parameters.
    """
    rows = np.random.default_rng(size).normal(size=(200, size)).astype(np.float32)
    wrong = scaled_gradient(factor)
    posterior = iso.Posterior(lambda m, row: wrong(-0.5 * jnp.sum((m - row) ** 2)))
    setup = iso.warmup(posterior, rows, jnp.zeros(size), progress=False)
    v = np.random.default_rng(1).normal(size=(2, size))
    found = verified(setup, np.asarray(v, np.float64))
    radius = np.maximum(4, np.linalg.norm(v, axis=1)).max()
    assert found.density_error == pytest.approx(abs(factor - 1) / factor * radius**2 / 2, rel=1e-3)
    assert found.density_error > 2 * (0.3 + found.integration_error)
    assert found.force_error < 1e-3


@pytest.mark.slow
def test_a_default_run_with_a_wrong_gradient_of_three_parameters_is_not_trusted():
    rows = np.random.default_rng(10).normal(size=(300, 3)).astype(np.float32)
    wrong = scaled_gradient(1.2)
    posterior = iso.Posterior(lambda m, row: wrong(-0.5 * jnp.sum((m - row) ** 2)))
    draws = iso.sample(posterior, rows, jnp.zeros(3), num_draws=20, progress=False)
    assert draws.record.arithmetic.density_error == pytest.approx(16 / 2 / 6, rel=0.2)
    assert JUMP in draws.summary().verdict


def sound(kind):
    """Return a posterior that the warm-up takes for nearly normal, its rows and a start."""
    rng = np.random.default_rng(7)
    x = np.column_stack([np.ones(400), rng.normal(size=(400, 2))]).astype(np.float32)
    line = {"x": x, "y": (x[:, 1] + rng.normal(size=400)).astype(np.float32)}
    rare = {"x": x, "y": np.where(np.arange(400) < 4, 1, -1).astype(np.float32)}
    hinge = {"x": x[:10], "y": (np.maximum(1 + x[:10, 1], 0) + 0.3 * rng.normal(size=10)).astype(np.float32)}
    counts = {"x": x, "y": rng.poisson(0.05, size=400).astype(np.float32)}
    narrow = lambda w: -0.5 * jnp.sum(w**2) / 0.05**2
    logistic = lambda w, row: jax.nn.log_sigmoid(row["y"] * (row["x"] @ w))
    student = lambda w, row: -2.0 * jnp.log1p((row["y"] - row["x"] @ w) ** 2 / 3)
    normal = lambda w, row: -0.5 * (row["y"] - row["x"] @ w) ** 2
    relu = lambda w, row: -0.5 * (row["y"] - jax.nn.relu(row["x"] @ w)) ** 2
    wide = lambda w: -0.5 * jnp.sum(w**2)
    poisson = lambda w, row: row["y"] * (row["x"] @ w) - jnp.exp(row["x"] @ w)
    scale = lambda p, row: -0.5 * ((row - p["m"]) * jnp.exp(-p["s"])) ** 2 - p["s"]
    funnel = lambda p: -0.5 * (p["s"] / 2) ** 2 - 0.5 * (p["m"] * jnp.exp(-p["s"])) ** 2 - p["s"]
    few = rng.normal(size=12).astype(np.float32)
    return {
        "normal": (iso.Posterior(normal), line, jnp.zeros(3)),
        "rare events": (iso.Posterior(logistic), rare, jnp.zeros(3)),
        "Poisson": (iso.Posterior(poisson), counts, jnp.zeros(3)),
        "Student-t": (iso.Posterior(student), line, jnp.zeros(3)),
        "scale of few rows": (iso.Posterior(scale, funnel), few, {"m": jnp.zeros(()), "s": jnp.zeros(())}),
        "kinks": (iso.Posterior(relu, wide), hinge, 0.5 * jnp.ones(3)),
        "hot": (iso.Posterior(logistic, temperature=5.0), rare | {"y": np.sign(line["y"])}, jnp.zeros(3)),
        "strong prior": (iso.Posterior(logistic, narrow), rare, jnp.zeros(3)),
    }[kind]


@pytest.mark.parametrize(
    "kind",
    slow_unless(
        [],
        [
            "normal",
            "rare events",
            "Poisson",
            "Student-t",
            "scale of few rows",
            "kinks",
            "hot",
            "strong prior",
        ],
    ),
)
def test_sound_posteriors_are_not_alarmed(kind):
    """In any of 20 pairs of directions, and as far as draws may go: the integral is good to far less than 0.3 T."""
    posterior, data, init = sound(kind)
    setup = iso.warmup(posterior, data, init, progress=False)
    assert verify._mode_is_known(setup)
    size, sd = setup.num_parameters, setup.problem.temperature**0.5
    pairs = sd * np.random.default_rng(8).normal(size=(20, 2, size)) * np.linspace(0.1, 2, 20)[:, None, None]
    checks = [verified(setup, pair) for pair in pairs]
    excess = [found.density_error - found.integration_error for found in checks]
    assert max(excess) < (0.15 if kind == "kinks" else 0.05)
    assert max(found.force_error for found in checks) < 0.01


@pytest.mark.slow
def test_where_the_density_ends_the_line_between_two_draws_is_used():
    """A row of exponential waiting times without a transform: 4 sd to the left of the mode, the rate is negative."""
    rows = np.random.default_rng(9).exponential(size=9).astype(np.float32)
    posterior = iso.Posterior(lambda rate, t: jnp.log(rate) - rate * t)
    setup = iso.warmup(posterior, rows, jnp.ones(()), progress=False)
    setup = dataclasses.replace(setup, starts=dataclasses.replace(setup.starts, points=None))
    ends = np.array([[-1.0], [0.5]])
    assert np.isnan(verify._in_float64(setup, verify._from_mode(ends, 1.0), None)[0]).any()
    found = verified(setup, ends)
    assert found.density_error < 0.01
    assert found.force_error < 0.01


@pytest.mark.slow
def test_a_jump_is_in_the_verdict():
    """A change point: the gradient of its time is that of the prior alone, and the prior comes back."""
    rng = np.random.default_rng(5)
    t = rng.random(500).astype(np.float32)
    data = {"t": t, "y": (rng.normal(size=500) + (t > 0.4)).astype(np.float32)}
    posterior = iso.Posterior(
        lambda p, row: -0.5 * (row["y"] - jnp.where(row["t"] > p["tau"], p["a"], p["b"])) ** 2,
        lambda p: -0.5 * ((p["tau"] - 0.5) / 0.2) ** 2 - 0.5 * p["a"] ** 2 - 0.5 * p["b"] ** 2,
    )
    sampler = iso.CCAdL(0.03, 5.0, iso.Diagonal(), scheme="symmetric")
    init = {"tau": jnp.asarray(0.5), "a": jnp.ones(()), "b": jnp.zeros(())}
    setup = by_hand(posterior, data, init, sampler=sampler, burn_in=100, thinning=10)
    draws = iso.sample(posterior, data, setup, num_draws=20, progress=False)
    assert draws.record.arithmetic.density_error > 3 * draws.record.arithmetic.integration_error
    verdict = draws.summary().verdict
    assert JUMP in verdict
    assert "it has jumps, which no gradient shows" in verdict
    assert FORCE not in verdict


@pytest.mark.slow
def test_a_likelihood_that_fixes_float32_is_not_checked_and_the_verdict_says_so():
    rows = np.random.default_rng(6).normal(size=300).astype(np.float32)
    posterior = iso.Posterior(lambda m, row: -0.5 * (row - m.astype(jnp.float32)) ** 2)
    draws = iso.sample(posterior, rows, jnp.zeros(()), progress=False)
    assert draws.record.arithmetic.force_error is None
    verdict = draws.summary().verdict
    assert verdict.startswith("No fault found")
    assert (
        "was not checked in float64: the log-likelihood returns float32 for parameters in float64." in verdict
    )
