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
from isotherm.tuning.groups import tune
from isotherm.tuning.groups.few_rows import few_rows
from isotherm.tuning.groups.noise import LevelNoise, Moved
from support.grouped import crossed_groups, logistic_groups


@pytest.fixture
def no_few_rows(monkeypatch):
    """Measure the noise of rows however few they are."""
    monkeypatch.setattr(tune, "FEW_ROWS", 0)


def reasons(setup):
    return {reason.choice: reason for reason in setup.reasons}


def test_rows_of_a_stream_give_the_derivatives_of_arrays(monkeypatch, quick_compilation, tmp_path):
    """Blocks of a crossed model: pairs are found by bisection where there are no numbers of pairs for all rows."""
    from isotherm.sampling.warmup import prepared
    from isotherm.sums import precision
    from isotherm.tuning.groups.derivatives import blocks
    from isotherm.tuning.groups.layout import layout_of, level_columns, pair_index

    posterior, data, init = crossed_groups()
    found = []
    for streamed in (False, True):
        if streamed:
            monkeypatch.setattr(stream, "_HELD", 0)
            monkeypatch.setattr(stream, "_BLOCK", 500)
            monkeypatch.setattr(stream, "_SAMPLE", 300)
        rows = iso.data.arrays(data) if streamed else data
        with precision.float64(), prepared(posterior, rows, init) as problem:
            assert isinstance(problem.data, stream.Stream) == streamed
            layout = layout_of(posterior, problem.init, problem.data)
            columns = level_columns(layout, problem.data)
            pairs = [pair_index(layout, problem.data, i, j, columns) for i, j in layout.pairs]
            density, start = (precision.widened(x) for x in (problem.density, problem.init))
            found.append(blocks(density, problem.data, start, layout, pairs))
    for a, b in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_a_level_that_is_too_large_is_found_in_any_row_of_a_stream(monkeypatch):
    monkeypatch.setattr(stream, "_HELD", 0)
    posterior, data, init = crossed_groups(rows=30_000)
    data["patient"][np.random.default_rng(5).integers(30_000)] = 12
    with pytest.raises(ValueError, match=r"`data.patient` must be numbers of levels of `by_patient`.*got 12"):
        iso.warmup(posterior, iso.data.arrays(data), init, progress=False)


def test_levels_with_few_rows_are_used_in_every_step():
    """A hundred levels of 200 rows, ten of 2, the rest of the noise being small: the 20 rows are in every step."""
    noise = LevelNoise(
        mean=np.append(np.full(100, 0.01), np.full(10, 50.0)),
        heat=np.append(np.full(100, 0.1), np.full(10, 400.0)),
        roots=np.append(np.full(100, 1.0), np.full(10, 9.0)),
        counts=np.append(np.full(100, 200.0), np.full(10, 2.0)),
    )
    gradient = Fake((Fake(np.zeros((110, 1))),))
    (chosen,) = few_rows(gradient, {Moved(0, 0): noise}, 20_020)
    np.testing.assert_array_equal(np.flatnonzero(chosen), np.arange(100, 110))


class Fake:
    """Control variates with these factors, or a factor with this gradient."""

    def __init__(self, x):
        self.gradient, self.sums = x, self
        self.factors = x


@pytest.mark.slow
def test_variances_are_those_of_all_rows_and_grow_as_predicted_in_smaller_batches(no_few_rows):
    """300 levels of 60 rows: batches of the chosen size, and of an eighth of it, beside all rows.

    The variance of a level is known to 3 % from each run of 4 x 1,500 draws, and the mean ratio over 300 levels, of
    which two thirds are independent of the rest, to 0.3 %. Four of these and the limit of 2 % bound the first ratio;
    the second must be above it by at least the same.
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
    assert ratio(small, "effect") > ratio(chosen, "effect") + 0.012
    # A scale has about as many effective draws as a level: its own ratio is known to 5 %.
    assert abs(ratio(chosen, "tau") - 1) < 0.2


@pytest.mark.slow
def test_rows_on_a_disk_give_the_posterior_of_arrays(monkeypatch, no_few_rows, tmp_path):
    """The same 6,000 rows from arrays and from a file: means differ by less than 4.5 of their Monte Carlo errors."""
    posterior, data, init = logistic_groups(20, 300)
    held = iso.sample(posterior, data, init, progress=False)
    for name, x in data.items():
        np.save(tmp_path / f"{name}.npy", x)
    monkeypatch.setattr(stream, "_HELD", 0)
    monkeypatch.setattr(stream, "_BLOCK", 8_000)
    monkeypatch.setattr(stream, "_SAMPLE", 8_000)
    rows = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in data}
    read = iso.sample(posterior, rows, init, progress=False)
    assert isinstance(read.setup.problem.data, stream.Stream)
    assert "No fault" in read.summary().verdict
    for a, b in zip(held.summary().rows, read.summary().rows, strict=True):
        assert abs(a.mean - b.mean) < 4.5 * np.hypot(a.mcse, b.mcse), a.name


@pytest.mark.slow
def test_rows_on_a_disk_of_levels_with_few_rows_are_refused_in_a_sentence(monkeypatch):
    monkeypatch.setattr(stream, "_HELD", 0)
    posterior, data, init = logistic_groups(2000, 5)
    with pytest.raises(ValueError, match=r"must be rows that fit into memory.*levels with few rows"):
        iso.warmup(posterior, iso.data.arrays(data), init, progress=False)
