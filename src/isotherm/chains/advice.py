"""From measurements to sentences: what is wrong with a run, and the setting that would do."""

import math
import warnings
from collections.abc import Iterator

import numpy as np

from isotherm.covariance import Covariance, DiagonalLowRank, MatrixFree
from isotherm.data.plans import MinibatchPlan
from isotherm.errors import IsothermWarning
from isotherm.records import Noise
from isotherm.samplers.base import Sampler
from isotherm.samplers.traits import Traits

_DENSE_UP_TO = 2000  # parameters
_PARTIAL = 0.3  # tr(S) per controlled direction, above which control is partial
_HEAT = 0.1  # relative heat from the fluctuations of a batch's own covariance
_MARGIN = 0.9  # of a limit, to be on the safe side of it


def warn(text: str, *, stacklevel: int) -> None:
    """Warn at the line of the user's call; `stacklevel` is as if `warnings.warn` were called in its place."""
    warnings.warn(text, IsothermWarning, stacklevel=stacklevel + 1)


def about_plan(sampler: Sampler, minibatch: MinibatchPlan) -> Iterator[str]:
    """A sentence if the sampler assumes noise that is independent from step to step and the plan's is not."""
    if sampler.assumes_white_noise and not minibatch.white:
        yield (
            f"`{type(sampler).__name__}` corrects for gradient noise that is independent from step to step, "
            f"and `{type(minibatch).__name__}` batches are not: the samples will be too narrow although the "
            "kinetic temperature looks right. Use `iso.WithReplacement()` or `iso.WithoutReplacement()`."
        )


def about_noise(sampler: Sampler, noise: Noise, n: int, N: int, size: int) -> Iterator[str]:
    """One sentence for each thing that the noise at the start will make go wrong, with the value that would do."""
    traits, (h, _) = sampler.traits, sampler.numbers_at(0)
    excess = too_noisy(traits, noise.s, h, n, N)
    if excess is not None:
        yield f"{excess[0]}. {_capital(excess[1])}."
    if sampler.covariance is not None:
        yield from _about_control(sampler.covariance, noise, h, n, N, size)
    yield from _about_clipping(traits, noise, h)
    yield from _about_xi(traits, noise, h, size)


def too_noisy(traits: Traits, s: float, h: float | None, n: int, N: int) -> tuple[str, str] | None:
    """That s is above what the sampler tolerates, and what to do about it; `None` if it is not."""
    limit = traits.s_limit
    if limit is None or s <= limit:
        return None
    rows = math.ceil(n * s / limit)
    repairs = ["reduce step_size"]
    if h is not None:
        repairs[0] += f" from {h:.3g} to {traits.step_for(h, s, limit):.2g}"
    repairs += [f"raise batch_size to {rows}"] if rows <= N else []
    if traits.alternative is not None and s <= traits.alternative[1]:
        repairs.append(f"use {traits.alternative[0]}")
    fact = f"s = {s:.3g}, above {limit:g}, the largest that the {traits.scheme} scheme tolerates"
    return fact, " or ".join(repairs)


def about_failure(traits: Traits, s: float | None, h: float, hot: str, n: int, N: int) -> str:
    """Why a chain turned non-finite, as far as s explains it, and what to change."""
    if s is None:
        return f"s was not measured.{hot} Halve step_size (now {h:.3g})."
    excess = too_noisy(traits, s, h, n, N)
    if excess is not None:
        return f"{excess[0]}.{hot} {_capital(excess[1])}."
    friction = ", raise friction" if hot else ""
    return (
        f"s = {s:.3g}, which the {traits.scheme} scheme tolerates.{hot} The position left the support, or the step "
        f"is too long for the stiffest direction: halve step_size (now {h:.3g}){friction}, or transform constrained "
        "parameters. (A log-likelihood that is a loss, with a minus sign, ends like this too.)"
    )


def about_heat(kept: np.ndarray, target: float) -> str:
    """A sentence if the kinetic temperature of a chain's draws was at least twice its target."""
    kept = kept[np.isfinite(kept)].astype(np.float64)
    if len(kept) == 0 or kept.mean() < 2 * target:
        return ""
    return f" The chain had been {kept.mean() / target:.1f} times as hot as it should be."


def about_clipped(name: str, share: float, traits: Traits) -> str:
    """A sentence on the share of steps in which added noise was clipped."""
    friction = " or friction" if traits.friction is not None else ""
    return (
        f"The noise covariance of `{name}` was not positive semidefinite in {share:.1%} of the steps and was "
        f"clipped: those directions are too hot. Reduce step_size or raise batch_size{friction}."
    )


def about_anchors(ratio: float, refresh: int | None) -> str:
    """A sentence on control variates whose noise is `ratio` times that of plain minibatches."""
    instead = "Use `iso.Minibatch()`, another anchor, or `refresh`, with which anchors follow the chains."
    if refresh is not None:
        instead = f"Use `iso.Minibatch()`, or `refresh` below {refresh}."
    return (
        f"Where the chains ended, the noise of `ControlVariate` is {ratio:.2g} times that of plain minibatches: "
        f"the chains have left the anchor. {instead}"
    )


def _about_control(
    covariance: Covariance, noise: Noise, h: float, n: int, N: int, size: int
) -> Iterator[str]:
    match covariance:
        case DiagonalLowRank(rank=rank):
            wanted = min(math.ceil(2 * noise.effective_rank), size)
            if noise.trace / rank > _PARTIAL and rank < wanted:
                dense = wanted > size // 4 and size <= _DENSE_UP_TO
                instead = "`iso.Dense()`" if dense else f"rank={wanted}"
                yield (
                    f"tr(S)/rank = {noise.trace / rank:.2g} with an effective rank of {noise.effective_rank:.0f}: "
                    f"rank = {rank} controls only a part of the noise. Use {instead}, or reduce step_size from "
                    f"{h:.2g} to {h * math.sqrt(_PARTIAL * rank / noise.trace):.2g}."
                )
        case MatrixFree():
            # kappa_4, by which heavy-tailed rows make it larger, is at least 1.
            heat = noise.trace / (4 * n)
            if heat > _HEAT:
                rows = math.ceil(n * math.sqrt(heat / _HEAT))
                larger = f"Raise batch_size to {rows} or reduce" if rows <= N else "Reduce"
                yield (
                    f"tr(S)/(4n) = {heat:.2g}, the least heat that batches of {n} rows add by estimating their own "
                    f"covariance. {larger} step_size from {h:.2g} to {h * math.sqrt(_HEAT / heat):.2g}."
                )


def _about_clipping(traits: Traits, noise: Noise, h: float) -> Iterator[str]:
    limit = traits.clips_above
    if limit is None or noise.s <= limit:
        return
    friction = ""
    if traits.friction is not None:
        friction = f"Raise friction to {1.1 * noise.s / (2 * h):.2g} or "
    yield (
        f"s = {noise.s:.2g} is above {limit:.2g}: the gradient is noisier than the noise that is added, which will "
        f"be clipped. {_capital(f'{friction}reduce')} step_size from {h:.2g} to "
        f"{_MARGIN * h * limit / noise.s:.2g}."
    )


def _about_xi(traits: Traits, noise: Noise, h: float, size: int) -> Iterator[str]:
    thermostat = traits.thermostat
    if thermostat is None:
        return
    left = 0.0 if thermostat.controlled else noise.trace / (2 * h * size)
    mean = thermostat.friction + left
    if not 0.5 * mean <= thermostat.start <= 2 * mean:
        cause = " because nothing controls the gradient noise" if left > thermostat.friction else ""
        yield (
            f"xi is {thermostat.start:.3g} and its mean will be about {mean:.3g}{cause}: the chain overheats or "
            f"stalls until it gets there. Set initial_xi={mean:.3g}."
        )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
