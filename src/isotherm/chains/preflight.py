"""What a few batches say about the settings before the first step: a warning with the number that would do."""

import math
import warnings
from collections.abc import Iterator

import jax
import jax.numpy as jnp

from isotherm import tree
from isotherm.chains.describe import describe
from isotherm.chains.noise import Noise, measure
from isotherm.chains.run import Job, refresh_every
from isotherm.covariance import DiagonalLowRank, MatrixFree
from isotherm.errors import IsothermWarning
from isotherm.hyper import at
from isotherm.judging.summary import largest_s
from isotherm.samplers import SGHMC, ModifiedSGLD, Sampler
from isotherm.samplers.adaptive import AdaptiveLangevin
from isotherm.samplers.base import LangevinSampler

_SYMMETRIC = {"scheme": "symmetric"}
_DENSE_UP_TO = 2000  # parameters
_PREFLIGHT = 2**32 - 5  # a fold of the run's key apart from those of its chains
_CHECKED = 8  # settings of a sweep
_PARTIAL = 0.3  # tr(S) per controlled direction, from which control is partial
_HEAT = 0.1  # relative heat by the fluctuations of a batch's own covariance


def preflight(job: Job, samplers: list[Sampler], *, stacklevel: int) -> None:
    """Measure the noise at the first start and warn of what will go wrong with it."""
    if refresh_every(job):  # chains start at their anchors, where there is no noise
        return
    position = jax.tree.map(lambda x: x[0], job.positions)
    chosen = samplers[:_CHECKED]
    keys = jax.random.split(jax.random.fold_in(job.key, _PREFLIGHT), len(chosen) + 1)
    data = job.kernel.minibatch.arrange(job.data, key=keys[-1])
    told: set[str] = set()
    for sampler, key in zip(chosen, keys[:-1], strict=True):
        noise = measure(job.kernel, sampler, data, position, step=0, key=key)
        if noise is None:
            return
        for text in remarks(sampler, noise, job.kernel.batch_size, job.kernel.num_data, tree.size(position)):
            if text not in told:
                told.add(text)
                warnings.warn(f"At the start {text}", IsothermWarning, stacklevel=stacklevel)


def remarks(sampler: Sampler, noise: Noise, n: int, N: int, size: int) -> Iterator[str]:
    """One sentence for each thing that is wrong, with the value that would do."""
    yield from _about_the_step(sampler, noise, n, N)
    yield from _about_control(sampler, noise, n, N, size)
    yield from _about_definiteness(sampler, noise)
    yield from _about_xi(sampler, noise, size)


def _about_the_step(sampler: Sampler, noise: Noise, n: int, N: int) -> Iterator[str]:
    limit, scheme = largest_s(describe(sampler))
    if noise.s <= limit:
        return
    h, excess = _step(sampler), noise.s / limit
    smaller = h / (excess if isinstance(sampler, LangevinSampler) else excess**0.5)
    rows = math.ceil(n * excess)
    repairs = [f"Reduce step_size from {h:.2g} to {smaller:.2g}"]
    repairs += [f"raise batch_size to {rows}"] if rows <= N else []
    if isinstance(sampler, AdaptiveLangevin) and noise.s <= largest_s(describe(sampler) | _SYMMETRIC)[0]:
        repairs.append('take scheme="symmetric"')
    yield f"s = {noise.s:.2g}, above the {limit:g} that the {scheme} scheme bears. {' or '.join(repairs)}."


def _about_control(sampler: Sampler, noise: Noise, n: int, N: int, size: int) -> Iterator[str]:
    match sampler.covariance:
        case DiagonalLowRank(rank=rank):
            wanted = min(math.ceil(2 * noise.effective_rank), size)
            if noise.trace / rank > _PARTIAL and rank < wanted:
                dense = wanted > size // 4 and size <= _DENSE_UP_TO
                instead = "`iso.Dense()`" if dense else f"rank={wanted}"
                yield (
                    f"tr(S)/rank = {noise.trace / rank:.2g} with an effective rank of {noise.effective_rank:.0f}: "
                    f"rank = {rank} controls a part of the noise. Take {instead}, or reduce step_size from "
                    f"{_step(sampler):.2g} to {_step(sampler) * math.sqrt(_PARTIAL * rank / noise.trace):.2g}."
                )
        case MatrixFree():
            # kappa_4, by which heavy-tailed rows make it larger, is 1 at least.
            heat = noise.trace / (4 * n)
            if heat > _HEAT:
                rows = math.ceil(n * math.sqrt(heat / _HEAT))
                larger = f"Raise batch_size to {rows} or reduce" if rows <= N else "Reduce"
                yield (
                    f"tr(S)/(4n) = {heat:.2g}, the least heat that batches of {n} rows add by estimating their own "
                    f"covariance. {larger} step_size from {_step(sampler):.2g} to "
                    f"{_step(sampler) * math.sqrt(_HEAT / heat):.2g}."
                )


def _about_definiteness(sampler: Sampler, noise: Noise) -> Iterator[str]:
    h = _step(sampler)
    if isinstance(sampler, SGHMC) and sampler.covariance is not None:
        # A M - (beta h/2) C, whitened: A - s/(2 h).
        A = float(at(sampler.friction, jnp.zeros((), jnp.int32)))
        if noise.s > 2 * h * A:
            yield (
                f"s = {noise.s:.2g} is above 2 h A = {2 * h * A:.2g}: the gradient is noisier than friction {A:g} "
                f"allows, and the added noise will be clipped. Raise friction to {1.1 * noise.s / (2 * h):.2g} or "
                f"reduce step_size to {0.9 * h * 2 * h * A / noise.s:.2g}."
            )
    if isinstance(sampler, ModifiedSGLD) and noise.s > 4:
        yield (
            f"s = {noise.s:.2g} is above 4: the gradient is noisier than the step allows, and the added noise will "
            f"be clipped. Reduce step_size from {h:.2g} to {0.9 * h * 4 / noise.s:.2g}."
        )


def _about_xi(sampler: Sampler, noise: Noise, size: int) -> Iterator[str]:
    if not isinstance(sampler, AdaptiveLangevin):
        return
    h, A = _step(sampler), float(at(sampler.friction, jnp.zeros((), jnp.int32)))
    start = A if sampler.initial_xi is None else float(sampler.initial_xi)
    left = 0.0 if sampler.covariance is not None else noise.trace / (2 * h * size)
    mean = A + left
    if not 0.5 * mean <= start <= 2 * mean:
        cause = " by the noise that nothing controls" if left > A else ""
        yield (
            f"xi is {start:.3g} and its mean will be about {mean:.3g}{cause}: the chain overheats or stalls until it "
            f"gets there. Set initial_xi={mean:.3g}."
        )


def _step(sampler: Sampler) -> float:
    return float(at(sampler.step_size, jnp.zeros((), jnp.int32)))
