"""Sentences on what is wrong with a run, and which setting would fix it, from measurements."""

import math
import warnings
from collections.abc import Iterator

import numpy as np

from isotherm.covariance import Covariance, DiagonalLowRank, MatrixFree
from isotherm.data.plans import MinibatchPlan
from isotherm.draws.record import ANOTHER_WAY, UNDECLARED, Reason
from isotherm.errors import IsothermWarning
from isotherm.printed import beyond
from isotherm.records import Noise
from isotherm.samplers.base import Sampler
from isotherm.samplers.traits import Traits

_DENSE_UP_TO = 2000  # parameters
_PARTIAL = 0.3  # tr(S) per controlled direction above which control is partial
_HEAT = 0.1  # tolerated relative heat from the fluctuations of the covariance of a batch
_MARGIN = 0.9  # factor that keeps a suggested step safely below its limit


def warn(text: str, *, stacklevel: int) -> None:
    """Warn at the line of the user's call. `stacklevel` has the same meaning as in `warnings.warn`."""
    warnings.warn(text, IsothermWarning, stacklevel=stacklevel + 1)


def about_distance(distance: float) -> str:
    """Return a sentence on a warm-up that stopped far from the mode, in standard deviations."""
    return f"The warm-up stopped {distance:.2g} standard deviations from the mode. Choose an `init` closer to it."


def about_plan(sampler: Sampler, minibatch: MinibatchPlan) -> Iterator[str]:
    """Yield a sentence if the sampler assumes noise that is independent from step to step and the plan's is not."""
    if sampler.assumes_white_noise and not minibatch.white:
        yield (
            f"`{type(sampler).__name__}` assumes gradient noise that is independent from step to step, but the noise "
            f"of `{type(minibatch).__name__}` batches is not: variances will be too small although the kinetic "
            "temperature looks right. Use `iso.WithReplacement()` or `iso.WithoutReplacement()`."
        )


def about_noise(sampler: Sampler, noise: Noise, n: int, N: int, size: int) -> Iterator[str]:
    """Yield what follows "At the start, " for each problem that the noise there will cause, with a repair."""
    traits, (h, _) = sampler.traits, sampler.numbers_at(0)
    excess = too_noisy(traits, noise.s, h, n, N)
    if excess is not None:
        yield f"{excess[0]}. {_capital(excess[1])}."
    if sampler.covariance is not None:
        yield from _about_control(sampler.covariance, noise, h, n, N, size)
    yield from _about_clipping(traits, noise, h)
    yield from _about_xi(traits, noise, h, size)


def too_noisy(traits: Traits, s: float, h: float | None, n: int, N: int) -> tuple[str, str] | None:
    """Return that s exceeds what the sampler tolerates, and what to do about it; `None` if it does not."""
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
    scheme = traits.scheme.replace("euler", "Euler")
    shown = f"{s:.3g}" if float(f"{s:.3g}") > limit else beyond(s, limit)
    fact = f"the gradient noise of a step, s = {shown}, is above {limit:g}, the limit of the {scheme} scheme"
    return fact, " or ".join(repairs)


def about_failure(
    traits: Traits, s: float | None, h: float, hot: str, n: int, N: int, *, tuned: bool = False
) -> str:
    """Return why a chain turned non-finite, as far as s explains it, and what to change.

    If a warm-up chose the settings (`tuned`), none of them is to be changed.
    """
    if tuned:
        noise = "was not measured" if s is None else f"was s = {s:.3g}"
        return (
            f"the gradient noise {noise}.{hot} Check the model and the data (a log-likelihood of the wrong sign, "
            f"such as a loss, has this effect), {ANOTHER_WAY}."
        )
    if s is None:
        return f"the gradient noise s was not measured.{hot} Halve step_size (now {h:.3g})."
    excess = too_noisy(traits, s, h, n, N)
    if excess is not None:
        return f"{excess[0]}.{hot} {_capital(excess[1])}."
    friction = ", raise friction" if hot else ""
    return (
        f"gradient noise is not the cause (s = {s:.3g}).{hot} Either the position left the support, or the step is "
        f"too long for the direction of largest curvature: halve step_size (now {h:.3g}){friction}, or transform "
        "constrained parameters. (A log-likelihood of the wrong sign, such as a loss, has the same effect.)"
    )


def about_groups(reasons: tuple[Reason, ...]) -> Iterator[str]:
    """Yield the advice to declare each group that a warm-up has found."""
    yield from (reason.why for reason in reasons if reason[:2] == UNDECLARED)


def about_tails(wanted: int, given: int) -> str:
    """Return a warning of batches that are too small for levels with few rows."""
    return (
        f"`batch_size` = {given} is small for levels with few rows: far from its mode a level is driven further out "
        f"by the noise, and may take the scale of its group with it. Use {wanted} rows, or leave `batch_size` out"
    )


def about_heat(kept: np.ndarray, target: float) -> str:
    """Return a sentence if the kinetic temperature of a chain's draws was at least twice its target, else nothing."""
    kept = kept[np.isfinite(kept)].astype(np.float64)
    if len(kept) == 0 or kept.mean() < 2 * target:
        return ""
    return f" The kinetic temperature of the chain was {kept.mean() / target:.1f} times its target."


def about_clipped(name: str, share: float, traits: Traits) -> str:
    """Return a sentence on the share of steps in which added noise was clipped."""
    friction = " or friction" if traits.friction is not None else ""
    return (
        f"The covariance of the noise that `{name}` adds was indefinite in {share:.1%} of the steps and was clipped, "
        f"so some directions are too hot. Reduce step_size or raise batch_size{friction}."
    )


def about_anchors(ratio: float, refresh: int | None) -> str:
    """Return a sentence on control variates whose noise is `ratio` times that of plain minibatches."""
    instead = "Use `iso.Minibatch()`, another anchor, or `refresh`, which lets anchors follow the chains."
    if refresh is not None:
        instead = f"Use `iso.Minibatch()`, or a `refresh` below {refresh}."
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
                    f"a covariance of rank {rank} controls only part of the gradient noise, so variances will be too "
                    "large in some directions and too small in others (the noise S has an effective rank of "
                    f"{noise.effective_rank:.0f} and tr(S)/rank = {noise.trace / rank:.2g}). Use {instead}, or "
                    f"reduce step_size from {h:.2g} to {h * math.sqrt(_PARTIAL * rank / noise.trace):.2g}."
                )
        case MatrixFree():
            # A lower bound: heavy-tailed rows multiply it by kappa_4, which is at least 1.
            heat = noise.trace / (4 * n)
            if heat > _HEAT:
                rows = math.ceil(n * math.sqrt(heat / _HEAT))
                larger = f"Raise batch_size to {rows} or reduce" if rows <= N else "Reduce"
                smaller = h * math.sqrt(_HEAT / heat)
                yield (
                    f"batches of {n} rows are too small for `MatrixFree`: errors in the covariance of a single batch "
                    f"heat the chains by at least {100 * heat:.0f} % of the target temperature (tr(S)/(4n)). "
                    f"{larger} step_size from {h:.2g} to {smaller:.2g}."
                )


def _about_clipping(traits: Traits, noise: Noise, h: float) -> Iterator[str]:
    limit = traits.clips_above
    if limit is None or noise.s <= limit:
        return
    friction = ""
    if traits.friction is not None:
        friction = f"Raise friction to {1.1 * noise.s / (2 * h):.2g} or "
    yield (
        f"the gradient noise of a step, s = {noise.s:.2g}, exceeds all the noise that the step should have, "
        f"{limit:.2g}, so the noise that the sampler adds will be clipped and some directions will be too hot. "
        f"{_capital(f'{friction}reduce')} step_size from {h:.2g} to {_MARGIN * h * limit / noise.s:.2g}."
    )


def _about_xi(traits: Traits, noise: Noise, h: float, size: int) -> Iterator[str]:
    thermostat = traits.thermostat
    if thermostat is None:
        return
    uncontrolled = 0.0 if thermostat.controlled else noise.trace / (2 * h * size)
    mean = thermostat.friction + uncontrolled
    if not 0.5 * mean <= thermostat.start <= 2 * mean:
        cause = " because nothing controls the gradient noise" if uncontrolled > thermostat.friction else ""
        yield (
            f"the thermostat variable xi starts at {thermostat.start:.3g}, but its mean will be about "
            f"{mean:.3g}{cause}: the chain overheats or stalls until xi gets close to it. Set initial_xi={mean:.3g}."
        )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
