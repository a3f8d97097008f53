"""Section 4.2 of the paper: the reference, the measures, the verdicts and the command on a small problem."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from isotherm import cli
from isotherm.studies.experiments import parts
from isotherm.studies.experiments.logistic import claims as logistic_claims
from isotherm.studies.experiments.logistic import problem as logistic_problem
from isotherm.studies.experiments.logistic import runs as logistic_runs
from isotherm.studies.experiments.logistic import study as experiment
from isotherm.studies.experiments.logistic import table as logistic_table
from isotherm.studies.experiments.logistic.problem import Problem
from isotherm.studies.experiments.logistic.runs import burn_in_of

pytestmark = pytest.mark.usefixtures("quick_compilation")
D = logistic_problem.DIMENSION


@pytest.fixture
def small(monkeypatch):
    """Replace MNIST by 600 rows of a logistic model, and worker processes by this process."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, D)).astype(np.float32)
    y = np.where(rng.random(900) < 1 / (1 + np.exp(-x @ rng.normal(size=D) * 0.3)), 1, -1).astype(np.float32)
    problem = Problem(x[:600], y[:600], x[600:], y[600:])
    for module in (logistic_problem, logistic_runs, experiment):
        monkeypatch.setattr(module, "problem", lambda seed: problem)
    serial = lambda function, arguments: ((i, function(*args)) for i, args in enumerate(arguments))
    monkeypatch.setattr(parts, "side_by_side", serial)
    return problem


def test_log_likelihood_of_the_test_rows(small):
    w = np.random.default_rng(1).normal(size=(3, D))
    p = 1 / (1 + np.exp(-small.y_test * (w @ small.x_test.T)))
    np.testing.assert_allclose(small.test_log_likelihood(w), np.log(p).mean(axis=1), rtol=1e-6)


def test_mode_has_zero_gradient_and_noise_matches_its_definition(small):
    w, hessian = logistic_problem.mode(small)
    gradient = jax.grad(experiment_log_density)(jnp.asarray(w, jnp.float32), small)
    assert np.max(np.abs(gradient)) < 1e-3
    assert np.linalg.eigvalsh(hessian)[0] > 1  # the prior's precision
    q = 1 / (1 + np.exp(small.y * (small.x @ w)))
    g = small.x * (small.y * q)[:, None]
    C = 600**2 / 50 * np.cov(g.T)
    assert logistic_problem.largest_noise(small, 50) == pytest.approx(np.linalg.eigvalsh(C)[-1], rel=1e-6)


def experiment_log_density(w, p):
    return logistic_runs.logistic_regression().log_density(w, jax.tree.map(jnp.asarray, p.rows))


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_reference_is_the_posterior(small):
    """Ten runs agree with ten others, and the virial is right: E[(w - m) dU/dw] = 1 in every dimension."""
    truth = logistic_problem.reference(runs=10, draws=500, seed=0)
    x, accepted = logistic_problem.hamiltonian(small, 10, 500, jax.random.key(3))
    assert truth["rhat"] < 1.02
    assert 0.8 < accepted < 1
    flat = x.reshape(-1, D)
    center = flat.mean(axis=0)
    # Two sets of ten runs with different keys differ by chance alone, which the spread between runs measures.
    error = np.sqrt(2 / 10) * x.mean(axis=1).std(axis=0, ddof=1)
    z = (np.array(truth["mean"]) - center) / error
    assert np.mean(z**2) < 2  # of 100 dimensions, each about F(1, 9) with mean 9/7: 5 standard errors above
    force = jax.vmap(jax.grad(lambda w: -experiment_log_density(w, small)))(jnp.asarray(flat, jnp.float32))
    virial = ((flat - center) * np.asarray(force)).reshape(10, -1, D).mean(axis=(1, 2))
    assert abs(virial.mean() - 1) < 5 * virial.std(ddof=1) / np.sqrt(10)


def test_burn_in_ends_at_twice_the_time_to_the_level():
    rng = np.random.default_rng(0)
    level = 0.1 * rng.normal(size=400)
    series = np.where(np.arange(400) < 30, -5.0, level)
    burn_in = burn_in_of(series)
    assert 61 <= burn_in <= 75  # first above mean minus one sd soon after 30
    assert burn_in_of(np.linspace(-1, 0, 400) + 0.01 * level) is None  # still rising
    assert burn_in_of(level) <= 11


def row(**changes):
    """The result of a chain whose moments are those of the reference, with `changes`."""
    base = {
        "died": False,
        "mean": [0.0] * D,
        "covariance": np.eye(D).tolist(),
        "cloud": [[0.0, 0.0]],
        "autocorrelation_time": [10.0] * D,
        "burn_in": 100,
        "stabilised": True,
        "kinetic": 1.0,
        "xi": None,
        "test_log_likelihood": -0.1,
        "samples": 1000,
    }
    return base | changes


def reference():
    return {
        "mean": [0.0] * D,
        "covariance": np.eye(D).tolist(),
        "standard_error": 0.0,
        "test_log_likelihood": -0.1,
    }


def test_distances_are_zero_and_areas_one_for_exact_moments():
    r = logistic_table.distribution({"method": "M", "step_size": 1.0, "friction": 10.0}, row(), reference())
    assert (r["mean_distance"], r["mean_rms"], r["covariance_error"]) == (0, 0, pytest.approx(0, abs=1e-12))
    assert r["area_ratio"] == r["area_ratio_median"] == pytest.approx(1)
    assert r["mean_rms_by_chance"] == pytest.approx(0.1)  # sqrt(10 / 1000)
    # Squares: 200 independent draws.
    assert r["covariance_by_chance"] == pytest.approx(np.sqrt((D + 1) / 200))


def test_distances_of_a_known_error():
    """Variances and areas four times too large, relative covariance error 3, mean off by 2 sd in dimension 2."""
    changed = row(covariance=(4 * np.eye(D)).tolist(), mean=[0.0, 2.0, *[0.0] * (D - 2)])
    r = logistic_table.distribution({"method": "M", "step_size": 1.0, "friction": 10.0}, changed, reference())
    assert r["area_ratio"] == r["area_ratio_median"] == pytest.approx(4)
    assert r["covariance_error"] == pytest.approx(3)
    assert r["mean_distance"] == pytest.approx(2)  # dimensions are counted from 1: 2 and 5
    assert r["mean_rms"] == pytest.approx(2 / np.sqrt(D))
    assert r["mean_rms_by_chance"] == pytest.approx(0.2)  # twice as wide, twice the error


def test_convergence_is_when_the_mean_stays_near_the_reference():
    values = [[-0.5, -0.105, -0.3, -0.104, -0.101]]
    result = {"passes": [1, 2, 3, 4, 5], "log_likelihood": [values], "kinetic": [1.0], "died": [0]}
    (r,) = logistic_table.converged(
        {"method": "M", "step_size": 1.0, "frictions": [1.0]}, result, reference()
    )
    assert r["passes_to_near"] == 4
    result["log_likelihood"] = [[[-0.5, -0.1, None, None, None]]]
    (r,) = logistic_table.converged(
        {"method": "M", "step_size": 1.0, "frictions": [1.0]}, result, reference()
    )
    assert r["passes_to_near"] is None
    assert logistic_table.at(r, 5) == -np.inf


@pytest.mark.parametrize(("gap", "verdict"), [(0.1, "reproduced"), (0.02, "partly"), (-0.02, "not")])
def test_the_verdict_on_speed_follows_the_gap(gap, verdict):
    curves = []
    for h in experiment.STEPS:
        for A in experiment.FRICTIONS:
            for m in logistic_claims.METHODS:
                value = -0.2 + gap * (m == "CCAdL")
                near = (10 if gap > 0 else 90) if m == "CCAdL" else 50
                curves.append(
                    {
                        "method": m,
                        "step_size": h,
                        "friction": A,
                        "passes": [50, 200],
                        "median": [value, value],
                        "by_chain_at_50": [value - 0.001, value + 0.001],
                        "passes_to_near": near,
                    }
                )
    c = logistic_claims._faster(curves, experiment.STEPS, experiment.FRICTIONS)
    assert c["verdict"] == verdict
    assert c["number"] == pytest.approx(gap)


def marginals(**changes):
    """One row per method and step of the paper's panels, with exact moments except for `changes` by method."""
    base = {
        "died": False,
        "burn_in": 100,
        "autocorrelation_time": 10.0,
        "area_ratio": 1.0,
        "area_ratio_median": 1.0,
        "mean_rms": 0.01,
        "mean_rms_by_chance": 0.01,
        "covariance_error": 0.1,
        "covariance_by_chance": 0.1,
    }
    return [
        {"method": m, "step_size": h, "friction": 10.0, **base, **changes.get(m, {})}
        for m in logistic_claims.METHODS
        for h in experiment.STEPS
    ]


NARROW = {"covariance_error": 0.5, "area_ratio_median": 0.5}
WRONG = {
    "area_ratio": 5.0,
    "area_ratio_median": 5.0,
    "covariance_error": 4.0,
    "mean_rms": 0.5,
    "burn_in": 900,
}


@pytest.mark.parametrize(
    ("rows", "closest", "off"),
    [
        (marginals(SGHMC=WRONG, SGNHT=NARROW), "reproduced", "reproduced"),
        (marginals(SGHMC=WRONG, CCAdL=NARROW), "not", "reproduced"),
        (marginals(), "not", "not"),
        (marginals(SGHMC={"died": True}, SGNHT=NARROW), "reproduced", "partly"),
    ],
)  # fmt: skip
def test_verdicts_on_the_distribution(rows, closest, off):
    assert logistic_claims._closest(rows, experiment.STEPS)["verdict"] == closest
    assert logistic_claims._sghmc_off_the_plot(rows, experiment.STEPS)["verdict"] == off


@pytest.mark.parametrize(
    ("burn_in", "time", "verdict"), [(50, 5.0, "reproduced"), (50, 10.0, "partly"), (150, 10.0, "not")]
)
def test_the_verdict_on_mixing(burn_in, time, verdict):
    rows = marginals(CCAdL={"burn_in": burn_in, "autocorrelation_time": time})
    assert logistic_claims._mixes(rows, experiment.STEPS)["verdict"] == verdict


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_panels_share_a_compilation(monkeypatch, request):
    """Another step and other frictions need no compilation."""
    compiled = []

    def listen(name, seconds, **_):
        if name.endswith("backend_compile_duration"):
            compiled.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    request.addfinalizer(lambda: jax.monitoring.unregister_event_duration_listener(listen))
    monkeypatch.setattr(logistic_runs, "BATCH_SIZE", 100)
    common = {"method": "CCAdL", "chains": 2, "passes": 3, "seed": 0}
    logistic_runs.convergence(step_size=1e-4, frictions=[1.0, 10.0], **common)
    assert compiled
    compiled.clear()
    logistic_runs.convergence(step_size=1e-3, frictions=[2.0, 20.0], **common)
    assert not compiled


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_the_whole_command(tmp_path, monkeypatch):
    """A tiny run writes results, figures and page; a second run computes nothing."""
    for module in (logistic_runs, experiment):
        monkeypatch.setattr(module, "BATCH_SIZE", 60)
    settings = experiment.Settings(
        chains=2,
        passes=4,
        samples=200,
        corrected_samples=100,
        beyond_samples=100,
        thinning=5,
        pilot=100,
        runs=3,
        draws=50,
        paper=("SGHMC", "SGNHT", "CCAdL"),
        steps=experiment.STEPS[1:],
        beyond=("SGNHT", "CCAdL symmetric"),
        larger=experiment.LARGER[:2],
    )
    console = Console(record=True, width=140)
    common = {"quick": True, "seed": 0, "console": console, "settings": settings}
    results = experiment.reproduce(tmp_path, **common)
    assert json.loads((tmp_path / "results.json").read_text()) == json.loads(json.dumps(results))
    assert len(results["claims"]) == 6
    assert all(c["verdict"] in ("reproduced", "partly", "not") and c["evidence"] for c in results["claims"])
    figures = sorted(p.name for p in (tmp_path / "figures").glob("*.png"))
    assert figures == [
        "beyond-convergence.png",
        "beyond-marginals.png",
        "figure2-convergence.png",
        "figure2-marginals.png",
    ]
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 4
    assert "http" not in page.replace("http-equiv", "")
    assert all(c["claim"].split("'")[0] in page for c in results["claims"])
    experiment.show(results, console)
    assert "Distance of the samples from HMC" in console.export_text()
    monkeypatch.setattr(parts, "_run", None)  # would fail if anything were computed again
    assert experiment.reproduce(tmp_path, **common) == results


def test_cross_validation_is_for_drbm_only(capsys):
    assert cli.main(["reproduce", "logistic", "--cross-validate"]) == 2
    assert "--cross-validate is for drbm" in capsys.readouterr().err
