"""Figures show the right parameters and bands, and leave out failed chains."""

import builtins

import matplotlib.pyplot as plt
import numpy as np
import pytest
from arviz_stats.base import array_stats

import isotherm as iso
from isotherm import plots, scores
from isotherm.plots.parameters import _split_r_hat
from support.made import made

FRICTION, MU, SIZE = 2.0, 25.0, 40
SAMPLER = iso.CCAdL(0.1, FRICTION, iso.Diagonal(), thermal_mass=MU, temperature=1.0)
RECORD = {
    "sampler": SAMPLER,
    "num_parameters": SIZE,
    "steps": 600,
    "burn_in": 100,
    "thinning": 5,
    "batch_size": 10,
    "num_data": 50,
    "data_passes": 120.0,
}


def run(complete=(True, True, True), seed=0, **changes):
    """Forty weights, of which w[17] differs between chains, and a constant intercept."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(3, 100, SIZE))
    w[..., 17] += np.array([-3.0, 0.0, 3.0])[:, None]
    stats = {
        "kinetic_temperature": rng.chisquare(SIZE, size=(3, 100)) / SIZE,
        "xi": FRICTION + rng.normal(size=(3, 100)) / np.sqrt(MU),
    }
    return made({"w": w, "b": np.zeros((3, 100))}, complete, stats, **(RECORD | changes))


def names(figure):
    return [ax.get_title(loc="left") for ax in figure.axes if ax.get_title(loc="left")]


def test_of_many_parameters_the_worst_are_shown_and_the_title_says_so(tmp_path):
    figure = plots.traces(run())
    assert len(names(figure)) == 8
    assert {"b", "w[17]"} <= set(names(figure))
    assert "8 of 41 parameters, those with the largest R-hat" in figure.get_suptitle()
    path = plots.save(figure, tmp_path / "deep" / "traces.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert plt.get_fignums() == []


def test_split_r_hat_is_that_of_arviz():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 101, 3)) + rng.normal(size=(4, 1, 3))
    one = [array_stats.rhat(x[..., i], chain_axis=0, draw_axis=1, method="split") for i in range(3)]
    np.testing.assert_allclose(_split_r_hat(x), one, rtol=1e-6)


def test_names_select_parameters_and_wrong_ones_are_refused():
    draws = run()
    assert names(plots.marginals(draws, ["b", "w[3]"])) == ["b", "w[3]"]
    assert len(plots.pairs(draws, ["w[0]", "w[1]", "w[17]"]).axes) == 9
    with pytest.raises(
        ValueError, match=r"`names` must be names of parameters; got 'v'. There are b, w\[0\]"
    ):
        plots.traces(draws, ["v"])
    with pytest.raises(ValueError, match=r"`names` must be the names of 1 to 8 parameters; got \('w',\)"):
        plots.traces(draws, ["w"])


@pytest.mark.slow
def test_chains_that_failed_are_left_out_of_every_figure():
    draws = run(complete=(True, False, True))
    for draw in (plots.traces, plots.marginals, plots.pairs, plots.convergence, plots.temperatures):
        figure = draw(draws)
        assert "1 of 3 chains failed and are left out" in figure.get_suptitle(), draw
        assert all(np.isfinite(line.get_ydata()).all() for ax in figure.axes for line in ax.lines), draw
    assert len(plots.traces(draws).axes[0].lines) == 2


def test_temperatures_have_the_bands_of_theory():
    figure = plots.temperatures(run())
    kinetic, _, xi, _ = figure.axes
    bounds = xi.patches[0].get_extents().transformed(xi.transData.inverted())
    assert (bounds.y0, bounds.y1) == pytest.approx((FRICTION - 1.96 / 5, FRICTION + 1.96 / 5), abs=1e-3)
    assert f"theory {FRICTION:g}, 0.2" in xi.get_title(loc="right")
    assert f"(theory 1, {np.sqrt(2 / SIZE):.3g})" in kinetic.get_title(loc="right")
    # Steps 105 to 600 of 10 rows of 50.
    assert kinetic.lines[1].get_xdata()[[0, -1]] == pytest.approx([21.0, 120.0])
    uncontrolled = iso.SGNHT(0.1, FRICTION, thermal_mass=MU, temperature=1.0)
    shifted = plots.temperatures(run(sampler=uncontrolled, noise_friction=3.0)).axes[2]
    assert "theory 5, 0.2" in shifted.get_title(loc="right")
    assert "theory" not in plots.temperatures(run(sampler=uncontrolled)).axes[2].get_title(loc="right")
    with pytest.raises(ValueError, match="`draws` must be from a sampler with momentum; got 'SGLD'"):
        plots.temperatures(made(np.zeros((2, 9)), sampler=iso.SGLD(0.1)))


def test_errors_against_a_reference_are_in_its_standard_deviations():
    draws, reference = run(), run(seed=1)
    figure = plots.convergence(draws, reference={"w": np.zeros(SIZE), "b": 0.0})
    x = draws.posterior["w"].mean(axis=1)
    sd = draws.posterior["w"].std(axis=(0, 1))
    last = np.sqrt(np.sum((x / sd) ** 2, axis=1) / (SIZE + 1))
    found = [line.get_ydata()[-1] for line in figure.axes[0].lines]
    np.testing.assert_allclose(found[:3], last, rtol=1e-6)
    np.testing.assert_allclose(found[3], np.sqrt(np.sum((x.mean(axis=0) / sd) ** 2) / (SIZE + 1)), rtol=1e-6)
    plots.convergence(draws, reference=reference)
    with pytest.raises(ValueError, match="`reference` must be made of the same parameters as `draws`: b, w"):
        plots.convergence(draws, reference={"w": np.zeros(3), "b": 0.0})


def test_marginals_have_the_reference_in_black():
    draws = run()
    truth = {"w": np.arange(SIZE) / 10, "b": 0.3}
    axes = plots.marginals(draws, ["w[4]", "b"], reference=truth).axes
    assert [ax.lines[-1].get_xdata()[0] for ax in axes[:2]] == [0.4, 0.3]
    assert axes[0].lines[-1].get_color() == plots.EXACT.color
    other = plots.marginals(draws, ["w[4]"], reference=run(seed=1)).axes[0].lines[-1]
    # The area under a density is 1.
    assert np.trapezoid(other.get_ydata(), other.get_xdata()) == pytest.approx(1, abs=0.05)
    with pytest.raises(ValueError, match="`reference` must be made of the same parameters"):
        plots.marginals(draws, ["b"], reference={"b": 0.0})


def test_a_calibration_curve_has_its_bars_and_counts():
    rng = np.random.default_rng(0)
    p = rng.random(500)
    curve = scores.calibration(p, rng.random(500) < p)
    above, below = plots.calibration(curve).axes
    bars = above.containers[0].lines[2][0].get_segments()
    np.testing.assert_allclose([bar[1, 1] - bar[0, 1] for bar in bars], 4 * curve.error)
    assert [bar.get_height() for bar in below.patches] == curve.count.tolist()
    assert below.get_xlabel() == "probability of the second class"
    assert len(plots.calibration(scores.pit_calibration(p)).axes) == 1


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **options):
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"pip install 'isotherm\[plots\]'"):
        iso.plots.traces(run())
