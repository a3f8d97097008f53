"""`diagnose`: what draws say of themselves, gradients at them, chains of half the step, other modes, a sentence."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array, Key

from isotherm.errors import must
from isotherm.judging.estimate import Estimate, mean
from isotherm.judging.halving import Halving, halve
from isotherm.judging.heat import Heat, heat
from isotherm.judging.modes import Mode, elsewhere
from isotherm.judging.reach import Beyond, beyond
from isotherm.judging.record import Block, Diagnosis, Thermostat
from isotherm.judging.summary import Summary
from isotherm.sampling.checks import as_key

if TYPE_CHECKING:
    from isotherm.draws import Draws

_MIXED = 1.05  # R-hat above which chains are not worth comparing with others
_BLOCK, _ONE, _MEAN = 0.05, 0.10, 0.10  # what is a fault: variance of a block, of one parameter, a mean in sd
_FRICTION = 0.25  # share of the friction by which xi may depart without being spoken of


def diagnose(
    draws: "Draws", *, effort: float = 1.0, seed: int | Key[Array, ""] = 0, progress: bool = True
) -> Diagnosis:
    """How far `draws` can be trusted, in a table and a sentence.

    Besides what `draws.summary()` knows it takes fresh gradients at some of the draws, which give the temperature of
    every block, parameter and leading direction of the noise; it runs chains of half the step, whose means and
    variances tell by how much those of the run are biased; and it looks for modes that no chain has visited.

    **Arguments:**

    - `draws`: as `iso.sample` or `iso.sweep` returned them. Of draws that were loaded from a file only the summary is
      judged, since the posterior and the data are not in it.
    - `effort`: rows of data spent on each of them, in units of the run itself where that is not very short. Errors
      shrink with its square root.
    - `seed`, `progress`: as for `iso.sample`.
    """
    if not isinstance(effort, int | float) or not 0 < effort < math.inf:
        raise must("effort", "a positive number", effort, "1.0 costs two to three times as much as the run.")
    keys = jax.random.split(as_key(seed), 4)
    summary, setup = draws.summary(), draws.setup
    problems, notes = list(summary.problems), []
    if not summary.rows:
        return Diagnosis(False, summary.verdict, summary.problems, (), (), None, summary, None, None, None)
    found = compared = modes = None
    if setup is None:
        notes.append(
            "Gradients, chains of half the step and other modes need the run itself, not a file of its draws."
        )
    else:
        found = heat(draws, setup, effort=effort, key=keys[0])
        if not all(row.r_hat <= _MIXED for row in summary.rows):
            notes.append(
                "Chains of half the step were not run, nor other modes looked for: these have not mixed."
            )
        else:
            modes = elsewhere(draws, setup, effort=effort, key=keys[2])
            problems += _about_reach(draws, summary, beyond(draws, setup, key=keys[3]))
            if callable(h := setup.sampler.step_size) or _scheduled(setup.sampler):
                notes.append("Chains of half the step were not run: a setting follows a schedule.")
            else:
                compared = halve(draws, setup, float(h) / 2, effort=effort, key=keys[1], progress=progress)
                if compared is None:
                    problems.append("chains of half the step, started at these draws, failed")
    thermostat = _thermostat(draws)
    blocks = tuple(_blocks(draws, summary, found, compared))
    problems += _about_variance(draws, summary, blocks, found, compared)
    problems += _about_means(summary, compared)
    problems += _about_modes(draws, summary, modes)
    notes += _about_xi(thermostat)
    verdict = _no_fault(found, compared)
    if problems:
        verdict = "Do not trust these draws yet: " + "; ".join(problems) + "."
    return Diagnosis(
        not problems,
        verdict,
        tuple(problems),
        tuple(notes),
        blocks,
        thermostat,
        summary,
        found,
        compared,
        modes,
    )


def _scheduled(sampler: Any) -> bool:
    return any(callable(getattr(sampler, name, None)) for name in ("temperature", "friction"))


def _blocks(
    draws: "Draws", summary: Summary, found: Heat | None, compared: Halving | None
) -> Iterator[Block]:
    chains, begin = np.flatnonzero(draws.complete), 0
    kinetic = draws.moments.kinetic
    T = summary.target_temperature
    full = {name: leaf for name, leaf in draws.flat().items() if leaf.size > 0}
    where = list(draws.flat())
    for i, (name, leaf) in enumerate(full.items()):
        size = int(np.prod(leaf.shape[2:]))
        own = slice(begin, begin + size)
        rows = summary.rows[own]
        begin += size
        # Of the summary where there are no gradients.
        if found is None:
            t = float(np.mean([row.temperature for row in rows])) / T
            error = min(row.temperature_error for row in rows) / T
        else:
            t, error = 1 + float(found.blocks.value[i]), float(found.blocks.error[i])
        extra: dict[str, Any] = {}
        if compared is not None:
            part = compared.means[own]
            j = part.worst()
            extra = {
                "variance_bias": float(compared.blocks.value[i]),
                "variance_bias_error": float(compared.blocks.error[i]),
                "mean_bias": float(part.value[j]),
                "mean_bias_error": float(part.error[j]),
            }
        yield Block(
            name=name,
            size=size,
            r_hat=max(row.r_hat for row in rows),
            ess_bulk=min(row.ess_bulk for row in rows),
            ess_tail=min(row.ess_tail for row in rows),
            kinetic_temperature=None
            if kinetic is None
            else float(kinetic[chains, where.index(name)].mean()) / T,
            temperature=t,
            temperature_error=error,
            **extra,
        )


def _about_variance(
    draws: "Draws", summary: Summary, blocks: tuple[Block, ...], found: Heat | None, compared: Halving | None
) -> Iterator[str]:
    """The worst that was found in blocks, in single parameters and in the leading directions of the noise."""
    names = [f"`{b.name}`" for b in blocks]
    labels = [f"`{row.name}`" for row in summary.rows]
    looks: list[tuple[Estimate, list[str], float, str]] = []
    if found is not None:
        how = "by gradients at the draws"
        looks.append((found.blocks, names, _BLOCK, how))
        if found.directions is not None:
            called = ["the direction of the largest gradient noise"] * len(found.directions.value)
            looks.append((found.directions, called, _ONE, how))
        if len(found.coordinates.value) == len(labels):  # but for a simplex, whose coordinates are one fewer
            kernel = None if draws.setup is None else draws.setup.kernel
            own = kernel is not None and kernel.preconditioner is None and kernel.constraint is None
            called = labels if own else [f"the coordinate nearest to {x}" for x in labels]
            looks.append((found.coordinates, called, _ONE, how))
    if compared is not None:
        how = "by chains of half the step"
        looks.append((compared.blocks, names, _BLOCK, how))
        looks.append((compared.variances, labels, _ONE, how))
    faults = []
    for estimate, called, limit, how in looks:
        i = estimate.worst()
        if abs(off := float(estimate.value[i])) > limit and estimate.stands_out(i):
            faults.append((abs(off), f"variance of {called[i]} {_off(estimate, i)}, {how}"))
    if faults:
        largest = max(size for size, _ in faults)
        # A block tells more than a direction or a parameter in it, where it is about as far off.
        yield f"{next(text for size, text in faults if 2 * size >= largest)}: {_repair(draws)}"


def _about_means(summary: Summary, compared: Halving | None) -> Iterator[str]:
    if compared is None:
        return
    i = compared.means.worst()
    off = float(compared.means.value[i])
    if abs(off) > _MEAN and compared.means.stands_out(i):
        side = "high" if off > 0 else "low"
        yield (
            f"mean of `{summary.rows[i].name}` about {abs(off):.2f} sd too {side}, by chains of half the step: "
            "reduce step_size"
        )


def _about_reach(draws: "Draws", summary: Summary, place: Beyond | None) -> Iterator[str]:
    if place is None:
        return
    constraint = None if draws.setup is None else draws.setup.kernel.constraint
    theta = place.theta if constraint is None else constraint.constrained(place.theta)
    there = np.concatenate([np.ravel(x) for x in jax.tree.leaves(theta)])
    i = place.index if len(there) == sum(x.size for x in jax.tree.leaves(place.theta)) else 0
    row = summary.rows[i]
    yield (
        f"the posterior reaches farther than the draws: `{row.name}` at {there[i]:.3g} (here {row.mean:.3g} ± "
        f"{row.sd:.2g}) is less likely by exp(-{max(place.rise, 0.0):.1f}) only, but hardly a draw came there: "
        "leave batch_size to the warm-up, or give `gradient=iso.FullData()` and a sampler, or use another scale"
    )


def _about_modes(draws: "Draws", summary: Summary, modes: tuple[Mode, ...] | None) -> Iterator[str]:
    """The one with the largest share, by the parameter that is farthest from the draws."""
    if not modes:
        return
    mode = modes[0]
    constraint = None if draws.setup is None else draws.setup.kernel.constraint
    theta = mode.theta if constraint is None else constraint.constrained(mode.theta)
    there = np.concatenate([np.ravel(x) for x in jax.tree.leaves(theta)])
    off = [abs(x - row.mean) / max(row.sd, 1e-300) for x, row in zip(there, summary.rows, strict=True)]
    x, row = there[np.argmax(off)], summary.rows[int(np.argmax(off))]
    yield (
        f"there is another mode, with `{row.name}` at {x:.3g} (in these draws {row.mean:.3g} ± {row.sd:.2g}), which "
        f"has about {100 * mode.share:.0f} % of both and which no chain has visited: rule it out by the prior or a "
        "transform, or start chains in each"
    )


def _about_xi(thermostat: Thermostat | None) -> Iterator[str]:
    if thermostat is None:
        return
    off = thermostat.xi - thermostat.expected
    whole = abs(thermostat.expected) + thermostat.noise_friction
    if abs(off) > max(4 * thermostat.error, _FRICTION * whole):
        side = "more" if off > 0 else "less"
        yield (
            f"xi departs by {off:+.2g} from where theory has it: there is {side} noise than was accounted for, or "
            "the step is long. A thermostat makes up for it in all directions alike."
        )


def _thermostat(draws: "Draws") -> Thermostat | None:
    known, noise = draws.record.sampler.traits.thermostat, draws.record.noise_friction
    if "xi" not in draws.stats or known is None:
        return None
    expected = known.mean(noise)
    if expected is None:
        return None
    xi = mean(draws.stats["xi"][draws.complete][..., None].astype(np.float64))
    return Thermostat(float(xi.value[0]), float(xi.error[0]), expected, noise or 0.0)


def _off(estimate: Estimate, i: int) -> str:
    value, error = 100 * float(estimate.value[i]), 100 * float(estimate.error[i])
    return f"about {abs(value):.0f} % too {'large' if value > 0 else 'small'} (± {error:.0f})"


def _repair(draws: "Draws") -> str:
    """What to change first."""
    if draws.setup is not None and not draws.setup.kernel.minibatch.white:
        return "draw minibatches independently, such as with `iso.WithReplacement()`"
    return draws.record.sampler.traits.remedy


def _no_fault(found: Heat | None, compared: Halving | None) -> str:
    """How far things are known, where nothing is wrong: two standard errors beyond what was found."""
    reach = lambda e: float(np.max(np.abs(e.value) + 2 * e.error))
    if found is not None and not np.isfinite(reach(found.blocks)):
        found = None
    parts = []
    if found is not None:
        parts.append(f"variances right within {100 * reach(found.blocks):.0f} % by gradients at the draws")
    if compared is not None:
        parts.append(
            f"within {100 * reach(compared.blocks):.0f} % by half the step, and means within "
            f"{reach(compared.means):.2g} sd"
        )
    if not parts:
        return "No fault found by the draws alone."
    return "No fault found: chains agree, " + ", ".join(parts) + "."
