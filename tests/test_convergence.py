"""Effective sizes and R-hat of all parameters at once, compared with ArviZ's, which takes them one by one."""

import numpy as np
import pytest
from arviz_stats.base import array_stats
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import ndtri
from scipy.stats import rankdata

from isotherm.draws import convergence as module
from isotherm.draws.convergence import (
    Convergence,
    convergence,
    mean_sizes,
    r_hats,
)
from isotherm.draws.elements import blocks_of

MIDDLE = (0.05, 0.95)
NUMBER = 6


def by_arviz(x):
    """Return what `convergence` should, in float64; R-hat of one chain compares its halves."""
    x = np.asarray(x, np.float64)
    axes = {"chain_axis": 1, "draw_axis": 2}
    halves = x[:, 0, : 2 * (x.shape[2] // 2)].reshape(len(x), 2, -1)
    with np.errstate(all="ignore"):
        r_hat = array_stats.rhat(x if x.shape[1] > 1 else halves, **axes)
        return Convergence(
            array_stats.ess(x, method="mean", **axes),
            array_stats.ess(x, method="bulk", **axes),
            array_stats.ess(x, method="tail", prob=MIDDLE, **axes),
            None,  # ArviZ has no such size
            # The halves of a chain are without its last draw if draws are odd.
            np.where(np.isnan(x).any(axis=(1, 2)), np.nan, r_hat),
            *np.quantile(x, MIDDLE, axis=(1, 2)),
        )


def assert_same(x):
    found, wanted = convergence(x, MIDDLE), by_arviz(x)
    for name in Convergence._fields:
        if name != "within_size":
            np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-9, err_msg=name)


def correlated(rho, chains, draws, seed=0):
    """Return stationary autoregressive series of unit variance."""
    noise = np.random.default_rng(seed).normal(size=(NUMBER, chains, draws))
    x = noise.copy()
    for t in range(1, draws):
        x[:, :, t] = rho * x[:, :, t - 1] + (1 - rho**2) ** 0.5 * noise[:, :, t]
    return x


def with_odd_ones(x):
    """Return draws with NaN, infinities, infinite chains, and medians that are infinite or not a number."""
    x = x.copy()
    x[0, -1, x.shape[2] // 2], x[1, -1, -1], x[2, 0, 0] = np.nan, np.inf, -np.inf
    x[3, 0], x[4] = np.inf, np.inf
    x[5, :, ::2], x[5, :, 1::2] = -np.inf, np.inf
    return x


DRAWS = {
    "continuous": lambda x: x,
    "float32": lambda x: x.astype(np.float32),
    "chains apart": lambda x: x + 3 * np.arange(x.shape[1])[:, None],
    "a chain wider": lambda x: np.concatenate([5 * x[:, :1], x[:, 1:]], axis=1),
    "a heavy tail": lambda x: 1 / x,
    "skewed": lambda x: np.exp(3 * x),
    "many ties": lambda x: np.round(x, 1),
    "folded ties": lambda x: np.round(x, 2) * np.sign(x[:, ::-1]),
    "repeated draws": lambda x: np.repeat(x[:, :, ::3], 3, axis=2)[:, :, : x.shape[2]],
    "constant": lambda x: np.full_like(x, 0.3),
    "a constant chain": lambda x: np.concatenate([np.full_like(x[:, :1], 0.3), x[:, 1:]], axis=1),
    "constant chains": lambda x: np.broadcast_to(x[:, :, :1], x.shape),
    "tiny": lambda x: 1e-30 * x,
    "huge": lambda x: 1e30 * x,
    "far from zero": lambda x: x + 1e7,
    "both zeros": lambda x: np.where(np.abs(x) < 1, np.copysign(0.0, x), x),
    "not finite": with_odd_ones,
}


@pytest.mark.parametrize("change", DRAWS.values(), ids=DRAWS.keys())
@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.9, 0.999])
def test_statistics_are_those_of_arviz(rho, change):
    for chains, draws in ((1, 100), (2, 57), (4, 400), (3, 611)):
        assert_same(change(correlated(rho, chains, draws)))


@pytest.mark.parametrize("draws", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
@pytest.mark.parametrize("chains", [1, 2, 3])
def test_statistics_of_few_draws_are_those_of_arviz(chains, draws):
    x = correlated(0.5, chains, draws)
    if draws < 4:
        assert all(np.isnan(column).all() for column in convergence(x, MIDDLE))
        assert np.isnan(mean_sizes(x)).all()
    else:
        assert_same(x)
        assert_same(with_odd_ones(x))


shapes = st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(4, 40))
numbers = st.floats(-1e6, 1e6, allow_subnormal=False) | st.sampled_from(
    [0.0, -0.0, 1.0, np.nan, np.inf, -np.inf]
)


@settings(max_examples=150, deadline=None)
@given(shapes.flatmap(lambda shape: arrays(np.float64, shape, elements=numbers)))
@example(np.zeros((1, 1, 4)))
def test_ranks_and_quantiles_of_any_numbers_are_those_of_arviz(x):
    """Not the sizes: of series with few different values, rounding decides where Geyer's sequence ends."""
    found, wanted = convergence(x, MIDDLE), by_arviz(x)
    for name in ("low", "high"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    for name in ("mean_size", "bulk_size", "tail_size", "r_hat"):
        np.testing.assert_array_equal(np.isnan(getattr(found, name)), np.isnan(getattr(wanted, name)))
    usable = ~(wanted.r_hat > 1e6)  # of chains that are constant up to rounding
    np.testing.assert_allclose(found.r_hat[usable], wanted.r_hat[usable], rtol=1e-7)
    assert (found.r_hat[~usable] > 1e6).all()


@pytest.mark.parametrize("rho", [0.3, 0.99])
def test_blocks_of_any_length_give_the_same(rho, monkeypatch):
    x = correlated(rho, 2, 101)
    whole = convergence(x, MIDDLE)
    for at_once in (1, 2 * 202, 4 * 202 + 7):
        monkeypatch.setattr(module, "AT_ONCE", at_once)
        for one, all_at_once in zip(convergence(x, MIDDLE), whole, strict=True):
            np.testing.assert_allclose(one, all_at_once, rtol=1e-13)
        np.testing.assert_allclose(mean_sizes(x), whole.mean_size, rtol=1e-13)
        np.testing.assert_allclose(r_hats(x), whole.r_hat, rtol=1e-13)


def test_r_hat_of_one_chain_alone_is_unknown():
    assert np.isnan(r_hats(correlated(0.0, 1, 100))).all()
    assert all(column.shape == (0,) for column in convergence(np.zeros((0, 2, 100)), MIDDLE))


@pytest.mark.parametrize("values", [1, 60, 10**6])
def test_blocks_hold_the_draws_of_some_chains(values):
    x = np.random.default_rng(0).normal(size=(3, 10, 2, 4)).astype(np.float32)
    for chains in (np.array([0, 2]), np.arange(3)):
        blocks = list(blocks_of(x, chains, values))
        assert all(block.size <= max(values, 10 * len(chains)) for block in blocks)
        assert np.array_equal(np.concatenate(blocks), np.moveaxis(x.reshape(3, 10, 8), 2, 0)[:, chains])


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_the_size_within_chains_is_that_of_scores_without_differences_of_chains(rho):
    """ArviZ's size for the mean of normal scores of which each half of a chain has the mean zero."""
    x = correlated(rho, 4, 400) + np.arange(4)[:, None]
    halves = x.reshape(NUMBER, 8, 200)
    scores = ndtri((rankdata(halves.reshape(NUMBER, -1), axis=1) - 3 / 8) / (1600 + 1 / 4)).reshape(
        halves.shape
    )
    scores -= scores.mean(axis=2, keepdims=True)
    wanted = array_stats.ess(scores.reshape(x.shape), method="mean", chain_axis=1, draw_axis=2)
    np.testing.assert_allclose(convergence(x, MIDDLE).within_size, wanted, rtol=1e-9)
