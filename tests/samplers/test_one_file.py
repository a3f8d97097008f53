"""A sampler that is one file, and nothing else, goes through `sample`, `diagnose`, `validate` and the report."""

import json
from importlib.metadata import EntryPoint
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.cli import main
from isotherm.studies.validation import methods
from support import adam_sgld
from support.adam_sgld import AdamSGLD
from support.monte_carlo import LIMIT

FILE = Path(adam_sgld.__file__)


def drawn(step_size=1e-4, **options):
    """Draws of a linear regression with known noise and correlated columns, from the exact gradient."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(500, 2)) @ np.array([[1.0, 0.5], [0.0, 2.0]])).astype(np.float32)
    y = (x @ [1.0, -1.0] + rng.normal(size=500)).astype(np.float32)
    posterior = iso.Posterior(
        lambda w, rows: -0.5 * (rows["y"] - rows["x"] @ w) ** 2, lambda w: -0.5 * jnp.sum(w**2), batched=True
    )
    covariance = np.linalg.inv(x.T.astype(np.float64) @ x + np.eye(2))
    settings = {"num_draws": 1000, "thinning": 20, "burn_in": 500, "num_chains": 8, "progress": False}
    draws = iso.sample(
        posterior,
        {"x": x, "y": y},
        jnp.asarray(covariance @ x.T @ y, jnp.float32),
        sampler=AdamSGLD(step_size),
        gradient=iso.FullData(),
        **(settings | options),
    )
    return draws, covariance @ x.T @ y, covariance


@pytest.mark.slow
def test_sample_diagnose_and_report(tmp_path):
    """At h = 1e-4 the step is 0.04 of the stiffest curvature: variances are right to about 2 %, beside 5 errors."""
    draws, mean, covariance = drawn()
    v = (np.asarray(draws.posterior, np.float64) - mean) / np.sqrt(np.diag(covariance))
    centre, square = v.mean(axis=1), (v**2).mean(axis=1)
    error = lambda a: LIMIT * a.std(axis=0, ddof=1) / len(a) ** 0.5
    assert (np.abs(centre.mean(axis=0)) < error(centre)).all()
    assert (np.abs(square.mean(axis=0) - 1) < 0.03 + error(square)).all()
    assert draws.record.sampler.name == "AdamSGLD"
    assert draws.record.sampler.traits.scheme == "Adam-Euler"
    diagnosis = iso.diagnose(draws, progress=False)
    assert diagnosis.ok, diagnosis.verdict
    page = iso.report(draws, tmp_path / "report.html", diagnosis=diagnosis).read_text()
    assert "AdamSGLD" in page
    draws.save(tmp_path / "run.iso")
    assert iso.load(tmp_path / "run.iso").record == draws.record


@pytest.mark.slow
def test_a_step_that_is_too_long_is_found_and_its_remedy_named():
    draws, _, _ = drawn(step_size=1.5e-3, thinning=4)
    diagnosis = iso.diagnose(draws, progress=False)
    assert not diagnosis.ok
    assert "reduce step_size" in diagnosis.verdict


@pytest.mark.slow
@pytest.mark.parametrize(("target", "code", "verdict"), [("poisson", 0, "holds"), ("regression", 1, "fails")])
def test_validate_measures_it(target, code, verdict, tmp_path, monkeypatch, capsys):
    """Theory does not know this sampler, so the exact answer stands in for it.

    Nothing controls the gradient noise: in the regression, whose noise is all of one size, the temperature is
    1 + s/4 = 1.1, which is more than the 5 % that counts as right.
    """
    monkeypatch.chdir(FILE.parent)
    arguments = ["validate", "--quick", "--sampler", f"{FILE.name}:make", "--only", f", {target}"]
    assert main([*arguments, "--list"]) == 0
    assert capsys.readouterr().out.strip() == f"{FILE.name}:make, {target}"
    assert main([*arguments, "--out", str(tmp_path)]) == code
    (row,) = json.loads((tmp_path / "results.json").read_text())["rows"]
    assert row["verdict"] == verdict
    if target == "regression":
        assert row["quantities"]["configurational"]["value"] == [pytest.approx(1.1, abs=0.02)]
    assert (tmp_path / "report.html").exists()


def test_a_file_that_is_missing_is_named(capsys):
    assert main(["validate", "--quick", "--sampler", "absent.py:make"]) == 2
    assert "absent.py" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["support.adam_sgld:AdamSGLD", "support.adam_sgld:make", "offered"])
def test_a_class_or_a_name_that_a_package_offers(name, monkeypatch):
    """A class gets the scales that it has fields for; without a friction, the step size is that without momentum."""
    offered = EntryPoint("offered", "support.adam_sgld:AdamSGLD", methods.GROUP)
    monkeypatch.setattr(methods, "entry_points", lambda *, group: [offered] if group == offered.group else [])
    sampler = methods.method(name)(methods.Scales(1.0, 2.0, 3.0, 4.0))
    assert isinstance(sampler, AdamSGLD)
    assert sampler.step_size == 2


def test_a_class_with_a_momentum_gets_friction_and_mass():
    sampler = methods.of_user(iso.SGHMC)(methods.Scales(1.0, 2.0, 3.0, jnp.asarray(4.0)))
    assert (sampler.step_size, sampler.friction, sampler.mass) == (1, 3, 4)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("absent", "or a name that a package offers"), ("builtins:repr", "a class of samplers")],
)
def test_what_is_not_a_sampler_is_named(name, reason, capsys):
    assert main(["validate", "--quick", "--sampler", name]) == 2
    assert reason in " ".join(capsys.readouterr().err.split())
