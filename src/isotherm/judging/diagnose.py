"""`diagnose`: judge draws by fresh gradients, chains of half the step and a search for other modes and tails."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm import keys
from isotherm.errors import must
from isotherm.judging.diagnosis import Block, Diagnosis, Thermostat
from isotherm.judging.estimate import Estimate, mean
from isotherm.judging.halving import Halving, halve
from isotherm.judging.heat import Heat, heat
from isotherm.judging.modes import Mode, other_modes
from isotherm.judging.reach import MissedTail, missed_tail
from isotherm.judging.summary import Summary, coordinate, ended_early, off
from isotherm.progress import Progress
from isotherm.signals import deferred
from isotherm.sums import precision
from isotherm.text import visible

if TYPE_CHECKING:
    from isotherm.draws import Draws

_MIXED = 1.05  # largest R-hat of chains that are worth comparing with others
_BLOCK_LIMIT, _ONE_LIMIT = (
    0.05,
    0.10,
)  # tolerated relative error of the variance of a block and of one direction
_MEAN_LIMIT = 0.10  # tolerated error of a mean, in sd
_XI_LIMIT = 0.25  # tolerated departure of xi from theory, as a share of the friction


def diagnose(
    draws: "Draws", *, effort: float = 1.0, seed: int | Key[Array, ""] = 0, progress: bool = True
) -> Diagnosis:
    """Return a `Diagnosis`, a table and a verdict on how far `draws` can be trusted.

    It adds three kinds of measurement to `draws.summary()`. Fresh gradients at some of the draws give the temperature
    of every block, every parameter and the leading directions of the noise. Chains of half the step show how biased
    the means and variances are. Searches away from the draws look for modes and tails that no chain has visited.

    **Arguments:**

    - `draws`: as returned by `iso.sample` or `iso.sweep`. Draws that were loaded from a file are judged by their
      summary alone, since the file holds neither the posterior nor the data.
    - `effort`: rows of data to spend on each measurement, as a multiple of those that the run used, unless it is very
      short. Errors shrink with its square root.
    - `seed`, `progress`: as for `iso.sample`.
    """
    if not isinstance(effort, int | float) or not 0 < effort < math.inf:
        raise must("effort", "a positive number", effort, "1.0 costs two to three times as much as the run.")
    with deferred(), precision.float64(draws.setup is not None and draws.setup.problem.float64):
        return _diagnosis(draws, effort, seed, progress)


def _diagnosis(draws: "Draws", effort: float, seed: int | Key[Array, ""], progress: bool) -> Diagnosis:
    split = jax.random.split(jax.random.fold_in(keys.as_key(seed), keys.DIAGNOSIS), 4)
    summary, setup = draws.summary(), draws.setup
    problems, notes = list(summary.problems), []
    if not summary.rows:
        return Diagnosis(ok=False, verdict=summary.verdict, problems=summary.problems, summary=summary)
    temperatures = halving = modes = tail = None
    if setup is None:
        notes.append(
            "Fresh gradients, chains of half the step and the search for other modes need the run itself, "
            "which a file of draws does not contain."
        )
    else:
        with Progress("diagnosis: gradients at the draws", show=progress):
            temperatures = heat(draws, setup, effort=effort, key=split[0])
        if not all(row.r_hat <= _MIXED for row in summary.rows):
            notes.append(
                "Chains of half the step were not run and other modes were not searched for: the chains have not "
                "mixed."
            )
        else:
            with Progress("diagnosis: search for other modes and tails", show=progress):
                modes = other_modes(draws, setup, effort=effort, key=split[2])
                tail = missed_tail(draws, setup, key=split[3])
            problems += _about_tail(draws, summary, tail)
            if callable(h := setup.sampler.step_size) or _scheduled(setup.sampler):
                notes.append("Chains of half the step were not run: a setting follows a schedule.")
            else:
                halving = halve(draws, setup, float(h) / 2, effort=effort, key=split[1], progress=progress)
                if halving is None:
                    problems.append("chains of half the step, started from these draws, failed")
    thermostat = _thermostat(draws)
    blocks = tuple(_blocks(draws, summary, temperatures, halving))
    problems += _about_variance(draws, summary, blocks, temperatures, halving)
    problems += _about_means(draws, summary, halving)
    problems += _about_modes(draws, summary, modes)
    notes += _about_xi(thermostat)
    verdict = _no_fault(temperatures, halving)
    if problems:
        verdict = "Do not trust these draws yet: " + "; ".join(problems) + "."
    return Diagnosis(
        ok=not problems,
        verdict=verdict + ended_early(draws),
        problems=tuple(problems),
        summary=summary,
        notes=tuple(notes),
        blocks=blocks,
        thermostat=thermostat,
        heat=temperatures,
        halving=halving,
        modes=modes,
        tail=tail,
    )


def _scheduled(sampler: Any) -> bool:
    return any(callable(getattr(sampler, name, None)) for name in ("temperature", "friction"))


def _blocks(
    draws: "Draws", summary: Summary, temperatures: Heat | None, halving: Halving | None
) -> Iterator[Block]:
    """Yield the row of each leaf that is not empty."""
    chains, begin = np.flatnonzero(draws.complete), 0
    kinetic = draws.moments.kinetic
    T = summary.target_temperature
    nonempty = {name: leaf for name, leaf in draws.flat().items() if leaf.size > 0}
    leaf_names = list(draws.flat())
    for i, (name, leaf) in enumerate(nonempty.items()):
        size = int(np.prod(leaf.shape[2:]))
        members = slice(begin, begin + size)
        rows = summary.rows[members]
        begin += size
        # Without fresh gradients, use the temperatures of the summary.
        if temperatures is None:
            t = float(np.mean([row.temperature for row in rows])) / T
            error = min(row.temperature_error for row in rows) / T
        else:
            t, error = 1 + float(temperatures.blocks.value[i]), float(temperatures.blocks.error[i])
        biases: dict[str, Any] = {}
        if halving is not None:
            means = halving.means[members]
            j = means.worst()
            biases = {
                "variance_bias": float(halving.blocks.value[i]),
                "variance_bias_error": float(halving.blocks.error[i]),
                "mean_bias": float(means.value[j]),
                "mean_bias_error": float(means.error[j]),
            }
        yield Block(
            name=name,
            size=size,
            r_hat=max(row.r_hat for row in rows),
            ess_bulk=min(row.ess_bulk for row in rows),
            ess_tail=min(row.ess_tail for row in rows),
            kinetic_temperature=None
            if kinetic is None
            else float(kinetic[chains, leaf_names.index(name)].mean()) / T,
            temperature=t,
            temperature_error=error,
            **biases,
        )


def _about_variance(
    draws: "Draws",
    summary: Summary,
    blocks: tuple[Block, ...],
    temperatures: Heat | None,
    halving: Halving | None,
) -> Iterator[str]:
    """Yield the largest error of a variance in any block, parameter or leading direction of the noise."""
    names = [f"of `{visible(b.name)}`" for b in blocks]
    labels = [f"of `{visible(row.name)}`" for row in summary.rows]
    checks: list[tuple[Estimate, list[str], float, str]] = []
    if temperatures is not None:
        how = "judging by gradients at the draws"
        checks.append((temperatures.blocks, names, _BLOCK_LIMIT, how))
        if temperatures.directions is not None:
            called = ["along one of the directions with the most gradient noise"]
            called *= len(temperatures.directions.value)
            checks.append((temperatures.directions, called, _ONE_LIMIT, how))
        if len(temperatures.coordinates.value) == len(labels):  # a simplex has one coordinate fewer
            called = [f"of {coordinate(draws, row.name)}" for row in summary.rows]
            checks.append((temperatures.coordinates, called, _ONE_LIMIT, how))
    if halving is not None:
        how = "judging by chains with half the step"
        checks.append((halving.blocks, names, _BLOCK_LIMIT, how))
        checks.append((halving.variances, labels, _ONE_LIMIT, how))
    faults = []
    for estimate, called, limit, how in checks:
        i = estimate.worst()
        if abs(error := float(estimate.value[i])) > limit and estimate.stands_out(i):
            faults.append((abs(error), f"the variance {called[i]} is {_off(estimate, i)}, {how}"))
    if faults:
        largest = max(size for size, _ in faults)
        # Blocks come first: if one is at least half as far off, it says more than a direction or parameter in it.
        yield f"{next(text for size, text in faults if 2 * size >= largest)}: {_repair(draws)}"


def _about_means(draws: "Draws", summary: Summary, halving: Halving | None) -> Iterator[str]:
    if halving is None:
        return
    i = halving.means.worst()
    error = float(halving.means.value[i])
    if abs(error) > _MEAN_LIMIT and halving.means.stands_out(i):
        side = "high" if error > 0 else "low"
        repair = draws.record.remedy if draws.record.is_tuned else "reduce step_size"
        name = visible(summary.rows[i].name)
        yield (
            f"the mean of `{name}` is about {abs(error):.2f} sd too {side}, judging by chains with half the step: "
            f"{repair}"
        )


def _about_tail(draws: "Draws", summary: Summary, tail: MissedTail | None) -> Iterator[str]:
    if tail is None:
        return
    point = _constrained(draws, tail.theta)
    i = tail.index if len(point) == sum(x.size for x in jax.tree.leaves(tail.theta)) else 0
    row = summary.rows[i]
    given = not draws.record.is_tuned or draws.record.was_given("batch_size")
    more = "leave batch_size to the warm-up, " if given else ""
    lower = "no lower" if tail.rise < 0.1 else f"only {math.exp(tail.rise):.2g} times lower"
    yield (
        f"the chains may be missing a tail, because almost no draw is near `{visible(row.name)}` = {point[i]:.3g}, "
        f"where the density is {lower} than at the centre of the draws ({row.mean:.3g} ± {row.sd:.2g}): "
        f"{more}pass `gradient=iso.FullData()` and a sampler, or reparametrise"
    )


def _about_modes(draws: "Draws", summary: Summary, modes: tuple[Mode, ...] | None) -> Iterator[str]:
    """Yield a sentence on the mode with the largest share, naming the parameter that is farthest from the draws."""
    if not modes:
        return
    mode = modes[0]
    point = _constrained(draws, mode.theta)
    distances = [abs(x - row.mean) / max(row.sd, 1e-300) for x, row in zip(point, summary.rows, strict=True)]
    x, row = point[np.argmax(distances)], summary.rows[int(np.argmax(distances))]
    yield (
        f"there is another mode that no chain has visited, at `{visible(row.name)}` = {x:.3g} (draws: "
        f"{row.mean:.3g} ± {row.sd:.2g}), and it holds about {100 * mode.share:.0f} % of the probability of the two "
        "modes: if it should not exist, exclude it by the prior or a transform (if it should, these draws are "
        "only part of the posterior)"
    )


def _constrained(draws: "Draws", theta: PyTree[np.ndarray]) -> np.ndarray:
    """Return free parameters as a flat vector of constrained ones, as in the draws."""
    constraint = None if draws.setup is None else draws.setup.kernel.constraint
    theta = theta if constraint is None else constraint.constrained(theta)
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(theta)])


def _about_xi(thermostat: Thermostat | None) -> Iterator[str]:
    if thermostat is None:
        return
    departure = thermostat.xi - thermostat.expected
    friction = abs(thermostat.expected) + thermostat.noise_friction
    if abs(departure) > max(4 * thermostat.error, _XI_LIMIT * friction):
        side = "more" if departure > 0 else "less"
        yield (
            f"The thermostat variable xi differs from its theoretical mean by {departure:+.2g}: there is {side} "
            "noise than the sampler accounts for, or the step is too long. The thermostat compensates for this "
            "equally in all directions."
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
    return off(1 + float(estimate.value[i]), float(estimate.error[i]))


def _repair(draws: "Draws") -> str:
    """Return what to change first if variances are off."""
    if draws.setup is not None and not draws.setup.kernel.minibatch.white:
        return "draw minibatches independently, for example with `iso.WithReplacement()`"
    return draws.record.remedy


def _no_fault(temperatures: Heat | None, halving: Halving | None) -> str:
    """Return the verdict on draws without a fault, with bounds on their errors (two standard errors included)."""
    bound = lambda e: float(np.max(np.abs(e.value) + 2 * e.error))
    if temperatures is not None and not np.isfinite(bound(temperatures.blocks)):
        temperatures = None
    parts = []
    if temperatures is not None:
        parts.append(
            f"Averaged over each block, variances are right to within {100 * bound(temperatures.blocks):.0f} %, "
            "judging by gradients at the draws."
        )
    if halving is not None:
        parts.append(
            f"The bias due to the step is at most {100 * bound(halving.blocks):.0f} % of a block's variance and "
            f"{bound(halving.means):.2g} sd of a mean, judging by chains with half the step."
        )
    if not parts:
        return "No fault found, judging by the draws alone."
    return "No fault found: the chains agree. " + " ".join(parts)
