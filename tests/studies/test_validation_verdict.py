"""The verdicts on records that are known to be right or wrong."""

import dataclasses
import json

import numpy as np
import pytest

import isotherm as iso
from isotherm.cli import main
from isotherm.studies.validation import cases, figure, measure, prediction, table, verdict
from isotherm.studies.validation.cases import CASES, QUICK, Case
from isotherm.studies.validation.record import Record
from isotherm.studies.validation.show import cells, size

CASE = Case("gaussian", "CCAdL dense")


def judged(case, *, stretch=1.0, heat=1.0, xi=1.0, shift=0.0, chains=64, draws=400):
    """Return the row of independent draws from theory's stationary state, spoilt in one respect."""
    rng, target = np.random.default_rng(1), case.problem
    expected, model = verdict.predicted(case)
    d, sd = target.dimension, np.sqrt(np.diag(target.covariance))

    def normal(covariance):
        return rng.standard_normal((chains, draws, d)) @ np.linalg.cholesky(covariance).T

    position = target.mean + stretch * normal(expected.covariance) + shift * sd
    record = Record(
        position,
        heat * normal(expected.momentum),
        None if expected.xi is None else xi * expected.xi + 0.01 * rng.standard_normal((chains, draws)),
    )
    return verdict.judge(case, record, expected, model)


def test_a_right_record_holds():
    row = judged(CASE)
    assert row.verdict == "holds", row.reason
    assert row.reason == ""
    assert all(cells(row.quantities))


@pytest.mark.parametrize(
    ("spoilt", "what"),
    [
        ({"stretch": 1.06}, "variance"),
        ({"stretch": 0.94}, "variance"),
        ({"heat": 1.05}, "kinetic"),
        ({"xi": 1.1}, "xi"),
        ({"shift": 0.1}, "mean"),
    ],
    ids=str,
)
def test_a_wrong_record_fails_and_says_where(spoilt, what):
    row = judged(CASE, **spoilt)
    assert row.verdict == "fails"
    assert what in row.reason


def test_heat_that_the_mean_hides():
    """Two directions too hot and two too cold, with the exact mean: the error shows only by direction."""
    expected, model = verdict.predicted(CASE)
    along = verdict.directions(CASE.problem, model.C).noisy
    spread = along @ np.diag([1.3, 1.1, 0.9, 0.7]) @ along.T
    rng = np.random.default_rng(2)
    normal = rng.standard_normal((3, 64, 400, 4))
    position = CASE.problem.mean + normal[0] @ np.linalg.cholesky(expected.covariance).T
    momentum = normal[1] @ np.linalg.cholesky(spread).T
    record = Record(position, momentum, expected.xi + 1e-3 * normal[2, :, :, 0])
    row = verdict.judge(CASE, record, expected, model)
    overall = row["kinetic"]
    assert abs(overall.value[0] - 1) < 5 * overall.error[0]
    assert row.verdict == "fails"
    assert "kinetic along noise" in row.reason


def test_a_known_limit_must_have_the_predicted_size():
    """SGNHT under anisotropic noise: its wrong state is a known limit, the exact posterior fails."""
    case = Case("gaussian", "SGNHT")
    row = judged(case)
    assert row.verdict == "known limit"
    assert "proportional to the mass" in row.reason
    assert "predicted" in size(row)
    assert judged(case, stretch=1.2).verdict == "fails"
    expected, model = verdict.predicted(case)
    right = dataclasses.replace(expected, covariance=case.problem.covariance, momentum=np.eye(4))
    rng = np.random.default_rng(3)
    normal = rng.standard_normal((2, 64, 4000, 4))
    record = Record(
        case.problem.mean + normal[0] @ np.linalg.cholesky(right.covariance).T,
        normal[1],
        np.full((64, 4000), expected.xi) + 1e-3 * normal[0, :, :, 0],
    )
    assert verdict.judge(case, record, expected, model).verdict == "fails"


def test_coupling_of_heat_and_distance():
    """No coupling if momentum and position are independent; otherwise their covariance."""
    rng, target = np.random.default_rng(4), CASE.problem
    y, p = rng.standard_normal((2, 64, 2000, 4))
    xi = np.zeros((64, 2000))

    def coupling(p, xi, mu=4.0):
        return measure.coupling(Record(target.mean + y, p, xi), target, np.eye(4), mu).mean(axis=0)

    # A mean of 128,000 products of sd sqrt(8) sqrt(2) / 8 in each direction: five standard errors.
    assert np.all(np.abs(coupling(p, xi)) < 5 * 0.5 / np.sqrt(128_000))
    # Cov(y'y, (u'y)^2) = 2 over 2 mu T with mu = 4: a quarter.
    assert np.all(np.abs(coupling(y, xi) - 0.25) < 0.01)
    np.testing.assert_allclose(coupling(y, xi, mu=40.0), coupling(y, xi) / 10)
    assert np.all(coupling(y, None) == 0)
    still = dataclasses.replace(target, noise_varies=False)
    assert np.all(measure.coupling(Record(target.mean + y, y, xi), still, np.eye(4), 4.0) == 0)


def test_nan_never_passes():
    """A NaN among the positions, the momenta or xi, early in the run."""
    expected, model = verdict.predicted(CASE)
    for part in ("position", "momentum", "xi"):
        rng = np.random.default_rng(5)
        arrays = {
            "position": CASE.problem.mean + rng.standard_normal((8, 50, 4)),
            "momentum": rng.standard_normal((8, 50, 4)),
            "xi": rng.standard_normal((8, 50)),
        }
        arrays[part][0, 3] = np.nan
        assert verdict.judge(CASE, Record(**arrays), expected, model).verdict == "fails"
    q = verdict.Quantity("variance", *(np.array([x]) for x in (np.nan, 0.1, 1.0, 1.0)))
    assert verdict._verdict([q], {"variance": np.array([0.5])}, 5.0)[0] == "fails"


def test_a_limit_that_does_not_show_is_unresolved():
    """Theory predicts 8 % and may be off by half of it: an exact value agrees, but is no evidence."""
    q = verdict.Quantity("variance", *(np.array([x]) for x in (1.0, 0.01, 1.0, 1.08)))
    assert verdict._verdict([q], {"variance": np.array([0.09])}, 5.0)[0] == "unresolved"
    q = dataclasses.replace(q, value=np.array([1.06]))
    assert verdict._verdict([q], {"variance": np.array([0.09])}, 5.0)[0] == "known limit"


def test_a_stationary_state_that_theory_does_not_predict():
    expected, model = verdict.predicted(CASE)
    none = dataclasses.replace(expected, covariance=np.full((4, 4), np.nan))
    rng = np.random.default_rng(6)
    record = Record(*rng.standard_normal((2, 8, 50, 4)), rng.standard_normal((8, 50)))
    assert "no stationary state" in verdict.judge(CASE, record, none, model).reason
    dead = Record(np.full((8, 50, 4), np.nan), None, None)
    assert verdict.judge(CASE, dead, none, model).verdict == "known limit"


def test_too_short_a_run_is_unresolved():
    assert judged(CASE, chains=8, draws=20).verdict == "unresolved"


def test_a_dead_chain_fails():
    record = Record(np.full((4, 3, 4), np.nan), None, None)
    expected, model = verdict.predicted(CASE)
    row = verdict.judge(CASE, record, expected, model)
    assert row.verdict == "fails"
    assert json.dumps(table.to_json(row))
    assert row.name in table.summarise([row])


REASONS = {
    Case("gaussian", "SGNHT"): "proportional to the mass",
    Case("gaussian", "CCAdL diagonal"): "diagonal control",
    Case("gaussian", "SGHMC"): "left uncontrolled",
    Case("gaussian", "SGLD", s=0.4): "left uncontrolled",
    Case("gaussian", "SGHMC dense", friction=0.2): "clipped",
    Case("regression-ill", "CCAdL dense", plan="reshuffled"): "reshuffled",
    Case("regression-ill", "CCAdL dense", s=0.2): "euler scheme at s = 0.2",
}


@pytest.mark.parametrize(("case", "reason"), REASONS.items(), ids=lambda x: getattr(x, "name", ""))
def test_theory_knows_the_reason(case, reason):
    state, model = verdict.predicted(case)
    assert reason in prediction.why(case, model, state)


CONTROLLED = [c for c in CASES if c.method == "CCAdL dense" and c.plan != "reshuffled" and c.s == 0.05]


@pytest.mark.parametrize("case", CONTROLLED, ids=lambda c: c.name)
def test_theory_expects_full_control_to_hold(case):
    """At the usual step, with white noise, CCAdL with a dense covariance is within the tolerance."""
    state, model = verdict.predicted(case)
    ratios = np.linalg.eigvals(state.covariance @ model.P / model.T).real
    assert np.all(np.abs(ratios - 1) < verdict.TOLERANCE)
    assert abs(state.xi / case.friction - 1) < verdict.TOLERANCE


def test_the_tables():
    """Every sampler, plan, gradient and target is in the full table, and the quick table is part of it."""
    assert len({c.name for c in CASES}) == len(CASES)
    assert set(QUICK) == cases.QUICK_SET
    assert {c.method for c in CASES} == set(cases.METHODS) | set(cases.VARIANTS)
    assert {c.target for c in QUICK} == set(cases.TARGETS)
    assert {c.plan for c in QUICK} == set(cases.PLANS)
    assert {c.gradient for c in QUICK} == set(cases.GRADIENTS)
    samplers = {type(c.sampler) for c in QUICK}
    assert samplers == {iso.SGLD, iso.ModifiedSGLD, iso.SGHMC, iso.SGNHT, iso.CCAdL}


@pytest.mark.slow
def test_a_wrong_sampler_fails(monkeypatch):
    """From the chains to the verdict, on a target that is not Gaussian: the thermostat is set to 1.3 instead of 1."""
    right = CASE.__class__.sampler.fget
    hot = property(lambda case: dataclasses.replace(right(case), temperature=1.3))
    monkeypatch.setattr(Case, "sampler", hot)
    row = verdict.evaluate(Case("poisson", "CCAdL dense"), relaxations=3000.0, chains=128, seed=1)
    assert row.verdict == "fails", row.reason


@pytest.mark.slow
def test_command(tmp_path, capsys):
    """One row from the command line: files, figure, exit status."""
    code = main(["validate", "--quick", "--only", "poisson, full data", "--out", str(tmp_path)])
    assert code == 0
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["passes"]
    assert [r["name"] for r in results["rows"]] == ["CCAdL dense, poisson, full data"]
    assert "CCAdL dense, full data" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "figures" / "table.png").stat().st_size > 10_000
    assert "1 hold" in capsys.readouterr().out


def test_command_refuses_an_unknown_row(capsys):
    assert main(["validate", "--only", "no such row"]) == 2
    assert "--list" in capsys.readouterr().err
    assert main(["validate", "--list", "--quick"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(QUICK)


def test_the_figure_of_any_rows():
    rows = [judged(CASE), judged(CASE, stretch=1.3)]
    axes = figure.draw([figure.line_of(r) for r in rows]).axes
    assert len(axes) == 3
    assert [t.get_text() for t in axes[0].get_yticklabels()] == ["CCAdL dense", "CCAdL dense"]


def test_the_legend_explains_the_marks_in_the_figure():
    """One entry for each kind of mark that is drawn, and none for the others."""
    right, wrong = (figure.line_of(judged(CASE, stretch=x)) for x in (1.0, 1.3))

    def entries(*lines):
        (legend,) = figure.draw(lines).legends
        return [text.get_text() for text in legend.get_texts()]

    measured, theory, band = entries(right)[:3]
    assert entries(right) == [measured, theory, band, "CCAdL"]
    assert entries(right, wrong) == [measured, theory, band, "row that does not pass", "CCAdL"]
    assert entries(dataclasses.replace(right, theory=False)) == [measured, band, "CCAdL"]


def test_all_marks_are_inside_the_axes():
    """Predictions too, where they are farther out than what was measured."""
    line = figure.line_of(judged(Case("gaussian", "SGNHT"), stretch=0.5))
    for ax, name in zip(figure.draw([line]).axes, figure._COLUMNS, strict=True):
        (q,) = (q for q in line.quantities if q.name == name)
        low, high = ax.get_xlim()
        assert low < min(q.value.min(), q.predicted.min())
        assert high > max(q.value.max(), q.predicted.max())
