"""Batches for posteriors with groups: how many rows they have, what they do to variances, and rows on a disk."""

import dataclasses

import jax
import numpy as np
import pytest

import isotherm as iso
from isotherm.data import stream
from isotherm.data.plans import AllRows
from isotherm.gradients.arrow_variate import ArrowVariate
from isotherm.gradients.minibatch import FullData
from isotherm.sampling.warmup import prepared
from isotherm.sums import precision
from isotherm.tree import put_like
from isotherm.tuning.groups import tune
from isotherm.tuning.groups.derivatives import blocks
from isotherm.tuning.groups.few_rows import few_rows
from isotherm.tuning.groups.layout import layout_of, level_columns, pair_index
from isotherm.tuning.groups.noise import LevelNoise, Moved, level_noise, roots_of
from support.grouped import crossed_groups, logistic_groups


@pytest.fixture
def no_few_rows(monkeypatch):
    """Measure the noise of rows however few they are."""
    monkeypatch.setattr(tune, "FEW_ROWS", 0)


@pytest.fixture
def short_blocks(monkeypatch):
    """Rows of a source are not held in memory, however few they are."""
    monkeypatch.setattr(stream, "_HELD", 0)
    monkeypatch.setattr(stream, "_BLOCK", 8_000)
    monkeypatch.setattr(stream, "_SAMPLE", 8_000)


@pytest.mark.slow
def test_rows_of_a_stream_give_the_derivatives_of_arrays(short_blocks, quick_compilation):
    """Blocks of a crossed model: pairs are found by bisection where there are no numbers of pairs for all rows."""
    posterior, data, init = crossed_groups(rows=6000)
    found = []
    for rows in (data, iso.data.arrays(data)):
        with precision.float64(), prepared(posterior, rows, init) as problem:
            assert isinstance(problem.data, stream.Stream) == (rows is not data)
            layout = layout_of(posterior, problem.init, problem.data)
            pairs = [pair_index(layout, problem.data, i, j) for i, j in layout.pairs]
            density, start = (precision.widened(x) for x in (problem.density, problem.init))
            found.append(blocks(density, problem.data, start, layout, pairs))
    for a, b in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


def test_a_level_that_is_too_large_is_found_in_any_row_of_a_stream(short_blocks):
    posterior, data, init = crossed_groups(rows=6000)
    with prepared(posterior, iso.data.arrays(data), init) as problem:
        hidden = np.setdiff1d(np.arange(6000), problem.data.sample_index)[7]
        layout = layout_of(posterior, problem.init, problem.data)
        data["patient"][hidden] = 12  # the source holds the same array
        with pytest.raises(
            ValueError, match=r"`data.patient` must be numbers of levels of `by_patient`.*got 12"
        ):
            level_columns(layout, problem.data)


def test_levels_with_few_rows_are_used_in_every_step():
    """A hundred levels of 200 rows, ten of 2, the rest of the noise being small: the 20 rows are in every step."""
    noise = LevelNoise(
        mean=np.append(np.full(100, 0.01), np.full(10, 50.0)),
        heat=np.append(np.full(100, 0.1), np.full(10, 400.0)),
        tails=np.zeros(110),
        roots=np.append(np.full(100, 1.0), np.full(10, 9.0)),
        counts=np.append(np.full(100, 200.0), np.full(10, 2.0)),
    )
    chosen = few_rows({Moved(0, 0): noise}, 20_020)
    np.testing.assert_array_equal(np.flatnonzero(chosen[0]), np.arange(100, 110))
    assert few_rows({Moved(0, 0): noise._replace(heat=np.full(110, 0.1), mean=np.zeros(110))}, 20_020) == {}


def test_levels_whose_tails_call_for_large_batches_are_used_in_every_step():
    """Noise that is small at the posterior and grows outward has the same effect."""
    quiet = np.full(110, 0.01)
    noise = LevelNoise(
        mean=quiet,
        heat=quiet,
        tails=np.append(np.full(100, 1.0), np.full(10, 4e4)),
        roots=np.append(np.full(100, 1.0), np.full(10, 9.0)),
        counts=np.append(np.full(100, 200.0), np.full(10, 2.0)),
    )
    chosen = few_rows({Moved(0, 0): noise}, 20_020)
    np.testing.assert_array_equal(np.flatnonzero(chosen[0]), np.arange(100, 110))


@pytest.mark.slow
def test_the_noise_in_the_tails_of_a_level_is_that_by_hand(no_few_rows, quick_compilation):
    """Logistic rows: at the outermost nodes of the rule any noise counts, at 8 sd what drives a level further out.

    With p the probability of a row and w = p (1 - p) at the anchor a, the remainder of a row's slope is
    p(a) - p(b) + w (b - a), times the derivative of the effect along v. Without measured roots rows are drawn
    equally often, so that one of N has the weight N. What is not moved is one sd away, on either side.
    """
    groups, each, nodes = 12, 5, np.polynomial.hermite_e.hermegauss(8)[0][[0, -1]]
    posterior, data, init = logistic_groups(groups, each)
    with pytest.warns(UserWarning, match="`batch_size` = 4 is small for levels with few rows"):
        setup = iso.warmup(posterior, data, init, progress=False, batch_size=4)
    gradient = setup.gradient
    assert isinstance(gradient, ArrowVariate)
    moved = Moved(0, 0)
    found = level_noise(gradient, data, roots_of(gradient, seed=0), 0.0, moved).tails
    mask = moved.mask(gradient)
    signs = np.random.default_rng(0).integers(2, size=mask.size) * 2.0 - 1
    expit = lambda x: 1 / (1 + np.exp(-x))
    rows = {k: np.asarray(x, np.float64) for k, x in data.items()} | {"level": data["level"]}

    def predictor(v):
        theta = gradient.natural(put_like(v * signs, gradient.anchor)).theta
        a, slopes, effect = (np.asarray(theta[k], np.float64) for k in ("a", "slopes", "effect"))
        return a + rows["x"] @ slopes + effect[rows["level"]], effect[rows["level"]]

    (at_anchor, _), N = predictor(0 * signs), groups * each
    expected = np.zeros(groups)
    for node in (*nodes, -8.0, 8.0):
        noise = np.zeros(groups)
        for side in (1, -1):
            eta, effect = predictor(np.where(mask, node, side))
            by_v = (predictor(np.where(mask, node + 0.01, side))[1] - effect) / 0.01
            rest = expit(at_anchor) - expit(eta) + expit(at_anchor) * expit(-at_anchor) * (eta - at_anchor)
            slope = rest * by_v
            slope = np.where((abs(node) == 8) & (slope * node < 0), 0, slope)
            noise += np.bincount(rows["level"], N * slope**2, minlength=groups) / 2
        expected = np.maximum(expected, noise)
    np.testing.assert_allclose(found, expected, rtol=2e-3)


@pytest.mark.slow
def test_variances_are_those_of_all_rows_and_stay_below_the_prediction_in_smaller_batches(no_few_rows):
    """300 levels of 60 rows: batches of the chosen size, and of an eighth of it, beside all rows.

    The variance of a level is known to 3 % from each run of 4 x 1,500 draws, and the mean ratio over 300 levels, of
    which two thirds are independent of the rest, to 0.3 %. Four of these and the limit of 2 % bound the first ratio.
    The prediction is an upper bound, which is eight times as large for the second.
    """
    posterior, data, init = logistic_groups(300, 60)
    setup = iso.warmup(posterior, data, init, progress=False)
    assert isinstance(setup.gradient, ArrowVariate)
    N = setup.problem.num_data
    whole = dataclasses.replace(
        setup.kernel, gradient=FullData(setup.problem.density), minibatch=AllRows(), batch_size=N
    )
    few = dataclasses.replace(setup.kernel, batch_size=setup.batch_size // 8)
    variance = []
    for kernel in (whole, setup.kernel, few):
        own = dataclasses.replace(setup, kernel=kernel, arithmetic=None)
        draws = iso.sample(posterior, data, own, num_draws=1500, progress=False)
        variance.append(
            {k: np.ravel(x.reshape(-1, *x.shape[2:]).var(axis=0)) for k, x in draws.flat().items()}
        )
    exact, chosen, small = variance
    ratio = lambda a, name: float(np.mean(a[name] / exact[name]))
    assert abs(ratio(chosen, "effect") - 1) < 0.032
    assert abs(ratio(small, "effect") - 1) < 8 * 0.02 + 0.012
    # A scale has about as many effective draws as a level: its own ratio is known to 5 %.
    assert abs(ratio(chosen, "tau") - 1) < 0.2


@pytest.mark.slow
def test_rows_on_a_disk_give_the_posterior_of_arrays(no_few_rows, request, tmp_path):
    """The same 6,000 rows from arrays and from a file: means differ by less than 4.5 of their Monte Carlo errors."""
    posterior, data, init = logistic_groups(20, 300)
    held = iso.sample(posterior, data, init, progress=False)
    for name, x in data.items():
        np.save(tmp_path / f"{name}.npy", x)
    request.getfixturevalue("short_blocks")
    rows = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in data}
    read = iso.sample(posterior, rows, init, progress=False)
    assert isinstance(read.setup.problem.data, stream.Stream)
    assert "No fault" in read.summary().verdict
    for a, b in zip(held.summary().rows, read.summary().rows, strict=True):
        assert abs(a.mean - b.mean) < 4.5 * np.hypot(a.mcse, b.mcse), a.name
