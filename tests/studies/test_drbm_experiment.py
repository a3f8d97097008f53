"""Section 4.3 of the paper: averages along a chain, the verdicts, the number of hidden units, the command."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from rich.console import Console

from isotherm.data import DataSet
from isotherm.models.classifiers import drbm_init, drbm_scores
from isotherm.studies.experiments import parts
from isotherm.studies.experiments.drbm import choice as drbm_choice
from isotherm.studies.experiments.drbm import claims as drbm_claims
from isotherm.studies.experiments.drbm import problem as drbm_problem
from isotherm.studies.experiments.drbm import runs as drbm_runs
from isotherm.studies.experiments.drbm import study as experiment
from isotherm.studies.experiments.drbm.figures import draw_panels
from isotherm.studies.experiments.drbm.problem import PANELS, Panel

pytestmark = pytest.mark.usefixtures("quick_compilation")
SMALL = Panel("letter", 4, (1e-3, 2e-3, 5e-3), 50, 0)


@pytest.fixture
def small(monkeypatch):
    """Replace the letters by four clusters of points, and worker processes by this process."""
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=500)
    x = (rng.normal(size=(4, 6))[y] + 0.3 * rng.normal(size=(500, 6))).astype(np.float32)
    data = DataSet("letter", x[:400], y[:400], x[400:], y[400:], "made up", "none")
    for module in (drbm_problem, drbm_runs, drbm_choice, experiment):
        monkeypatch.setattr(module, "rows", lambda name, standardised=False: data)
    for module in (drbm_problem, drbm_runs, drbm_choice):
        monkeypatch.setitem(module.PANELS, "letter", SMALL)
    monkeypatch.setattr(experiment, "panels", lambda: ([SMALL], "Nothing is missing."))
    serial = lambda function, arguments: ((i, function(*args)) for i, args in enumerate(arguments))
    monkeypatch.setattr(parts, "side_by_side", serial)
    return data


def test_table_2():
    """Hidden units, features and classes give the numbers of parameters in the paper."""
    for name, features, classes in (("connect-4", 126, 3), ("letter", 16, 26), ("acoustic", 50, 3)):
        start = drbm_init(features, PANELS[name].hidden, classes, key=jax.random.key(0))
        assert sum(x.size for x in jax.tree.leaves(start)) == PANELS[name].parameters
    assert [PANELS[n].parameters for n in ("connect-4", "letter", "acoustic")] == [2603, 4326, 1083]


@pytest.mark.parametrize("error", [OSError("not found"), ImportError("no reader")])
def test_covertype_replaces_acoustic(monkeypatch, error):
    def missing(name):
        raise error

    monkeypatch.setattr(drbm_problem, "load", missing)
    chosen, note = drbm_problem.panels()
    assert [p.data for p in chosen] == ["connect-4", "letter", "covertype"]
    assert "covertype, cut to the same size, replaces it" in note
    monkeypatch.setattr(drbm_problem, "load", lambda name: None)
    chosen, note = drbm_problem.panels()
    assert [p.data for p in chosen] == ["connect-4", "letter", "acoustic"]
    assert note == ""


def test_averages_along_a_chain(small):
    """Mean of the parameters and averaged prediction restart when burn-in ends; `None` after divergence."""
    rng, x = np.random.default_rng(1), small.x_test
    draws = {
        "W": rng.normal(size=(1, 8, 4, 6)),
        "U": rng.normal(size=(1, 8, 4, 26)),
        "c": rng.normal(size=(1, 8, 4)),
        "d": rng.normal(size=(1, 8, 26)),
    }
    draws = jax.tree.map(lambda leaf: leaf.astype(np.float32), draws)
    out = list(drbm_runs._predictions(draws, np.array([2, 4, 6, 8]), 6, 1, jax.numpy.asarray(x)))
    at = lambda i: jax.tree.map(lambda leaf: jax.numpy.asarray(leaf[0, i]), draws)
    mean_of = lambda i, j: jax.tree.map(lambda leaf: jax.numpy.asarray(leaf[0, i:j].mean(axis=0)), draws)
    p = lambda w: np.asarray(jax.nn.softmax(drbm_scores(w, jax.numpy.asarray(x))))
    expected = [
        (p(mean_of(0, 2)), p(at(1)), p(at(1))),
        (p(mean_of(2, 4)), p(at(3)), p(at(3))),
        (p(mean_of(2, 6)), p(at(3)) + p(at(5)), p(at(5))),
    ]
    for classes, probabilities in zip(out, expected, strict=False):
        for a, b in zip(classes, probabilities, strict=True):
            np.testing.assert_array_equal(a, b.argmax(1))
    assert out[3] is None


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_a_chain_learns_and_a_divergent_chain_is_reported():
    good = drbm_runs.chain("letter", "CCAdL", 5e-3, 10.0, 30, 0)
    assert good["predictive_error"][-1] < 0.2  # by chance 0.75
    assert not good["died"]
    assert len(good["passes"]) == len(good["mean_error"]) == 30
    bad = drbm_runs.chain("letter", "SGHMC", 1e18, 0.1, 2, 0)
    assert bad["died"]
    assert bad["mean_error"][-1] is None
    json.dumps([good, bad], allow_nan=False)


def cells(errors):
    """Cells of one data set at its largest step from {method: [error at A = 0.1, error at A = 50]}."""
    return [
        {
            "data": "letter",
            "method": m,
            "step_size": 5e-3,
            "friction": A,
            "variant": "",
            "mean_error": [e],
            "predictive_error": [e],
        }
        for m, by_friction in errors.items()
        for A, e in zip((0.1, 50.0), by_friction, strict=True)
    ]


@pytest.mark.parametrize(
    ("errors", "verdicts"),
    [
        ({"SGHMC": [0.9, 0.2], "SGNHT": [0.5, 0.2], "CCAdL": [0.2, 0.19]}, ["reproduced"] * 3),
        ({"SGHMC": [0.9, 0.2], "SGNHT": [0.2, 0.3], "CCAdL": [0.3, 0.1]}, ["not", "not", "not"]),
        # Next: a difference too small for one chain; then: a method that never works is not robust.
        ({"SGHMC": [None, 0.2], "SGNHT": [0.205, 0.2], "CCAdL": [0.2, 0.2]}, ["not", "not", "not"]),
        ({"SGHMC": [None, 0.2], "SGNHT": [0.3, 0.2], "CCAdL": [None, None]}, ["reproduced", "not", "not"]),
    ],
)
def test_verdicts(errors, verdicts):
    tables = [{**dataclasses.asdict(SMALL), "steps": (1e-3, 2e-3, 5e-3)}]
    claims = drbm_claims.judge(cells(errors), tables)
    assert [claims[i]["verdict"] for i in (0, 2, 4)] == verdicts
    assert [claims[i]["verdict"] for i in (1, 3, 5)] == verdicts


def test_choice_of_hidden_units():
    folds = [
        ({"data": "letter", "hidden": h}, {"error": e})
        for h, e in ((10, 0.4), (10, 0.2), (20, 0.1), (20, 0.3))
    ]
    (row,) = drbm_choice.chosen(folds)
    assert row["best"] == 20
    assert row["errors"] == {"10": pytest.approx(0.3), "20": pytest.approx(0.2)}
    assert drbm_choice.chosen([]) == []


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_the_whole_command(tmp_path, monkeypatch):
    """A tiny run with cross-validation writes results, figures and page; a second run computes nothing."""
    monkeypatch.setattr(experiment, "HIDDEN", (2, 4))
    monkeypatch.setattr(experiment, "BEYOND", ("SGNHT", "CCAdL", "CCAdL symmetric"))
    settings = experiment.Settings(passes=3, frictions=(0.1, 10.0), variant_passes=2, cv_passes=2, folds=2)
    console = Console(record=True, width=140)
    common = {"quick": True, "seed": 0, "console": console, "settings": settings, "cross_validate": True}
    results = experiment.reproduce(tmp_path, **common)
    assert json.loads((tmp_path / "results.json").read_text()) == json.loads(json.dumps(results))
    assert len(results["claims"]) == 7
    assert set(results["hidden_units"][0]["errors"]) == {"2", "4"}
    paper = [c for c in results["cells"] if not c["variant"] and c["method"] in experiment.PAPER]
    assert len({(c["method"], c["step_size"], c["friction"]) for c in paper}) >= 18
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 4
    assert "Number of hidden units" in page
    assert "Other settings" in page
    experiment.show(results, console)
    assert "Test error at the end" in console.export_text()
    monkeypatch.setattr(parts, "_run", None)  # would fail if anything were computed again
    assert experiment.reproduce(tmp_path, **common) == results


def test_a_panel_has_the_best_and_the_worst_friction_of_each_method():
    cells = [
        {
            "data": "letter",
            "method": method,
            "step_size": 5e-3,
            "friction": A,
            "variant": "",
            "passes": [1, 2],
            "mean_error": [0.5, end],
            "died": end is None,
        }
        for method, ends in {"SGHMC": (0.3, 0.1, None), "CCAdL": (0.4, 0.2, 0.3)}.items()
        for A, end in zip((0.1, 1.0, 10.0), ends, strict=True)
    ]
    table = {"data": "letter", "steps": [5e-3], "majority": 0.9}
    results = {"table2": [table], "cells": cells, "settings": {"passes": 2}}
    figure = draw_panels(results, ("SGHMC", "CCAdL"), "mean_error", (0.1, 1.0, 10.0))
    ends = [line.get_ydata()[-1] for line in figure.axes[0].lines]
    np.testing.assert_equal(ends, [np.nan, 0.1, 0.4, 0.2])
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["SGHMC", "CCAdL", "best friction A at the end", "worst friction A"]
