"""The bias of a run, measured by chains of half the step.

A bias of order p in the step h is 2^p / (2^p - 1) times the difference between runs with h and h/2.
"""

import dataclasses
import time
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from isotherm.chains.collect import collect
from isotherm.chains.drive import drive
from isotherm.chains.ensemble import Length, ensemble_of
from isotherm.chains.setup import Setup
from isotherm.judging.estimate import Estimate, joined, mean
from isotherm.judging.heat import free, inside
from isotherm.readable import Readable

if TYPE_CHECKING:
    from isotherm.draws import Draws

_BURN_IN = 0.25  # burn-in of the shorter-step chains, as a share of their draws
_MIN_DRAWS = 50  # per chain
_LAST = 20  # draws at the end of each chain among which a start inside the support is sought


@dataclasses.dataclass(frozen=True, repr=False)
class Halving(Readable):
    """The bias of a run, estimated by comparison with chains of half the step.

    `means` holds the bias of each parameter's mean in posterior standard deviations, `variances` the relative bias of
    its variance, and `blocks` the mean relative bias of the variances of each block.
    """

    means: Estimate
    variances: Estimate
    blocks: Estimate
    step_size: float
    steps: int
    seconds: float


def halve(
    draws: "Draws", setup: Setup, step_size: float, *, effort: float, key: Key[Array, ""], progress: bool
) -> Halving | None:
    """Run chains of step `step_size`, half that of the run, and return the bias; `None` if one of them fails.

    They start from the last draws and take `effort` times the steps of the run.
    """
    began = time.perf_counter()
    complete = np.flatnonzero(draws.complete)
    lanes = complete[np.arange(draws.num_chains) % len(complete)]
    last = free(setup, jax.tree.map(lambda x: x[lanes, -_LAST:], draws.posterior))
    if len(usable := inside(last)) == 0:
        return None
    starts = jax.tree.map(lambda x: x[:, usable[-1]], last)
    num_draws = max(_MIN_DRAWS, round(effort * draws.num_draws / 2 / (1 + _BURN_IN)))
    sampler = eqx.tree_at(lambda s: s.step_size, setup.sampler, jnp.asarray(step_size, float))
    halved = dataclasses.replace(
        setup.with_sampler(sampler),
        burn_in=max(1, round(_BURN_IN * num_draws * 2 * setup.thinning)),
        thinning=2 * setup.thinning,
    )
    ensemble = ensemble_of([halved], starts, Length(draws.num_chains, num_draws), key)
    outcome = drive(ensemble, progress=progress, title="half the step")
    if outcome.interrupted:
        raise KeyboardInterrupt
    (other,) = collect(ensemble, outcome)
    if not other.complete.all() or other.num_draws < num_draws:
        return None
    order = _bias_order(draws, setup)
    factor = 2.0**order / (2.0**order - 1)
    means, variances, blocks = _compare(draws, other, complete)
    return Halving(
        means * factor,
        variances * factor,
        blocks * factor,
        step_size,
        outcome.steps,
        time.perf_counter() - began,
    )


def _bias_order(draws: "Draws", setup: Setup) -> int:
    traits = draws.record.sampler.traits
    return traits.exact_bias_order if setup.kernel.gradient.all_rows else traits.bias_order


def _compare(draws: "Draws", other: "Draws", chains: np.ndarray) -> tuple[Estimate, Estimate, Estimate]:
    """Return the differences of `draws` and `other`: means in sd, relative variances, and their mean over blocks."""
    means, variances, blocks = [], [], []
    for x, y in zip(draws.flat().values(), other.flat().values(), strict=True):
        a, b = (z.reshape(*z.shape[:2], -1).astype(np.float64) for z in (x[chains], y))
        if a.shape[2] == 0:
            continue
        sd = np.maximum(a.std(axis=(0, 1)), 1e-300)
        a, b = ((z - a.mean(axis=(0, 1))) / sd for z in (a, b))
        mean_a, mean_b = mean(a), mean(b)
        means.append(mean_a - mean_b)
        # Each run is centred on its mean; that of `a` is zero.
        a2, b2 = a**2, (b - mean_b.value) ** 2
        variances.append(mean(a2) - mean(b2))
        blocks.append(mean(a2.mean(axis=2, keepdims=True)) - mean(b2.mean(axis=2, keepdims=True)))
    return joined(means), joined(variances), joined(blocks)
