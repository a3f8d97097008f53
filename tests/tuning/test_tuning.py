"""The warm-up: mode, coordinates, tickets of rows, and the draws of `iso.sample` given nothing but the model."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.models import logistic_regression
from isotherm.preconditioner import DensePreconditioner, in_coordinates
from isotherm.sampling.prepare import prepare
from isotherm.sums import precision
from isotherm.sums.fold import Part
from isotherm.tuning import metric, newton
from isotherm.tuning.explore import explore
from isotherm.tuning.probe import Probe, _spread_out, normal_bins
from isotherm.tuning.sketch import sketch
from isotherm.tuning.tickets import RowsInMemory
from support.monte_carlo import LIMIT

RNG = np.random.default_rng(0)


def reasons(chosen):
    """The reasons of a setup or of draws, by choice."""
    listed = chosen.reasons if isinstance(chosen, iso.Setup) else chosen.record.reasons
    return {reason.choice: reason for reason in listed}


def regression(num_data=20_000):
    """Correlated columns on scales from 0.01 to 100, known noise: the posterior is normal with known moments."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(num_data, 4)) @ np.linalg.cholesky(0.2 * np.eye(4) + 0.8) * [0.01, 1.0, 1.0, 100.0]
    y = x @ [20.0, -1.0, 0.5, 0.01] + rng.normal(size=num_data)
    posterior = iso.Posterior(
        lambda w, rows: -0.5 * (rows["y"] - rows["x"] @ w) ** 2,
        lambda w: -0.005 * jnp.sum(w**2),
        batched=True,
    )
    data = {"x": x.astype(np.float32), "y": y.astype(np.float32)}
    wide = {k: v.astype(np.float64) for k, v in data.items()}
    precision = wide["x"].T @ wide["x"] + 0.01 * np.eye(4)
    covariance = np.linalg.inv(precision)
    return posterior, data, covariance @ wide["x"].T @ wide["y"], covariance


@pytest.mark.parametrize(("wide", "error"), [(False, 1e-3), (True, 1e-9)], ids=["float32", "float64"])
def test_newton_finds_the_mode_of_a_normal_posterior(wide, error):
    posterior, data, mean, covariance = regression()
    rows = jax.tree.map(jnp.asarray, data)
    with precision.float64(wide):
        start = jnp.asarray([1e3, -1e3, 1e3, 10.0], float)
        top = newton.climb(posterior, rows, start, key=jax.random.key(0))
    off = (np.asarray(top.point.theta, np.float64) - mean) / np.sqrt(np.diag(covariance))
    assert np.sqrt(np.mean(off**2)) < 0.1
    root = np.asarray(top.point.frame.root, np.float64)
    found = root @ np.linalg.inv(top.point.hessian) @ root.T
    np.testing.assert_allclose(found, covariance, rtol=error, atol=0)
    assert top.passes < 6


@pytest.mark.parametrize("second", ["hessian", "fisher"])
@pytest.mark.usefixtures("quick_compilation")
def test_a_part_of_the_rows_stands_for_all(second):
    """The mean of U over four parts of equal size is U of all rows, with its prior; so are its derivatives."""
    posterior, data, mean, covariance = regression(400)
    rows, key = jax.tree.map(jnp.asarray, data), jax.random.key(0)
    root = np.linalg.cholesky(covariance)
    with precision.float64():
        frame = DensePreconditioner(*(jnp.asarray(x) for x in (mean + 1, root, np.linalg.inv(root))))
        whole = newton.point_at(posterior, rows, frame, second=second)
        parts = [Part(key, end, end - 100) for end in (100, 200, 300, 400)]
        points = [newton.point_at(posterior, rows, frame, part=part, second=second) for part in parts]
    assert np.std([p.value for p in points]) > 1e-3 * whole.value
    for name in ("value", "gradient", "hessian"):
        parts_of_it = np.mean([getattr(p, name) for p in points], axis=0)
        np.testing.assert_allclose(parts_of_it, getattr(whole, name), rtol=1e-9, atol=1e-9 * whole.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["student", "laplace"])
def test_newton_where_the_hessian_misleads(name):
    """Far from the mode Student's t is concave, and Laplace's distribution has no curvature anywhere."""
    rng = np.random.default_rng(2)
    x = (5 + rng.standard_t(3, size=3000)).astype(np.float32)
    density = {"student": lambda z: -2 * jnp.log1p(z**2 / 3), "laplace": lambda z: -jnp.abs(z)}[name]
    posterior = iso.Posterior(
        lambda p, row: density((row - p["m"]) * jnp.exp(-p["s"])) - p["s"],
        lambda p: -0.5 * (p["m"] / 100) ** 2 - 0.5 * p["s"] ** 2,
    )
    start = {"m": jnp.asarray(-20.0), "s": jnp.zeros(())}
    top = newton.climb(posterior, jnp.asarray(x), start, key=jax.random.key(1))
    grid = np.linspace(4.5, 5.5, 201)
    u = [-float(posterior.log_density({"m": jnp.asarray(m), "s": top.point.theta["s"]}, x)) for m in grid]
    assert abs(float(top.point.theta["m"]) - grid[int(np.argmin(u))]) < 0.1 * 3 / np.sqrt(3000) + 0.005
    fitted = metric.find_metric(posterior, jnp.asarray(x), top, key=jax.random.key(0))
    assert ("Fisher" in fitted.kind) == (name == "laplace")


def test_whitened_curvature_is_the_identity():
    matrix = np.array([[4.0, 1.0, 0.0], [1.0, 100.0, -3.0], [0.0, -3.0, 0.5]])
    root, inverse = newton.whitening(matrix, 0.0, 1e-16)
    np.testing.assert_allclose(root.T @ matrix @ root, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(root @ inverse, np.eye(3), atol=1e-12)
    # Each coordinate is closest to the parameter of the same index: v_j has its largest correlation with theta_j.
    correlation = root / np.sqrt(np.diag(np.linalg.inv(matrix)))[:, None]
    assert (np.argmax(np.abs(correlation), axis=0) == np.arange(3)).all()


def tickets_of(plan):
    """Return the tickets of each row, from its weight: (sum of tickets) / (N tickets)."""
    return np.rint(plan.total / len(plan.weights) / np.asarray(plan.weights, np.float64)).astype(int)


def test_tickets_follow_the_noise_and_lower_it():
    squares = np.array([np.ones(1000), np.where(np.arange(1000) % 100, 1e-6, 1.0), np.zeros(1000)])
    rows = RowsInMemory(jnp.arange(1000), tuple(jnp.asarray(np.sqrt(squares), jnp.float32)), 1, 0.0)
    tickets = tickets_of(rows.plan(1))
    assert (tickets >= 1).all()
    assert tickets.sum() == 2000  # of one shape, whatever the noise
    assert tickets[::100].min() > 80
    # C of one row is (sum of tickets) * sum (squares / tickets) against N * sum squares.
    equal, weighted = rows.noise()
    np.testing.assert_allclose(equal, 1000 * squares.sum(axis=1), rtol=1e-6)
    assert weighted[1] < equal[1] / 40
    assert weighted[1] == pytest.approx(2000 * np.sum(squares[1] / tickets), rel=0.02)  # tickets are integers
    assert (tickets_of(rows.plan(2)) == 2).all()
    chosen = rows.representatives(1)
    assert set(chosen.index[: chosen.num_top]) >= set(range(0, 1000, 100))
    assert np.array_equal(np.asarray(chosen.rows), chosen.index)
    assert chosen.copies.sum() == pytest.approx(1000)


@pytest.mark.slow
def test_tickets_of_many_rows_add_up():
    """Running sums of 32 bits would be wrong by hundreds at 2^25 rows, and rows at the end would lose theirs."""
    N = 2**25
    rows = RowsInMemory(jnp.arange(N), (jnp.full(N, 0.7, jnp.float32),), 1, 0.0)
    tickets = tickets_of(rows.plan(0))
    assert tickets.min() == tickets.max() == 2


def test_points_of_the_probe_reach_both_ends_of_every_coordinate():
    """A rare row is noisy at one end of one coordinate: no coordinate may miss it, whatever the key."""
    for seed in range(3):
        points = np.asarray(_spread_out(jnp.zeros(40), jnp.asarray(2.0), 8, jax.random.key(seed)))
        np.testing.assert_allclose(
            np.sort(points, axis=0), 2 * np.repeat(normal_bins(8)[:, None], 40, axis=1), rtol=1e-6
        )
        assert (
            abs(np.corrcoef(points.T) - np.eye(40)).max() > 0.5
        )  # coordinates are not in step with each other
    z = np.random.default_rng(0).standard_normal(10**6)
    ends = np.quantile(z, np.arange(9) / 8)
    roots = [np.sqrt(np.mean(z[(z >= a) & (z <= b)] ** 2)) for a, b in pairwise(ends)]
    np.testing.assert_allclose(np.abs(normal_bins(8)), roots, rtol=0.01)  # 10^6 / 8 numbers in each bin


@pytest.mark.slow
def test_the_probe_measures_the_noise():
    """Against gradients of the rows of a logistic regression by hand; 8 probes of 2,000 rows and 5 directions."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(2000, 5)) * [1, 1, 1, 1, 3]
    y = np.where(rng.random(2000) < 0.5, 1, -1)
    data = {"x": jnp.asarray(x, jnp.float32), "y": jnp.asarray(y, jnp.float32)}
    posterior = logistic_regression()
    top = newton.climb(posterior, data, jnp.zeros(5), key=jax.random.key(2))
    chart = metric.find_metric(posterior, data, top, key=jax.random.key(3)).preconditioner
    density = in_coordinates(posterior, chart)
    probe = Probe(density, data, jnp.zeros(5), 1.0)
    rows = probe.all_rows(key=jax.random.key(0))
    z, a = x @ np.asarray(chart.root, np.float64), np.asarray(top.point.theta, np.float64)
    at = lambda w: (y / (1 + np.exp(y * (x @ w))))[:, None] * z
    exact = 2000 * np.mean(np.sum((at(a) - at(a).mean(0)) ** 2, axis=1)) * 2000 / 5
    assert rows.noise()[0][0] == pytest.approx(
        exact, rel=0.35
    )  # 30 squares of normal numbers: 5 x 0.26 / sqrt(...)
    equal, _ = rows.noise()
    assert equal[2] < 0.1 * equal[1] < 0.01 * equal[0]
    chosen = rows.representatives(0)
    weights = rows.weights(0, iso.WithReplacement(), chosen)
    worst = probe.lead(density, chosen, weights, key=jax.random.key(1))
    moment = 2000 * at(a).T @ at(a)
    assert worst == pytest.approx(np.linalg.eigvalsh(moment)[-1], rel=0.1)


@pytest.mark.slow
def test_the_record_is_reusable_and_says_why():
    posterior, data, *_ = regression(2000)
    tuned = iso.warmup(posterior, data, jnp.zeros(4), seed=3)
    printed = str(tuned)
    for name in ("mode", "preconditioner", "gradient", "minibatch", "batch_size", "step_size", "friction"):
        assert name in printed
    assert tuned.passes < 15
    common = {"num_draws": 20, "num_chains": 2, "seed": 3, "progress": False}
    first = iso.sample(posterior, data, tuned, **common)
    again = iso.sample(posterior, data, jnp.zeros(4), **common)
    np.testing.assert_array_equal(first.posterior, again.posterior)
    assert reasons(first)["gradient"].value == "control variate, order 2"
    assert first.record.burn_in == tuned.burn_in
    fewer = iso.sample(posterior, data, tuned, thinning=1, burn_in=0, **common)
    assert fewer.record.steps == 20


def exact_check(draws, mean, covariance):
    """Means, variances and correlations against a normal posterior, by the spread of many chains."""
    x = np.asarray(draws.posterior, np.float64)
    w = np.linalg.inv(np.linalg.cholesky(covariance))
    v = (x - mean) @ w.T
    chains = len(v)
    for f in (
        v.mean(axis=1),
        np.einsum("cdi,cdj->cij", v, v).reshape(chains, -1) / v.shape[1] - np.eye(4).ravel(),
    ):
        error = f.std(axis=0, ddof=1) / np.sqrt(chains)
        assert (
            np.abs(f.mean(axis=0) / error).max() < LIMIT * 1.15
        )  # t with 63 degrees at the level of 5 sigma


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_the_default_on_a_normal_posterior(temperature):
    posterior, data, mean, covariance = regression()
    posterior = iso.Posterior(
        posterior.log_likelihood, posterior.log_prior, batched=True, temperature=temperature
    )
    draws = iso.sample(posterior, data, jnp.zeros(4), num_draws=400, num_chains=64, progress=False)
    exact_check(draws, mean, covariance * temperature)


@pytest.mark.slow
def test_the_default_on_a_skewed_posterior():
    """Rare events: 100 of 20,000. Against quadrature in two dimensions."""
    rng = np.random.default_rng(5)
    x = np.column_stack([rng.normal(size=20_000), np.ones(20_000)])
    y = np.where(rng.random(20_000) < 1 / (1 + np.exp(5.8 - 0.8 * x[:, 0])), 1.0, -1.0)
    data = {"x": x.astype(np.float32), "y": y.astype(np.float32)}
    draws = iso.sample(
        logistic_regression(3.0), data, jnp.zeros(2), num_draws=1000, num_chains=32, progress=False
    )
    d = np.asarray(draws.posterior, np.float64).reshape(-1, 2)
    centre, reach = d.mean(axis=0), 6 * d.std(axis=0)
    grids = [np.linspace(c - r, c + r, 121) for c, r in zip(centre, reach, strict=True)]
    W = np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1).reshape(-1, 2)
    u = np.array([np.logaddexp(0, -y * (x @ w)).sum() + w @ w / 18 for w in W])
    p = np.exp(u.min() - u)
    p = p / p.sum()
    mean = p @ W
    sd = np.sqrt(p @ (W - mean) ** 2)
    by_chain = np.asarray(draws.posterior, np.float64)
    error = by_chain.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(32)
    assert (np.abs(d.mean(axis=0) - mean) < LIMIT * 1.3 * error).all()  # t with 31 degrees
    # Control of the mean noise alone leaves a bias of s/2 at most in the variance; s came out at a third of its 0.15.
    ratio = by_chain.var(axis=1) / sd**2
    assert (
        np.abs(ratio.mean(axis=0) - 1) < 0.025 + LIMIT * 1.3 * ratio.std(axis=0, ddof=1) / np.sqrt(32)
    ).all()


def small(temperature=1.0):
    rng = np.random.default_rng(6)
    x = rng.normal(size=(300, 2)).astype(np.float32)
    data = {
        "x": x,
        "y": np.where(rng.random(300) < 1 / (1 + np.exp(-x @ [1.0, -1.0])), 1, -1).astype(np.float32),
    }
    base = logistic_regression()
    return iso.Posterior(base.log_likelihood, base.log_prior, batched=True, temperature=temperature), data


@pytest.mark.slow
def test_a_setup_is_refused_for_another_posterior_data_or_batch():
    posterior, data = small()
    tuned = iso.warmup(posterior, data, jnp.zeros(2))
    with pytest.raises(ValueError, match=r"setup for this data; it was made for other data"):
        iso.sample(posterior, {**data, "y": -data["y"]}, tuned)
    with pytest.raises(ValueError, match=r"setup for this posterior; it was made for another posterior"):
        iso.sample(logistic_regression(2.0), data, tuned)
    with pytest.raises(ValueError, match=r"the batch size of the setup that is passed as `init`"):
        iso.sample(posterior, data, tuned, batch_size=tuned.batch_size + 1)
    with pytest.raises(ValueError, match=r"`init` must be a pytree of parameters"):
        iso.sweep(posterior, data, tuned, [iso.SGLD(1e-3)], batch_size=10)


@pytest.mark.slow
def test_the_noise_is_measured_in_units_of_the_temperature():
    """At a quarter of the temperature the posterior is half as wide, and s is that of h^2 C / T."""
    setups = [iso.warmup(*small(T), jnp.zeros(2), batch_size=32) for T in (1.0, 0.25)]
    s = [float(reasons(w)["batch_size"].why.split("s = ")[1].split(" ")[0]) for w in setups]
    # What is left to second order has a variance of the fourth power of the width: 1/16, over T = 1/4.
    assert s[1] / s[0] == pytest.approx(0.25, rel=0.6)
    assert setups[1].starts.spread == pytest.approx(0.5 * setups[0].starts.spread)


@pytest.mark.slow
@pytest.mark.parametrize(
    "likelihood", [lambda w, r: r * w, lambda w, r: -0.5 * w**2 + 0 * r], ids=["linear", "equal"]
)
def test_rows_without_noise(likelihood):
    rows = np.linspace(-1, 1, 50).astype(np.float32)
    tuned = iso.warmup(iso.Posterior(likelihood, lambda w: -0.5 * w**2), rows, jnp.zeros(()))
    assert float(tuned.sampler.step_size) > 0


@pytest.mark.slow
def test_what_a_warm_up_cannot_do_is_refused():
    posterior, data = small()
    cases = (
        (lambda: iso.warmup(posterior, {k: v[:1] for k, v in data.items()}, jnp.zeros(2)), "at least 2 rows"),
        (
            lambda: iso.warmup(posterior, data, jnp.zeros(2), batch_size=301),
            "at most the number of rows, 300",
        ),
        (
            lambda: iso.sample(posterior, data, jnp.zeros(2), init_scale=0.1),
            "`init_scale` can only be set together with `sampler`; got 0.1",
        ),
        (
            lambda: iso.warmup(
                iso.Posterior(posterior.log_likelihood, lambda w: -jnp.sqrt(jnp.sum(w**2)), batched=True),
                data,
                jnp.zeros(2),
            ),
            "must have a finite gradient at `init`",
        ),
    )
    for call, message in cases:
        with pytest.raises((ValueError, TypeError), match=message):
            call()


@pytest.mark.usefixtures("quick_compilation")
def test_a_sketch_uses_every_row_at_one_of_the_points():
    """Also the only row with a rare feature. The rows' gradients are the rows, whatever the point."""
    x = np.random.default_rng(8).normal(size=(103, 3)).astype(np.float32)
    x[:, 2] = 0
    x[57, 2] = 2
    posterior = iso.Posterior(
        lambda w, row: row @ w, lambda w: -0.5 * jnp.sum(jnp.asarray([1.0, 4.0, 0.0]) * w**2)
    )
    points = jnp.asarray(np.random.default_rng(9).normal(size=(4, 3)), jnp.float32)
    chart = sketch(posterior, jnp.asarray(x), points, key=jax.random.key(0))
    curvature = np.sum(x.astype(np.float64) ** 2, axis=0) + np.array([1.0, 4.0, 0.0])
    np.testing.assert_allclose(chart.scale, 1 / np.sqrt(curvature), rtol=1e-5)
    np.testing.assert_allclose(chart.center, points.mean(axis=0), rtol=1e-6)


@pytest.mark.slow
def test_the_warm_up_without_a_mode_on_a_known_posterior():
    """Moving anchors and coordinates from a sketch; the bias of s = 0.15 is at most 3 % (test_moving_anchors.py)."""
    posterior, data, mean, covariance = regression(20_000)
    problem = prepare(posterior, data, jnp.zeros(4), num_chains=1, init_per_chain=False)
    tuned = explore(problem, "for a test", key=jax.random.key(0), batch_size=None, say=lambda _: None)
    assert isinstance(tuned.kernel.preconditioner, iso.LowRankPreconditioner)
    draws = iso.sample(posterior, data, tuned, num_draws=400, num_chains=32, progress=False)
    assert draws.record.gradient_refresh > 0
    v = (np.asarray(draws.posterior, np.float64) - mean) @ np.linalg.inv(np.linalg.cholesky(covariance)).T
    centre, square = v.mean(axis=1), (v**2).mean(axis=1)
    error = lambda x: LIMIT * 1.25 * x.std(axis=0, ddof=1) / 32**0.5  # t with 31 degrees
    assert (np.abs(centre.mean(axis=0)) < error(centre)).all()
    assert (np.abs(square.mean(axis=0) - 1) < 0.03 + error(square)).all()


@pytest.mark.slow
def test_a_small_network_is_sampled_from_several_starting_points():
    """The kinetic temperature is right and the function is found, whether or not the weights agree between chains."""
    rng = np.random.default_rng(7)
    x = rng.uniform(-2, 2, size=(600, 1)).astype(np.float32)
    y = (np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=600)).astype(np.float32)
    net = lambda p, x: jnp.tanh(x @ p["w"] + p["b"][None]) @ p["v"]
    posterior = iso.Posterior(
        lambda p, rows: -0.5 * ((rows["y"] - net(p, rows["x"])) / 0.2) ** 2,
        lambda p: -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(p)),
        batched=True,
    )
    init = {"w": rng.normal(size=(1, 8)), "b": rng.normal(size=8), "v": rng.normal(size=8)}
    init = jax.tree.map(lambda z: jnp.asarray(z, jnp.float32), init)
    draws = iso.sample(posterior, {"x": x, "y": y}, init, num_draws=400, progress=False)
    assert reasons(draws)["start"].value == "4 points"
    assert draws.complete.all()
    summary = draws.summary()
    # 25 parameters and 4 chains of 400 draws 4 units of time apart.
    assert summary.kinetic_temperature == pytest.approx(1, abs=LIMIT * np.sqrt(2 / 25 / 1600))
    fit = np.mean(
        [net(jax.tree.map(lambda z, i=i: z[i % 4, 8 * i], draws.posterior), x) for i in range(48)], axis=0
    )
    assert np.sqrt(np.mean((fit - np.sin(2 * x[:, 0])) ** 2)) < 0.1


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
def test_settings_of_a_run_made_by_hand_are_recorded():
    posterior, data = small()
    chart = iso.DiagonalPreconditioner(jnp.zeros(2), jnp.ones(2))
    common = {"sampler": iso.SGLD(1e-4), "batch_size": 10, "num_draws": 4, "progress": False}
    draws = iso.sample(
        posterior,
        data,
        jnp.zeros(2),
        gradient=iso.ControlVariate(order=2),
        preconditioner=chart,
        **common,
    )
    kept = {
        k: getattr(draws.record, k) for k in ("gradient", "gradient_order", "preconditioner", "transforms")
    }
    assert kept == {
        "gradient": "ControlVariate",
        "gradient_order": 2,
        "preconditioner": "DiagonalPreconditioner",
        "transforms": None,
    }
    bounded = iso.Posterior(lambda p, row: -0.5 * (row["y"] * p["s"]) ** 2, transforms={"s": iso.Positive()})
    draws = iso.sample(bounded, data, {"s": jnp.ones(())}, **common)
    assert draws.record.transforms == {"s": "Positive"}
