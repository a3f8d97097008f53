"""Effective sizes and R-hat of many parameters at once.

These are the statistics of Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021, https://arxiv.org/abs/1903.08008)
with ArviZ's conventions, and they equal ArviZ's up to rounding. Parameters are the first axis, so that the draws of
each lie side by side in memory, and are taken in blocks that fit into the cache of a processor.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.fft import fft, next_fast_len, rfft
from scipy.special import ndtri

AT_ONCE = 2**17  # draws in a block, of all its parameters together
_FEWEST_DRAWS = 4  # of a chain
_NO_SPREAD = 1e-15  # a series of a smaller range counts as independent draws

_Flat = Float[np.ndarray, "number size"]
_Order = Int[np.ndarray, "number size"]


class Convergence(NamedTuple):
    """Statistics of each parameter, NaN if one of its draws is NaN or if chains have fewer than 4 draws.

    - `mean_size`, `bulk_size`: the number of independent draws whose mean would be as exact: the mean of the
      parameter, and that of its normal scores, which exists for every distribution.
    - `tail_size`: the same for the shares of draws up to `low` and up to `high`, whichever is smaller.
    - `within_size`: `bulk_size` by the autocorrelation within chains alone, however far apart they are.
    - `r_hat`: rank-normalised split R-hat, of the location or of the spread, whichever is larger.
    - `low`, `high`: quantiles.
    """

    mean_size: Float[np.ndarray, " number"]
    bulk_size: Float[np.ndarray, " number"]
    tail_size: Float[np.ndarray, " number"]
    within_size: Float[np.ndarray, " number"]
    r_hat: Float[np.ndarray, " number"]
    low: Float[np.ndarray, " number"]
    high: Float[np.ndarray, " number"]


def convergence(x: Float[np.ndarray, "number chain draw"], middle: tuple[float, float]) -> Convergence:
    """Return the statistics of all parameters, with the quantiles `middle`; of one chain, R-hat of its halves."""
    return Convergence(*_in_blocks(lambda block: _convergence(block, middle), x, len(Convergence._fields)))


def mean_sizes(x: Float[np.ndarray, "number chain draw"]) -> Float[np.ndarray, " number"]:
    """Return the effective number of draws for the mean of each parameter, NaN as in `Convergence`."""
    return _in_blocks(lambda block: _sizes(_split(block))[None], x, 1)[0]


def r_hats(x: Float[np.ndarray, "number chain draw"]) -> Float[np.ndarray, " number"]:
    """Return the rank-normalised split R-hat of each parameter, NaN as in `Convergence` and for a single chain."""
    if x.shape[1] < 2:
        return np.full(len(x), np.nan)
    return _in_blocks(lambda block: _r_hats(*_ranked(_split(block)))[None], x, 1)[0]


def _in_blocks(
    statistics: Callable[[Float[np.ndarray, "block chain draw"]], Float[np.ndarray, "count block"]],
    x: Float[np.ndarray, "number chain draw"],
    count: int,
) -> Float[np.ndarray, "count number"]:
    number, chains, draws = x.shape
    found = np.full((count, number), np.nan)
    if draws < _FEWEST_DRAWS:
        return found
    step = max(1, AT_ONCE // (chains * draws))
    # When glibc has freed an array of this size, untouched, it keeps as much memory for the next block. Otherwise it
    # returns it to the system after each block, and page faults take a third of the time.
    np.empty(2**24, np.int8)
    for begin in range(0, number, step):
        block = np.ascontiguousarray(x[begin : begin + step], np.float64)
        valid = ~np.isnan(block).any(axis=(1, 2))
        with np.errstate(all="ignore"):  # of constant and of infinite draws
            found[:, begin : begin + step] = np.where(valid, statistics(block), np.nan)
    return found


def _convergence(
    x: Float[np.ndarray, "number chain draw"], middle: tuple[float, float]
) -> Float[np.ndarray, "7 number"]:
    number, chains, draws = x.shape
    halves = _split(x)
    scores, order, ordered = _ranked(halves)
    all_ordered = ordered if draws % 2 == 0 else np.sort(x.reshape(number, -1), axis=1)
    low, high = (_quantile(all_ordered, share) for share in middle)
    at_most_low, at_most_high = (
        _sizes(_split((x <= end[:, None, None]).astype(float))) for end in (low, high)
    )
    if chains > 1:
        r_hat = _r_hats(scores, order, ordered)
    else:
        half = draws // 2
        r_hat = r_hats(x[:, 0, : 2 * half].reshape(number, 2, half))
    tail = np.where(at_most_high < at_most_low, at_most_high, at_most_low)
    return np.stack([_sizes(halves), _sizes(scores), tail, _sizes(scores, apart=False), r_hat, low, high])


def _quantile(ordered: _Flat, share: float) -> Float[np.ndarray, " number"]:
    """Return what `np.quantile` does, of numbers that are sorted already."""
    place = share * (ordered.shape[1] - 1)
    before = int(place)
    left, right = ordered[:, before], ordered[:, min(before + 1, ordered.shape[1] - 1)]
    part = place - before
    return left + part * (right - left) if part < 0.5 else right - (1 - part) * (right - left)


def _split(x: Float[np.ndarray, "number chain draw"]) -> Float[np.ndarray, "number half_chain half"]:
    """Return the halves of chains as chains, without the draw in the middle if draws are odd."""
    number, chains, draws = x.shape
    if draws % 2 == 0:
        return x.reshape(number, 2 * chains, draws // 2)
    return np.concatenate([x[:, :, : draws // 2], x[:, :, draws // 2 + 1 :]], axis=1)


def _ranked(
    x: Float[np.ndarray, "number chain draw"],
) -> tuple[Float[np.ndarray, "number chain draw"], _Order, _Flat]:
    """Return the normal scores of all draws, and what `_ascending` returns, with a row for each parameter."""
    order, ordered = _ascending(x.reshape(len(x), -1))
    return _scores(order, ordered).reshape(x.shape), order, ordered


def _ascending(x: _Flat) -> tuple[_Order, _Flat]:
    """Return the places in the flattened `x` of each row's numbers in ascending order, and these numbers."""
    number, size = x.shape
    # Integers are sorted in half the time of `argsort`: the bits of each number, made to increase with it, with its
    # place in the lowest ones. Rows in which the bits that were replaced matter are then sorted again.
    bits = x.view(np.int64)
    mask = 2 ** (size - 1).bit_length() - 1
    order = (bits >> 63) & (2**63 - 1) ^ bits
    order &= ~mask
    order |= np.arange(size)
    order.sort(axis=1)
    order &= mask
    order += size * np.arange(number)[:, None]
    ordered = x.ravel()[order]
    wrong = ~(ordered[:, :-1] <= ordered[:, 1:]).all(axis=1)
    if wrong.any():
        again = np.argsort(ordered[wrong], axis=1, kind="stable")  # quick if few are out of order
        order[wrong] = np.take_along_axis(order[wrong], again, axis=1)
        ordered[wrong] = x.ravel()[order[wrong]]
    return order, ordered


def _scores(order: _Order, ordered: _Flat) -> _Flat:
    """Return the normal scores of draws, in their place before sorting; equal draws have their mean rank."""
    number, size = ordered.shape
    table = _blom_scores(size)
    scores = np.empty((number, size))
    scores[:] = table[::2]
    repeats = np.zeros((number, size), bool)  # whether the next one is equal
    np.equal(ordered[:, :-1], ordered[:, 1:], out=repeats[:, :-1])
    first, last = np.flatnonzero(np.diff(repeats.ravel(), prepend=False)).reshape(-1, 2).T  # of equal ones
    lengths = last - first + 1
    members = np.arange(lengths.sum()) + np.repeat(first - lengths.cumsum() + lengths, lengths)
    scores.ravel()[members] = np.repeat(table[first % size + last % size], lengths)
    placed = np.empty_like(scores)
    placed.ravel()[order] = scores
    return placed


@functools.lru_cache(maxsize=2)
def _blom_scores(size: int) -> Float[np.ndarray, " ranks"]:
    """Return the normal scores of the ranks 1, 1.5, 2, ... to `size`, by Blom's formula."""
    return ndtri((np.arange(1, size + 0.5, 0.5) - 3 / 8) / (size + 1 / 4))


def _r_hats(
    scores: Float[np.ndarray, "number chain draw"], order: _Order, ordered: _Flat
) -> Float[np.ndarray, " number"]:
    """Return R-hat of parameters whose draws were split, from their normal scores."""
    size = ordered.shape[1]
    median = (ordered[:, size // 2 - 1] + ordered[:, size // 2]) / 2  # the size is even
    distances = np.abs(ordered - median[:, None])
    places, distances = _ascending(distances)
    folded = _scores(order.ravel()[places], distances).reshape(scores.shape)
    location = _variance_ratios(scores)
    spread = np.where(np.isnan(distances[:, -1]), np.nan, _variance_ratios(folded))  # NaN is sorted last
    return np.where(spread > location, spread, location)


def _variance_ratios(x: Float[np.ndarray, "number chain draw"]) -> Float[np.ndarray, " number"]:
    """Return the classical R-hat of each parameter."""
    chains, draws = x.shape[1:]
    means = x.mean(axis=2, keepdims=True)
    deviations = x - means
    within = np.einsum("ncd,ncd->n", deviations, deviations) / (chains * (draws - 1))
    return np.sqrt(means[:, :, 0].var(axis=1, ddof=1) / within + (draws - 1) / draws)


def _sizes(x: Float[np.ndarray, "number chain draw"], *, apart: bool = True) -> Float[np.ndarray, " number"]:
    """Return the effective number of draws for the mean of series with an even number of chains.

    Chains are taken to agree unless `apart`.
    """
    chains, draws = x.shape[1:]
    means = x.mean(axis=2, keepdims=True)
    between = means.var(axis=1, ddof=1) * apart
    # Most sequences end after few pairs of lags, which take a shorter Fourier transform than all of them.
    pairs = max(1, (draws - 1) // 2)
    few = min(pairs, max(16, pairs // 8))
    times, ended = _times(_autocovariances(x, means, 2 * few), between, draws)
    if few < pairs and not ended.all():
        rest = ~ended
        covariances = _autocovariances(x[rest], means[rest], 2 * pairs)
        times[rest], _ = _times(covariances, between[rest], draws)
    total = chains * draws
    constant = x.max(axis=(1, 2)) - x.min(axis=(1, 2)) < _NO_SPREAD
    return np.where(constant, total, total / np.maximum(times, 1 / np.log10(total)))


def _autocovariances(
    x: Float[np.ndarray, "number chain draw"], means: Float[np.ndarray, "number chain 1"], lags: int
) -> Float[np.ndarray, "number lag"]:
    """Return the mean autocovariance of a parameter's chains."""
    number, chains, draws = x.shape
    length = next_fast_len(draws + lags)
    # Two chains are the real and the imaginary part of one series, whose autocovariance has the sum as real part.
    pairs = np.zeros((number, chains // 2, length), complex)
    for part, begin in ((pairs.real, 0), (pairs.imag, 1)):
        np.subtract(x[:, begin::2], means[:, begin::2], out=part[:, :, :draws])
    squares = fft(pairs, axis=2, overwrite_x=True).view(float)
    np.square(squares, out=squares)
    power = squares.sum(axis=1)
    return rfft(power[:, ::2] + power[:, 1::2], axis=1).real[:, :lags] / (length * chains * draws)


def _times(
    autocovariances: Float[np.ndarray, "number lag"], between: Float[np.ndarray, "number 1"], draws: int
) -> tuple[Float[np.ndarray, " number"], Bool[np.ndarray, " number"]]:
    """Return autocorrelation times by Geyer's initial monotone sequence, and whether it ends before these lags do."""
    within = autocovariances[:, :1]
    rho = 1 - (within * draws / (draws - 1) - autocovariances) / (within + between)
    rho[:, 0] = 1
    sums = rho[:, ::2] + rho[:, 1::2]
    rows, positive = np.arange(len(sums)), sums > 0
    ended = np.logical_not(positive.all(axis=1))
    last = np.where(ended, positive.argmin(axis=1), sums.shape[1] - 1)
    before = np.cumsum(np.minimum.accumulate(sums, axis=1), axis=1)[rows, np.maximum(last - 1, 0)]
    # Of the last pair, the even lag alone counts, once, and a negative one only if the pair is not negative.
    even = rho[rows, 2 * last]
    end = np.where((even > 0) | (sums[rows, last] >= 0), even, 0)
    times = 2 * np.where(last > 0, before, 0) + end - 1
    return np.where(np.isnan(rho[:, 1]), np.nan, times), ended
