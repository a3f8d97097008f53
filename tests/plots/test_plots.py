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
    assert plots.save(figure, str(path)) == path
    assert plt.get_fignums() == []


@pytest.mark.parametrize(("count", "numbered"), [(4, "0011"), (5, "00111"), (1, "1")])
def test_panels_with_one_scale_have_numbers_below_the_last_of_each_width(count, numbered):
    axes = plots.convergence(run(), [f"w[{i}]" for i in range(count)]).axes
    below = [ax.xaxis.get_tick_params()["labelbottom"] for ax in axes]
    assert "".join(str(int(x)) for x in below) == numbered
    assert len({ax.get_ylim() for ax in axes}) == 1


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


def test_errors_against_another_run_are_in_its_standard_deviations():
    draws, reference = run(), run(seed=1)
    reference.posterior["b"] += np.random.default_rng(2).normal(size=(3, 100))
    figure = plots.convergence(draws, reference=reference)
    theirs = np.concatenate([reference.posterior["w"], reference.posterior["b"][..., None]], axis=2)
    x = np.concatenate([draws.posterior["w"], draws.posterior["b"][..., None]], axis=2).mean(axis=1)
    m, sd = theirs.mean(axis=(0, 1)), theirs.std(axis=(0, 1))
    last = [np.sqrt(np.mean(((v - m) / sd) ** 2)) for v in (*x, x.mean(axis=0))]
    found = [line.get_ydata()[-1] for line in figure.axes[0].lines]
    np.testing.assert_allclose(found[:4], last, rtol=1e-6)
    with pytest.raises(ValueError, match="`reference` must be made of the same parameters as `draws`: b, w"):
        plots.convergence(draws, reference={"w": np.zeros(3), "b": 0.0})


@pytest.mark.parametrize("chains", [1, 4])
def test_errors_beside_true_parameters_fall_to_the_monte_carlo_error(chains):
    """The truth is one sd away, as it is under a posterior. The error of a mean of n independent draws against the
    mean of m others is sqrt(1/n + 1/m) sd. Its rms over 400 parameters is known to 4 %: 5 times that buys a false
    alarm in 10^6 seeds."""
    rng = np.random.default_rng(0)
    draws = made({"w": rng.normal(size=(chains, 400, 400))}, **RECORD)
    figure = plots.convergence(draws, reference={"w": rng.choice([-1.0, 1.0], size=400)})
    *errors, away, _ = [line.get_ydata() for line in figure.axes[0].lines]
    n, m = (400, 1200) if chains == 4 else (200, 200)
    assert len(errors) == max(2, chains)
    np.testing.assert_allclose([y[-1] for y in errors], np.sqrt(1 / n + 1 / m), rtol=0.2)
    np.testing.assert_allclose(away, 1, atol=0.2)
    assert "mean to truth" in [text.get_text() for text in figure.axes[0].texts]


def test_each_density_beside_a_trace_has_its_own_scale():
    draws = made(
        {
            "narrow": 1e-3 * np.random.default_rng(0).normal(size=(2, 100)),
            "wide": run().posterior["w"][:2, :, 0],
        }
    )
    figure = plots.traces(draws)
    for left, right in zip(figure.axes[::2], figure.axes[1::2], strict=True):
        widest = max(line.get_xdata().max() for line in right.lines)
        assert 0.5 < widest / right.get_xlim()[1] <= 1
        assert left.get_ylim() == right.get_ylim()


@pytest.mark.parametrize(("count", "rows"), [(3, [3]), (5, [3, 2]), (6, [3, 3]), (7, [4, 3])])
def test_rows_of_panels_are_full(count, rows):
    figure = plots.marginals(run(), [f"w[{i}]" for i in range(count)])
    figure.draw_without_rendering()
    tops = [round(ax.get_position().y1, 3) for ax in figure.axes]
    assert [tops.count(y) for y in dict.fromkeys(tops)] == rows
    right = [
        max(ax.get_position().x1 for ax, y in zip(figure.axes, tops, strict=True) if y == top)
        for top in set(tops)
    ]
    np.testing.assert_allclose(right, right[0], atol=0.02)


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
    low, high = (
        np.maximum(curve.observed - 2 * curve.error, 0),
        np.minimum(curve.observed + 2 * curve.error, 1),
    )
    np.testing.assert_allclose([bar[:, 1] for bar in bars], np.stack([low, high], axis=1), atol=1e-12)
    assert [bar.get_height() for bar in below.patches] == curve.count.tolist()
    assert below.get_xlabel() == "probability of the second class"
    assert len(plots.calibration(scores.pit_calibration(p)).axes) == 1


def test_calibration_stays_between_0_and_1_and_rare_events_fill_the_plot():
    sure = scores.calibration(np.array([0.02, 0.03, 0.98, 0.97]), np.array([0, 0, 1, 1]))
    ax = plots.calibration(sure).axes[0]
    bars = np.concatenate(ax.containers[0].lines[2][0].get_segments())[:, 1]
    assert bars.min() >= 0
    assert bars.max() <= 1
    assert ax.get_ylim() == (-0.02, 1.02)
    p = np.random.default_rng(0).uniform(0, 0.04, 20_000)
    rare = scores.calibration(p, np.random.default_rng(1).random(20_000) < p, equal_mass=True)
    assert 0.04 < plots.calibration(rare).axes[0].get_xlim()[1] < 0.09


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **options):
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"pip install 'isotherm\[plots\]'"):
        iso.plots.traces(run())
