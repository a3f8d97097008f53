"""`isotherm sample` with a formula: the spec, a run that is ended and resumed, and predictions of its folder."""

import json

import numpy as np
import pandas as pd
import pytest

from isotherm.cli import main
from isotherm.cli.spec import make_problem, read_spec

SPEC = """
formula = "claims ~ sex + offset(log(years)) + (1 | region)"
model = "poisson"
[data]
path = "claims.csv"
[prior]
groups = 1.0
[sample]
num_draws = 300
num_chains = 4
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    region = rng.integers(8, size=300)
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], 300),
            "years": rng.uniform(0.5, 2, 300),
            "region": [f"R{k}" for k in region],
        }
    )
    effect = np.array([0.4, -0.4, 0.8, -0.6, 0.2, 0.0, 0.5, -0.2])[region]
    frame["claims"] = rng.poisson(np.exp(0.5 + effect) * frame["years"])
    frame.to_csv("claims.csv", index=False)
    (tmp_path / "spec.toml").write_text(SPEC)
    return tmp_path


def test_a_spec_may_hold_a_formula(folder):
    problem = make_problem(read_spec("spec.toml"))
    assert problem.about.title == "Poisson regression of claims"
    assert problem.labels["coefficients"] == [["intercept", "sex[T.m]"]]
    assert problem.about.model["prior"]["sd_region"].startswith("half-normal, sd 1 ")
    (folder / "several.toml").write_text(
        'formula = ["years ~ sex", "sigma ~ sex"]\n[data]\npath = "claims.csv"'
    )
    problem = make_problem(read_spec("several.toml"))
    assert problem.about.title == "Linear regression of years"
    assert "sigma_coefficients" in problem.labels


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            'formula = "claims ~ sex"\n[data]\ntarget = "claims"\npath = "claims.csv"',
            "`target` must be left out",
        ),
        ('formula = "claims ~ sexx"\n[data]\npath = "claims.csv"', "sexx"),
        ("formula = 3\n", "`formula` must be a formula such as"),
        ('formula = "claims ~ sex"\n', r"`\[data\]` must be a section with `path`"),
        ('formula = "claims"\n[data]\npath = "claims.csv"', "must be a formula such as"),
    ],
)
def test_bad_formulas_are_refused(folder, spec, message, capsys):
    (folder / "bad.toml").write_text(spec)
    with pytest.raises((ValueError, TypeError), match=message):
        make_problem(read_spec("bad.toml"))


@pytest.mark.slow
def test_a_formula_is_sampled_resumed_and_predicted(folder, capsys):
    assert main(["sample", "spec.toml", "--out", "run", "--quick", "--json"]) in (0, 1)
    found = json.loads(capsys.readouterr().out)
    assert any("report" in name for name in found["files"])
    assert main(["resume", "run", "--json"]) in (0, 1)
    capsys.readouterr()
    pd.DataFrame({"sex": ["f", "f"], "years": [1, 1], "region": ["R2", "elsewhere"]}).to_csv(
        "new.csv", index=False
    )
    assert main(["predict", "run", "new.csv", "--json"]) == 2
    assert main(["predict", "run", "new.csv", "--unseen", "sample", "--json"]) in (0, 1)
    predicted = pd.read_csv("predictions.csv")
    width = predicted["mean_high"] - predicted["mean_low"]
    assert predicted["mean"][0] > np.exp(0.5)
    assert width[1] > 2 * width[0]
