"""How many rows a step needs if there are groups: a batch of them, or all.

A level with m of N rows has noise of about N / (n m^2) in batches of n rows, in coordinates where its variance is 1:
levels with many rows need few in a batch. The rows of levels with so few that they alone would call for large batches
are used in every step.
"""

import dataclasses
import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from isotherm import tree
from isotherm.arrow import ArrowPreconditioner
from isotherm.centring import Charted
from isotherm.data.plans import AllRows, MinibatchPlan
from isotherm.data.stream import Stream, num_rows, put, taken
from isotherm.data.weighted import Weighted
from isotherm.data.weighted_blocks import WeightedBlocks
from isotherm.draws.record import Reason
from isotherm.errors import must
from isotherm.gradients.arrow_variate import AlwaysUsed, ArrowVariate
from isotherm.gradients.minibatch import FullData, Gradient
from isotherm.posterior import Posterior
from isotherm.preconditioner import DiagonalPreconditioner, Preconditioner
from isotherm.sums.fold import each_on_devices
from isotherm.tuning.groups.few_rows import (
    ENOUGH,
    ENOUGH_OF_A_STREAM,
    HEATED,
    LOOSE,
    SMALLEST,
    USUAL,
    few_rows,
    rows_needed,
)
from isotherm.tuning.groups.noise import (
    PASSES,
    LevelNoise,
    Moved,
    RemainderRoots,
    dense_noise,
    level_noise,
    level_noise_at,
    roots_of,
)
from isotherm.tuning.streamed_rows import streamed_rows
from isotherm.tuning.tickets import RowsInMemory

FEW_ROWS = 2**14  # in memory: a step with all of them takes hardly longer than one with a batch
_DRAWN = 2**13  # rows by which the noise of dense parameters is measured
_NUMBERS_PER_ROW = 64  # that are computed for each row at once
_CURVED = 2**15  # rows by which the change of the curvature is estimated


@dataclasses.dataclass(frozen=True)
class Force:
    """What a step evaluates: the gradient, how rows are drawn, and how many."""

    gradient: Gradient
    plan: MinibatchPlan
    batch_size: int


@dataclasses.dataclass(frozen=True, eq=False)
class Batches:
    """Control variates and their noise, for batches of one row of `plan`.

    - `narrow`: the gradient in the precision of the chains.
    - `worst`: the largest eigenvalue of C / T. `heating`: the largest E[(v^2 / T - 1) C] / T of a coordinate.
    - `tails`: the largest C / T in the tails of a level.
    - `means`: C / T of each level by effect, by the normal approximation.
    - `given`: the batch size, if it is not to be chosen.
    """

    gradient: ArrowVariate
    narrow: ArrowVariate
    data: PyTree[Array] | Stream
    density: Posterior  # of the chains' coordinates before the preconditioner, for steps that use all rows
    roots: RemainderRoots
    scale: float
    plan: Weighted | WeightedBlocks
    worst: float
    heating: float
    tails: float
    means: dict[Moved, Float[np.ndarray, " _"]]
    less_noise: float
    passes: float
    given: int | None = None
    more: float = 1.0

    @property
    def num_always(self) -> int:
        """The number of rows that are used in every step."""
        return 0 if self.gradient.always is None else self.gradient.always.count

    def needed(self, h: float, friction: float) -> int:
        """Return the rows that a batch needs for this step size and friction."""
        if self.given is not None:
            return self.given
        worst, heating = self.more * self.worst, self.more * self.heating
        rows = float(rows_needed(worst, heating, self.tails, h, friction))
        return _rounded(float(min(max(rows, SMALLEST), 2**31)))

    def uses_all_rows(self, h: float, friction: float) -> bool:
        """Return whether batches would be so large that all rows may as well be used."""
        n, enough = self.needed(h, friction) + self.num_always, ENOUGH
        if isinstance(self.data, Stream):  # all of its rows are no choice
            enough = ENOUGH_OF_A_STREAM
        return self.given is None and enough * n > num_rows(self.data)

    def loose(self, h: float, friction: float) -> bool:
        """Return whether a batch size that was given is too small for the tails of levels."""
        return self.given is not None and not h * self.tails / self.given <= 2 * friction * LOOSE

    def narrowed(
        self, gradient: ArrowVariate, density: Posterior, chart: Charted, frame: ArrowPreconditioner
    ) -> "Batches":
        """Return the same with what chains use: the gradient in their precision, with their own coordinates."""
        parts = lambda g: (g.posterior, g.chart, g.preconditioner)
        return dataclasses.replace(self, narrow=eqx.tree_at(parts, gradient, (density, chart, frame)))

    @property
    def of_pilot(self) -> "Batches | None":
        """Themselves for a pilot run; `None` if it is to use all rows."""
        whole = self.uses_all_rows(USUAL, USUAL) and not isinstance(self.data, Stream)
        return None if whole else self

    def force(self, h: float, friction: float) -> Force:
        """Return what a step evaluates. Raises if it is all rows, and they are not in memory."""
        if not self.uses_all_rows(h, friction):
            return Force(self.narrow, self.plan, self.needed(h, friction))
        if isinstance(self.data, Stream):
            raise must(
                "data",
                "rows that fit into memory, since steps need all of them",
                f"a source of {num_rows(self.data)} rows",
                f"Batches would have {self.needed(h, friction)} rows, because of levels with few rows. Merge rare "
                "levels, or set `batch_size` to use smaller batches all the same.",
            )
        return all_rows(self.density, self.data)

    def curved(self, seed: int) -> tuple[Posterior, PyTree, Preconditioner]:
        """Return a density, rows and coordinates by which curvatures are found without a pass over all rows."""
        drawn = self.plan.drawn(self.data, min(_CURVED, num_rows(self.data)), np.random.default_rng(seed))
        inner, N = self.narrow.expanded, num_rows(self.data)
        rows = _WeightedRows(inner, N / drawn.count)
        like = self.narrow.anchor
        density = Posterior(rows, inner.log_prior, batched=True, temperature=inner.temperature)
        one = tree.put(1.0, tree.dtype_of(like))
        return density, (drawn.rows, drawn.weights), DiagonalPreconditioner(tree.put_zeros_like(like), one)

    def rechecked(self, positions: Float[np.ndarray, "m d"]) -> "Batches":
        """Return batches that are larger if the noise at these positions is, than by the normal approximation."""
        positions = positions[np.isfinite(positions).all(axis=1)]
        if self.given is not None or len(positions) == 0:
            return self
        found = predicted = 0.0
        for moved, means in self.means.items():
            there = level_noise_at(self.gradient, self.data, self.roots, self.scale, moved, positions)
            found, predicted = found + float(np.sum(there)), predicted + float(np.sum(means))
        more = found / predicted if predicted > 0 else 1.0
        passes = self.passes + 1 + len(self.means) * len(positions)
        return dataclasses.replace(
            self, more=max(1.0, more) if math.isfinite(more) else math.inf, passes=passes
        )

    def reasons(self, h: float, friction: float) -> tuple[Reason, ...]:
        """Return what was chosen, and why."""
        n, N = self.needed(h, friction), num_rows(self.data)
        if self.uses_all_rows(h, friction):
            why = f"batches would have {n + self.num_always} of {N} rows"
            return (Reason("gradient", "all rows", why),)
        s, heat = h * h * self.more * self.worst / n, h * self.more * self.heating / n / (2 * friction)
        tails = h * self.tails / n / (2 * friction)
        noise = (
            f"it heats the effect of a level by {heat:.1%} at most, limit {HEATED:.0%}, and its tails by "
            f"{tails:.0%}, limit {LOOSE:.0%}; s = {s:.2g}"
        )
        found = [
            Reason("gradient", "control variate, order 2", "expansion of all rows; the Hessian is an arrow"),
            Reason(
                "minibatch",
                "weighted",
                f"{self.less_noise:.2g} times less noise than rows drawn equally often",
            ),
        ]
        if self.num_always:
            why = "those of levels with few rows, whose noise would be large"
            found.append(Reason("rows in every step", str(self.num_always), why))
        return (*found, Reason("batch_size", str(n), noise if self.given is None else f"given; {noise}"))


def all_rows(density: Posterior, data: PyTree[Array]) -> Force:
    """Return the force of all rows in each step."""
    return Force(FullData(density), AllRows(), num_rows(data))


def batches_of(
    gradient: ArrowVariate,
    data: PyTree[Array] | Stream,
    columns: Sequence[Int[np.ndarray, " N"]],
    density: Posterior,
    *,
    given: int | None,
    seed: int,
) -> Batches:
    """Return batches with the noise of the `gradient` over the normal approximation to the posterior.

    `columns` are the levels of all rows, by factor. `density` is that of the chains' coordinates before the
    preconditioner.
    """
    found, noise = _measured(gradient, data, density, given, seed)
    chosen = few_rows(noise, num_rows(data)) if given is None else {}
    if not chosen:
        return found
    used = np.any([levels[columns[i]] for i, levels in chosen.items()], axis=0)
    named = [gradient.sums.factors[i].column for i in chosen]
    always = AlwaysUsed(
        taken(data, np.flatnonzero(used)),
        tuple(column for column in named if column is not None),
        tuple(jnp.asarray(levels) for levels in chosen.values()),
    )
    gradient = eqx.tree_at(lambda g: g.always, gradient, always, is_leaf=lambda x: x is None)
    again, _ = _measured(gradient, data, density, given, seed)
    return dataclasses.replace(again, passes=found.passes + again.passes)


def _measured(
    gradient: ArrowVariate, data: PyTree | Stream, density: Posterior, given: int | None, seed: int
) -> tuple[Batches, dict[Moved, LevelNoise]]:
    roots, N, size = roots_of(gradient, seed=seed), num_rows(data), tree.size(gradient.anchor)
    if isinstance(data, Stream):
        rows = streamed_rows(data, roots, size)
        scale = float(rows.scales[2])
    else:
        measured = jax.tree.map(put, each_on_devices(roots, data, numbers_per_row=_NUMBERS_PER_ROW))
        rows, scale = RowsInMemory(data, measured, size, 1.0), float(jnp.mean(measured[2]))
    plan = rows.plan(2)
    drawn = plan.drawn(data, min(_DRAWN, N), np.random.default_rng(seed))
    worst, heating = dense_noise(gradient, drawn, N, seed=seed)
    noise, tails = {}, 0.0
    for number, factor in enumerate(gradient.sums.factors):
        if factor.column is None:  # `dense_noise` sees it
            continue
        effects = [Moved(number, j) for j in range(factor.gradient.shape[1])]
        noise |= {moved: level_noise(gradient, data, roots, scale, moved) for moved in effects}
        # The trace of the block of a level is no smaller than its largest eigenvalue.
        worst = float(np.maximum(worst, np.max(sum(noise[moved].mean for moved in effects))))
        heating = float(np.maximum(heating, np.max([noise[moved].heat for moved in effects])))
        tails = float(np.maximum(tails, np.max([noise[moved].tails for moved in effects])))
    equal, weighted = (float(x[2]) for x in rows.noise())
    found = Batches(
        gradient=gradient,
        narrow=gradient,
        data=data,
        density=density,
        roots=roots,
        scale=scale,
        plan=plan,
        worst=worst,
        heating=heating,
        tails=tails,
        means={moved: x.mean for moved, x in noise.items()},
        less_noise=equal / weighted if weighted > 0 else 1.0,
        passes=rows.passes + PASSES * len(noise),
        given=given,
    )
    return found, noise


def _rounded(rows: float) -> int:
    """Return `rows` rounded up to 2^k or 3 * 2^(k-1), so that most seeds share one compiled program."""
    power = 2 ** math.floor(math.log2(rows))
    return next(n for n in (power, power * 3 // 2, 2 * power) if n >= rows)


class _WeightedRows(eqx.Module):
    """The log-likelihoods of rows that were drawn, so weighted that their sum estimates that of all rows."""

    density: Posterior
    factor: float

    def __call__(self, v: PyTree, drawn: tuple[PyTree, Array]) -> Float[Array, " n"]:
        """Return one for each row."""
        rows, weights = drawn
        values = self.density.row_log_likelihoods(v, rows)
        return self.factor * weights.astype(values.dtype) * values
