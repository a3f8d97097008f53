"""Training, sampling and judging a network in one call."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.draws.joining import joined
from isotherm.networks.chains import _step_size
from isotherm.networks.training import restarted, trained


def waves(count, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (count, 2)).astype(np.float32)
    y = np.sin(2 * x[:, 0]) * x[:, 1] + rng.normal(0, 0.3, count)
    return x, y.astype(np.float32)


def lines(count=400):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(count, 3)).astype(np.float32)
    return x, (x @ [1.0, -2.0, 0.5] + 0.3 + rng.normal(0, 0.5, count)).astype(np.float32)


def key():
    return jax.random.key(0)


def linear(features=3):
    return eqx.nn.Linear(features, "scalar", key=key())


def test_restarts_have_the_weights_of_each_array_in_another_order():
    params = {"w": jnp.arange(12.0).reshape(3, 4), "b": jnp.zeros(2)}
    other = restarted(params, key=key())
    assert not np.array_equal(other["w"], params["w"])
    assert sorted(np.ravel(other["w"])) == list(range(12))


@pytest.mark.slow
def test_training_ends_at_the_mode():
    """The mode of a linear regression with normal priors is known."""
    x, y = lines()
    net = iso.interop.equinox.posterior(linear(), "gaussian", scale=0.5)
    end = trained(
        net.posterior,
        {"x": jnp.asarray(x), "y": jnp.asarray(y)},
        net.init,
        epochs=60,
        batch_size=50,
        rate=0.03,
        key=key(),
    )
    X = np.column_stack([x, np.ones(400)])
    precision = X.T @ X / 0.25 + np.diag([3.0, 3, 3, 1])  # scales of the prior: 1/sqrt(3) and 1
    mode = np.linalg.solve(precision, X.T @ y / 0.25)
    found = np.append(np.ravel(end["weight"]), np.ravel(end["bias"]))
    sd = np.sqrt(np.diag(np.linalg.inv(precision)))
    assert np.max(np.abs(found - mode) / sd) < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [400, 10])
def test_the_step_size_respects_curvature_and_noise(batch_size):
    """Curvature is the limit of large batches, and noise that of small ones."""
    x, y = lines()
    rows = {"x": jnp.asarray(x), "y": jnp.asarray(y)}
    net = iso.interop.equinox.posterior(linear(), "gaussian", scale=0.5)
    X = np.column_stack([x, np.ones(400)])
    best = np.linalg.lstsq(X, y)[0].astype(np.float32)
    start = {"weight": jnp.asarray(best[None, :3]), "bias": jnp.asarray(best[3:])}
    h = _step_size(net.posterior, rows, start, batch_size, key())
    H = X.T @ X / 0.25 + np.diag([3.0, 3, 3, 1])
    residual = y - np.asarray(net.apply(start, rows["x"]))
    C = 400**2 / batch_size * np.cov((X * residual[:, None]).T / 0.25)
    steepest, noisiest = np.linalg.eigvalsh(H)[-1], np.linalg.eigvalsh(C)[-1]
    limits = 0.5 / np.sqrt(steepest), np.sqrt(0.35 / noisiest)
    assert h == pytest.approx(min(limits), rel=0.15)
    assert (limits[0] < limits[1]) == (batch_size == 400)


@pytest.mark.slow
def test_a_regression_beats_its_starts_and_ends_without_a_fault():
    (x, y), (new, truth) = waves(1200), waves(2000, 9)
    module = eqx.nn.MLP(2, "scalar", 20, 2, activation=jnp.tanh, key=key())
    fit = iso.networks.fit(
        module, x, y, "gaussian", num_chains=2, num_draws=30, epochs=600, choose_prior=False, progress=False
    )
    assert fit.verdict.startswith("No fault found")
    assert fit.draws.num_chains == 2
    assert fit.power == 1
    each, _, sampled = fit.score(new, truth)
    assert sampled.loss < each.loss
    # The noise alone has the loss log(0.3 sqrt(2 pi e)) = 0.215.
    assert 0.15 < sampled.loss < 0.4
    assert np.sqrt(np.mean((fit.predict(new) - truth) ** 2)) < 0.36
    assert "loss" in str(fit)
    assert all(len(line) <= 80 for line in str(fit).splitlines())


@pytest.mark.slow
def test_probabilities_of_a_classifier_are_calibrated():
    x, y = waves(1500)
    new, truth = waves(3000, 9)
    module = eqx.nn.MLP(2, "scalar", 20, 1, key=key())
    fit = iso.networks.fit(
        module, x, (y > 0).astype(int), "bernoulli", num_chains=2, num_draws=30, progress=False
    )
    each, _, sampled = fit.score(new, (truth > 0).astype(int))
    assert fit.verdict.startswith("No fault found")
    assert sampled.loss < each.loss
    scores = iso.scores.classification(fit.predict(new), (truth > 0).astype(int))
    assert scores.negative_log_likelihood == pytest.approx(sampled.loss)
    assert scores.calibration_error < 0.05


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"likelihood": None}, "`likelihood` must be a name"),
        ({"likelihood": "normal"}, "`likelihood` must be one of"),
        ({"held_out": 0.9}, "`held_out` must be a number above 0 and at most 0.5"),
        ({"held_out": 0.01}, "`held_out` must be a share of at least 20 rows"),
        ({"x": np.zeros((50, 2))}, "`x` must be arrays of 200 rows"),
        ({"x": np.ma.masked_less(np.zeros((200, 2)), 1)}, "mask"),
        ({"y": np.full(200, "a")}, "`y` must"),
        ({"num_chains": 0}, "`num_chains` must be an integer of at least 1"),
        ({"learning_rate": -1.0}, "`learning_rate` must be a positive number below 1"),
        ({"y": np.full(200, np.nan)}, "nan"),
    ],
)
def test_bad_input_is_refused_before_anything_is_trained(monkeypatch, arguments, message):
    monkeypatch.setattr("isotherm.networks.fitting.trained", lambda *_, **__: pytest.fail("trained"))
    x, y = waves(200)
    given = {"x": x, "y": y, "likelihood": "gaussian", **arguments}
    with pytest.raises((ValueError, TypeError), match=f"(?i){message}"):
        iso.networks.fit(eqx.nn.MLP(2, "scalar", 5, 1, key=key()), **given, progress=False)


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (
            "categorical",
            np.arange(200) % 3 + 1,
            "`y` must be a class from 0 to 2, as the module has 3 outputs.*got 3. Number",
        ),
        ("bernoulli", np.arange(200) % 2 * 2 - 1, "`y` must be 0 or 1, in every row; got -1"),
        ("poisson", np.full(200, 0.5), "`y` must be a count, in every row; got 0.5"),
    ],
)
def test_outcomes_that_the_likelihood_does_not_know_are_named(likelihood, y, message):
    outputs = 3 if likelihood == "categorical" else "scalar"
    with pytest.raises(ValueError, match=message):
        iso.networks.fit(
            eqx.nn.MLP(2, outputs, 5, 1, key=key()), waves(200)[0], y, likelihood, progress=False
        )


@pytest.mark.slow
def test_ctrl_c_keeps_the_chains_that_there_are(monkeypatch):
    """The second chain is ended in its burn-in, and the third is never begun."""
    x, y = lines()
    begun = []

    def chain(*arguments, **options):
        begun.append(1)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    original = iso.networks.fitting.chain
    monkeypatch.setattr(iso.networks.fitting, "chain", chain)
    settings = {"num_chains": 3, "num_draws": 8, "epochs": 20, "choose_prior": False, "progress": False}
    fit = iso.networks.fit(linear(), x, y, "gaussian", **settings)
    assert len(begun) == 2
    assert (fit.draws.num_chains, fit.draws.num_draws) == (1, 8)
    assert "ended early" in fit.verdict


def test_a_chain_with_fewer_draws_is_filled_up():
    posterior = iso.Posterior(lambda mean, row: -0.5 * (row - mean) ** 2)
    run = lambda seed, count: iso.sample(
        posterior,
        np.arange(20.0, dtype=np.float32),
        jnp.zeros(()),
        sampler=iso.SGHMC(0.01, 1.0),
        batch_size=10,
        num_draws=count,
        num_chains=1,
        seed=seed,
        progress=False,
    )
    runs = [run(0, 6), run(1, 4), run(2, 6)]
    both = joined(runs)
    assert both.complete.tolist() == [True, False, True]
    assert both.lengths.tolist() == [6, 4, 6]
    np.testing.assert_array_equal(both.posterior[1, :4], runs[1].posterior[0])
    assert np.isnan(both.posterior[1, 4:]).all()
    np.testing.assert_array_equal(both.moments.mean[[2]], runs[2].moments.mean)
    assert both.record.num_chains == 3
