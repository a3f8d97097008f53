"""Simulation-based calibration: the band has the stated rate of false alarms, and wrong samplers leave it."""

import dataclasses
import json

import numpy as np
import pytest
from scipy import stats

import isotherm as iso
from isotherm.studies.validation.calibration import ranks
from isotherm.studies.validation.calibration import study as calibration
from isotherm.studies.validation.calibration.figure import draw
from isotherm.studies.validation.calibration.models import logistic_regression, normal_mean_and_precision
from support.monte_carlo import FALSE_ALARM

DRAWS = 64
STRICT = calibration.FALSE_ALARM / 4
GRID = (np.arange(2000) + 0.5) / 2000


def uniform_ranks(rng, replicates):
    return rng.integers(0, DRAWS + 1, replicates)


def ranks_under(rng, replicates, *, sd=1.0, shift=0.0):
    """Return ranks of N(0, 1) truths among draws from N(shift, sd^2)."""
    return rng.binomial(DRAWS, stats.norm.cdf((rng.normal(size=replicates) - shift) / sd))


def power(replicates, *, sd=1.0, shift=0.0):
    """Return the exact probability that such ranks leave the band."""
    truth = stats.norm.ppf(GRID)
    return chance_to_leave(replicates, stats.norm.cdf((truth - shift) / sd))


def power_to_see_heat(replicates, temperature, *, parameters=3):
    """Return the same for the log-likelihood of a Gaussian posterior, -chi^2/2, with draws that are too hot."""
    truth = stats.chi2.ppf(GRID, parameters)
    return chance_to_leave(replicates, stats.chi2.sf(truth / temperature, parameters))


def chance_to_leave(replicates, share):
    """Return the probability that ranks leave the band if a `share` of draws is below each truth.

    The truths are equally spaced quantiles.
    """
    cells = stats.binom.pmf(np.arange(DRAWS + 1)[None], DRAWS, share[:, None]).mean(axis=0)
    band = ranks.band(replicates, DRAWS, STRICT)
    return 1 - ranks.probability_inside(*band, replicates=replicates, cells=cells / cells.sum())


@pytest.mark.parametrize("replicates", [100, 500])
def test_uniform_ranks_leave_the_band_at_the_stated_rate(replicates):
    """At a rate of 0.1, the number of 10^4 sets that leave the band is binomial, up to the suite's false alarms."""
    low, high = ranks.band(replicates, DRAWS, 0.1)
    sets = np.random.default_rng(0).multinomial(replicates, np.full(DRAWS + 1, 1 / (DRAWS + 1)), size=10_000)
    counts = np.cumsum(sets, axis=1)[:, :-1]
    outside = int(((counts < low) | (counts > high)).any(axis=1).sum())
    exact = 1 - ranks.probability_inside(low, high, replicates=replicates)
    assert 0.09 < exact <= 0.1  # counts are whole numbers: the rate cannot be met to every digit
    assert stats.binomtest(outside, 10_000, exact).pvalue > FALSE_ALARM


def test_the_probability_agrees_with_an_enumeration():
    """Three ranks on 0..2: all 27 outcomes, with equal and with unequal cells."""
    low, high = np.array([0, 1]), np.array([2, 3])
    outcomes = np.array(np.meshgrid(*[[0, 1, 2]] * 3)).reshape(3, -1).T
    below = np.stack([(outcomes < 1).sum(axis=1), (outcomes < 2).sum(axis=1)], axis=1)
    inside = ((below >= low) & (below <= high)).all(axis=1)
    for cells in (np.full(3, 1 / 3), np.array([0.5, 0.2, 0.3])):
        expected = cells[outcomes[inside]].prod(axis=1).sum()
        got = ranks.probability_inside(low, high, replicates=3, cells=cells)
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_inside_the_band_is_a_p_value_above_the_rate():
    rng = np.random.default_rng(1)
    low, high = ranks.band(100, DRAWS, 0.1)
    for _ in range(50):
        drawn = uniform_ranks(rng, 100)
        counts = ranks.cumulative_counts(drawn, DRAWS)
        assert ((low <= counts) & (counts <= high)).all() == (ranks.p_value(drawn, DRAWS) > 0.1)


def test_wrong_ranks_leave_the_band():
    """With an sd 30 % too small, the probability that 1000 ranks stay inside is below 1e-4."""
    assert power(1000, sd=0.7) > 1 - 1e-4
    assert ranks.p_value(ranks_under(np.random.default_rng(2), 1000, sd=0.7), DRAWS) < STRICT


@pytest.mark.parametrize(
    ("replicates", "wrong"),
    [
        (1000, {"shift": 0.14}),
        (1000, {"sd": 0.76**0.5}),
        (100, {"shift": 0.44}),
        (100, {"sd": 0.43**0.5}),
    ],
)
def test_what_the_band_detects_in_half_of_all_studies(replicates, wrong):
    """The numbers in the docstring of the module, to their last digit."""
    assert 0.4 < power(replicates, **wrong) < 0.6


@pytest.mark.parametrize(
    ("replicates", "temperature", "least", "most"),
    [(1000, 1.3, 0.999, 1), (250, 1.5, 0.998, 1), (100, 2.0, 0.999, 1), (100, 1.3, 0.1, 0.12)],
)
def test_what_the_band_detects_of_a_temperature(replicates, temperature, least, most):
    assert least < power_to_see_heat(replicates, temperature) <= most


def made_up(**wrong):
    rng = np.random.default_rng(3)
    columns = [ranks_under(rng, 500, **wrong)] + [uniform_ranks(rng, 500) for _ in range(2)]
    return calibration.Calibration(
        model="made up",
        quantities=("a", "b", "log-likelihood"),
        ranks=np.stack(columns, axis=1),
        draws=DRAWS,
        replicates=500,
        p_values=np.array([ranks.p_value(x, DRAWS) for x in columns]),
        band=ranks.band(500, DRAWS, calibration.FALSE_ALARM / 3),
        compilations=1,
        recompilations=0,
        stopped=0,
        seconds=1.0,
    )


def test_a_result_has_a_sentence_and_a_figure():
    right, wrong = made_up(), made_up(shift=1.0)
    assert right.holds
    assert "stay inside" in right.sentence
    assert not wrong.holds
    assert "leave the band" in wrong.sentence
    assert "furthest out is a, p = " in wrong.sentence
    stopped = dataclasses.replace(right, stopped=2)
    assert not stopped.holds
    assert "stopped early in 2 of 500" in stopped.sentence
    record = json.loads(json.dumps(wrong.to_json()))
    assert record["holds"] is False
    assert np.array(record["ranks"]).shape == (500, 3)
    figure = draw([right, wrong])
    assert len(figure.axes) == 4
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in figure.axes)


@pytest.mark.slow
def test_only_the_first_replicate_compiles_and_a_seed_repeats():
    model = dataclasses.replace(normal_mean_and_precision(), burn_in=2, thinning=1)
    reported = []
    first, again = (
        calibration.calibrate_model(model, replicates=3, seed=(0,), advance=reported.append) for _ in range(2)
    )
    assert first.compilations > 0
    assert first.recompilations == again.compilations == again.recompilations == 0
    assert np.array_equal(first.ranks, again.ranks)
    assert reported[:3] == [f"normal mean and precision, {i} of 3" for i in (1, 2, 3)]


@pytest.mark.slow
def test_too_high_a_temperature_leaves_the_band():
    """The log-likelihood shows it: 100 replicates detect a temperature of 2 with probability 0.999."""
    hot = dataclasses.replace(
        logistic_regression(), sampler=iso.CCAdL(0.006, 6.0, iso.Dense(), temperature=2.0)
    )
    result = calibration.calibrate_model(hot, replicates=100, seed=(1,))
    assert not result.holds, result.sentence


@pytest.mark.slow
def test_noise_that_is_not_controlled_leaves_the_band():
    """With batches of 5, noise adds half again as much heat as friction removes; only CCAdL corrects for it."""
    model = dataclasses.replace(logistic_regression(), batch_size=5)
    right = calibration.calibrate_model(model, replicates=75, seed=(2,))
    assert right.holds, right.sentence
    assert right.recompilations == 0
    hot = dataclasses.replace(model, sampler=iso.SGHMC(0.006, 6.0))
    wrong = calibration.calibrate_model(hot, replicates=150, seed=(2,))
    assert not wrong.holds, wrong.sentence
