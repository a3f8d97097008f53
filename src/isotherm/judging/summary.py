"""The summary of draws: effective sizes, R-hat, temperatures and a verdict."""

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float

from isotherm.chains.advice import about_groups, too_noisy
from isotherm.draws.convergence import AT_ONCE, convergence
from isotherm.draws.elements import blocks_of, labels_of, unknown
from isotherm.draws.to_pandas import pandas_for
from isotherm.judging.agreement import r_hat_limits
from isotherm.printed import Printed, beyond
from isotherm.text import visible

if TYPE_CHECKING:
    from pandas import DataFrame

    from isotherm.draws import Draws

_MIDDLE = (0.05, 0.95)  # quantiles
# Draws of a parameter from which effective sizes and R-hat are computed: evenly spaced ones if there are more. Ranks
# and Fourier transforms take ten times the memory of the draws, and sizes beyond this number decide nothing.
_MOST_RANKED = 2**20
_ROUNDING_LIMIT, _FORCE_LIMIT = (
    0.03,
    0.03,
)  # tolerated errors of positions and of forces, in standard deviations
_R_HAT_LIMIT = (
    1.01  # of many parameters more, as `r_hat_limits` says, if one of them would exceed it by chance:
)
_CHANCE = 0.01  # ... with this probability
_JUMP_LIMIT = 0.3  # tolerated difference of log-densities, besides the error of the integral, in units of T
_TEMPERATURE_LIMIT = 0.05  # tolerated relative error of a temperature that is an average over all parameters


@dataclasses.dataclass(frozen=True)
class Row:
    """One scalar parameter. The middle 90 % of its draws are between `low` and `high`."""

    name: str
    mean: float
    sd: float
    low: float
    high: float
    mcse: float
    ess_bulk: float
    ess_tail: float
    r_hat: float
    temperature: float
    temperature_error: float


@dataclasses.dataclass(frozen=True, repr=False)
class Summary(Printed):
    """A table of parameters and derived quantities, with temperatures and a verdict."""

    rows: tuple[Row, ...]
    kinetic_temperature: float | None
    configurational_temperature: float
    target_temperature: float
    verdict: str
    problems: tuple[str, ...] = ()
    derived: tuple[Row, ...] = ()

    width = 100

    def __getitem__(self, name: str) -> Row:
        rows = (*self.rows, *self.derived)
        for row in rows:
            if row.name == name:
                return row
        raise KeyError(unknown(name, [row.name for row in rows]))

    def to_pandas(self) -> "DataFrame":
        """Return a `DataFrame` with a row for each parameter and derived quantity, and the fields of `Row`."""
        pd = pandas_for("summary.to_pandas()")
        names = [field.name for field in dataclasses.fields(Row)]
        rows = [dataclasses.astuple(row) for row in (*self.rows, *self.derived)]
        return pd.DataFrame(rows, columns=names).set_index("name").rename_axis("parameter")

    def _parts(self) -> Iterator[Any]:
        from isotherm.terminal import Table

        table = Table(box=None, header_style="bold")
        table.add_column("parameter", overflow="fold")
        for title in ("mean", "sd", "5 %", "95 %", "ess bulk", "ess tail", "R-hat", "T"):
            table.add_column(title, justify="right", no_wrap=True)
        rows = (*self.rows, *self.derived)
        shown = rows if len(rows) <= 20 else (*rows[:10], *rows[-10:])
        for row in shown:
            table.add_row(
                row.name,
                *(fixed(x, row.sd) for x in (row.mean, row.sd, row.low, row.high)),
                *(f"{x:,.0f}" for x in (row.ess_bulk, row.ess_tail)),
                f"{row.r_hat:.3f}",
                "" if math.isnan(row.temperature) else f"{row.temperature:.3f}",
            )
        if not self.rows:
            yield self.verdict
            return
        yield table
        if len(shown) < len(rows):
            yield f"... and {len(rows) - len(shown)} more parameters"
        kinetic = "" if self.kinetic_temperature is None else f"kinetic {self.kinetic_temperature:.3f}, "
        yield (
            f"temperature: {kinetic}configurational {self.configurational_temperature:.3f} "
            f"(target {self.target_temperature:g})"
        )
        yield self.verdict


def fixed(x: float, sd: float) -> str:
    """Return `x` with as many decimals as show two digits of its standard deviation."""
    if not (0 < sd < 1e5) or not math.isfinite(x):
        return f"{x:.3g}"
    decimals = 1 - math.floor(math.log10(sd))
    if sd > 1e-5 or abs(x) >= 1e-3:
        return f"{x:z,.{min(15, max(0, decimals))}f}"
    return f"{x:.{max(0, decimals + math.floor(math.log10(abs(x) or sd)))}e}"


def summarise(draws: "Draws") -> Summary:
    """Return a `Summary` of the chains that completed."""
    chains = np.flatnonzero(draws.complete)
    if len(chains) == 0 or draws.num_draws < 4:
        reasons = "; ".join(text.rstrip(".") for text in dict.fromkeys(draws.status))
        return Summary(
            (),
            None,
            math.nan,
            1.0,
            f"Nothing to summarise: {reasons} (a summary needs a completed chain of at least 4 draws).",
            (reasons,),
        )
    rows, derived, sizes, labels = [], [], [], labels_of(draws)
    temperatures = jax.tree.leaves(draws.moments.temperature)
    for (name, leaf), temperature in zip(draws.flat().items(), temperatures, strict=True):
        heat = temperature[chains].reshape(len(chains), -1)
        rows += _rows(leaf, chains, heat, labels[name], sizes)
    for name, x in draws.derived.items():
        derived += _rows(x, chains, None, labels[name], sizes)
    target = draws.record.temperature
    kinetic = draws.stats.get("kinetic_temperature")
    overall = draws.stats["configurational_temperature"][chains]
    summary = Summary(
        rows=tuple(rows),
        kinetic_temperature=None if kinetic is None else float(np.mean(kinetic[chains], dtype=np.float64)),
        configurational_temperature=float(np.mean(overall)),
        target_temperature=target,
        verdict="",
        derived=tuple(derived),
    )
    mixing = list(_about_mixing([*rows, *derived], np.array(sizes), len(chains)))
    mixing += list(about_groups(draws.record.reasons)) if mixing else []
    problems = [*about_the_run(draws), *_about_arithmetic(draws), *mixing, *_about_heat(draws, summary)]
    verdict = _no_fault(summary)
    if draws.record.is_explored:
        verdict += (
            " The posterior is far from normal, or has many parameters: the settings come from a short run and are "
            "less certain than usual. Check them with `iso.diagnose(draws)`."
        )
    if draws.record.s is None:
        verdict += " The gradient noise, which limits the step, was not measured."
    if (arithmetic := draws.record.arithmetic) is not None and arithmetic.why_not_float64 is not None:
        verdict += f" The arithmetic was not checked in float64: {arithmetic.why_not_float64}."
    if problems:
        verdict = "Do not trust these draws yet: " + "; ".join(problems) + "."
    return dataclasses.replace(summary, verdict=verdict + ended_early(draws), problems=tuple(problems))


def ended_early(draws: "Draws") -> str:
    """Return a sentence if the run was interrupted, which is no fault of the draws that there are."""
    if not draws.record.interrupted:
        return ""
    return f" The run was ended early, after {draws.num_draws:,} of {draws.record.num_draws:,} draws."


def about_the_run(draws: "Draws") -> Iterator[str]:
    """Yield what is wrong with the chains themselves: those that failed, noise, and clipping."""
    stopped = int(np.sum(~draws.complete))
    if stopped:
        yield f"{stopped} of {draws.num_chains} chains stopped early and are left out"
    record = draws.record
    sampler, n, N = record.sampler, record.batch_size, record.num_data
    excess = too_noisy(sampler.traits, record.s or 0.0, sampler.step_size, n, N)
    if excess is not None:
        yield f"{excess[0]}: {record.remedy if record.is_tuned else excess[1]}"
    clipped = draws.stats.get("clipped_steps")
    if clipped is not None and np.max(clipped) > 0:
        friction = " or friction" if sampler.traits.friction is not None else ""
        repair = record.remedy if record.is_tuned else f"reduce step_size or raise batch_size{friction}"
        yield f"the noise that the sampler adds was clipped, so some directions are too hot: {repair}"


def _about_arithmetic(draws: "Draws") -> Iterator[str]:
    arithmetic = draws.record.arithmetic
    if arithmetic is None:
        return
    repair = "centre and scale the columns of the data, or enable JAX's x64 mode and pass float64 parameters"
    if arithmetic.rounding is not None and arithmetic.rounding > _ROUNDING_LIMIT:
        yield (
            f"{arithmetic.dtype} cannot hold this posterior: rounding moves positions by {arithmetic.rounding:.2g} "
            f"standard deviations: {repair}"
        )
    elif arithmetic.force_error is not None and not arithmetic.force_error <= _FORCE_LIMIT:
        yield (
            f"the force that the chains used differs from the gradient in float64 by {arithmetic.force_error:.2g} "
            f"standard deviations (rms). If that is rounding in {arithmetic.dtype}, {repair}"
        )
    if arithmetic.density_error is not None:
        tolerance = _JUMP_LIMIT + arithmetic.integration_error
        if not arithmetic.density_error <= tolerance:
            yield (
                f"along a line through the posterior the log-density changes by {arithmetic.density_error:.2g} more "
                "or less than its gradient predicts: it has jumps, which no gradient shows, or a gradient that is "
                "wrong. Replace the step by a smooth function, or sum the discrete parameter out; or correct the "
                "`jax.custom_jvp`"
            )


def _about_mixing(rows: list[Row], within: Float[np.ndarray, " row"], chains: int) -> Iterator[str]:
    computed = [bool(np.isfinite(row.r_hat) and np.isfinite(row.ess_bulk)) for row in rows]
    if not all(computed):
        name = visible(rows[computed.index(False)].name)
        yield f"R-hat of `{name}` cannot be computed: its draws are constant or not finite"
    known = list(itertools.compress(rows, computed))
    if not known:
        return
    limits = r_hat_limits(within[computed], chains, limit=_R_HAT_LIMIT, chance=_CHANCE)
    worst, limit = max(zip(known, limits, strict=True), key=lambda x: x[0].r_hat - x[1])
    if worst.r_hat > limit:
        shown = _R_HAT_LIMIT if limit == _R_HAT_LIMIT else float(np.ceil(1000 * limit) / 1000)
        r_hat = beyond(worst.r_hat, shown)
        yield (
            f"R-hat of `{visible(worst.name)}` is {r_hat}, above {shown}, so the chains disagree: run longer "
            "(if it stays high, they are in different modes or the model needs another parametrisation)"
        )
    least = min(known, key=lambda row: row.ess_bulk)
    if least.ess_bulk < 100 * chains:
        name = visible(least.name)
        yield f"`{name}` has only {int(least.ess_bulk)} effective draws, fewer than 100 per chain: run longer"


def _about_heat(draws: "Draws", summary: Summary) -> Iterator[str]:
    target, rows = summary.target_temperature, summary.rows
    remedy = draws.record.remedy
    yield from about_the_kinetic_temperature(draws)
    heat = summary.configurational_temperature / target
    if not abs(heat - 1) <= _tolerance(summary):
        yield (
            f"the configurational temperature is {heat:.3f} times its target, so variances are {off(heat)}: "
            f"{remedy}"
        )
    worst = max(rows, key=lambda row: abs(row.temperature - target) - 4 * row.temperature_error)
    if abs(worst.temperature - target) > 0.1 * target + 4 * worst.temperature_error:
        name, heat = coordinate(draws, worst.name), worst.temperature / target
        yield (
            f"the temperature of {name} is {heat:.2f} times its target, so its variance is {off(heat)} "
            f"(typical of uncontrolled noise that differs between directions): {remedy}"
        )


def about_the_kinetic_temperature(draws: "Draws") -> Iterator[str]:
    """Yield a sentence if the kinetic temperature of the complete chains is not that of the target."""
    kept = draws.stats.get("kinetic_temperature")
    if kept is None:
        return
    heat = float(np.mean(kept[draws.complete], dtype=np.float64)) / draws.record.temperature
    if not abs(heat - 1) <= _TEMPERATURE_LIMIT:
        cause = f"gradient noise heats the chains, so {draws.record.remedy}"
        if "xi" in draws.stats:
            cause = "the thermostat has not settled, so burn in longer"
        yield f"the kinetic temperature is {heat:.3f} times its target: {cause}"


def off(heat: float, error: float | None = None) -> str:
    """Return how far a variance is off, given its ratio to the right one, as a factor, with its standard error."""
    if not heat > 0:  # estimates may be negative
        return "far too small"
    factor = max(heat, 1 / heat)
    digits = 2 if factor < 10 else 0
    spread = "" if error is None else f" (± {error / heat * factor:.{digits}f})"
    return f"about {factor:,.{digits}f} times too {'large' if heat > 1 else 'small'}{spread}"


def _tolerance(summary: Summary) -> float:
    """Return the tolerated relative error of the configurational temperature: 5 %, or four standard errors."""
    error = min(row.temperature_error for row in summary.rows) / summary.target_temperature
    return max(_TEMPERATURE_LIMIT, 4 * error)


def _no_fault(summary: Summary) -> str:
    """Return the verdict on draws without a fault, with how near the temperatures are to their target."""
    limit, tolerance = _TEMPERATURE_LIMIT, _tolerance(summary)
    near = f"within {100 * tolerance:.0f} %"
    if tolerance > limit:
        near += " (four standard errors)"
    if summary.kinetic_temperature is None:
        found = f"The configurational temperature is {near} of its target."
    elif tolerance > limit:
        found = f"The kinetic temperature is within {100 * limit:.0f} % of its target, the configurational {near}."
    else:
        found = f"The kinetic and the configurational temperature are {near} of their target."
    return f"No fault found: the chains agree. {found}"


def coordinate(draws: "Draws", name: str | None = None) -> str:
    """Return whose temperature it is: the parameter's, or the nearest coordinate's if chains move in others."""
    parameter = "the parameter" if name is None else f"`{visible(name)}`"
    moved = draws.record.preconditioner is not None or draws.record.transforms is not None
    return f"the coordinate nearest to {parameter}" if moved else parameter


def _rows(
    leaf: np.ndarray,
    chains: np.ndarray,
    heat: Float[np.ndarray, "chain k"] | None,
    labels: list[str],
    sizes: list[float],
) -> list[Row]:
    """Return a row for each element of a leaf (chain, draw, ...), with the temperature of its coordinate, if any.

    Appends to `sizes` their effective numbers of draws by the autocorrelation within chains alone.
    """
    size = len(labels)
    sampled = heat is not None and heat.shape[1] == size
    if heat is None:
        heat = np.full((len(chains), 1), np.nan)
    if not sampled:  # a simplex has one coordinate fewer, and derived quantities have none
        heat = np.broadcast_to(heat.mean(axis=1, keepdims=True), (len(heat), size))
    rows = []
    for x in blocks_of(leaf, chains, AT_ONCE):
        begin, end = len(rows), len(rows) + len(x)
        some, within = _rows_of(labels[begin:end], x, heat[:, begin:end], sampled=sampled)
        rows += some
        sizes += within
        del x  # before the next ones are made
    return rows


def _rows_of(
    labels: list[str],
    x: Float[np.ndarray, "number chain draw"],
    heat: Float[np.ndarray, "chain number"],
    *,
    sampled: bool,
) -> tuple[list[Row], list[float]]:
    """Return the rows of some elements, and their effective numbers of draws within chains."""
    count = x[0].size
    spaced = x[:, :, :: -(-count // _MOST_RANKED)]
    found = convergence(spaced, _MIDDLE)
    with np.errstate(invalid="ignore"):  # of draws that are not finite, for which the verdict has a sentence
        mean, sd = x.mean(axis=(1, 2)), x.std(axis=(1, 2), ddof=1)
        low, high = (found.low, found.high) if spaced.size == x.size else np.quantile(x, _MIDDLE, axis=(1, 2))
    columns = {
        "mean": mean,
        "sd": sd,
        "low": low,
        "high": high,
        "mcse": sd / np.maximum(found.mean_size, 1) ** 0.5,
        "ess_bulk": found.bulk_size,
        "ess_tail": found.tail_size,
        "r_hat": found.r_hat,
    }
    if not sampled:  # a constant, such as the corner of a triangular matrix, is no fault
        with np.errstate(invalid="ignore"):
            constant, value = np.ptp(x, axis=(1, 2)) == 0, x[:, 0, 0]
        exact = {"mean": value, "sd": 0.0, "low": value, "high": value, "mcse": 0.0}
        exact |= {"ess_bulk": float(count), "ess_tail": float(count), "r_hat": 1.0}
        columns = {name: np.where(constant, exact[name], column) for name, column in columns.items()}
    columns["temperature"] = heat.mean(axis=0)
    columns["temperature_error"] = _errors(heat, columns["ess_bulk"])
    numbers = zip(*(columns[field.name].tolist() for field in dataclasses.fields(Row)[1:]), strict=True)
    return [Row(label, *row) for label, row in zip(labels, numbers, strict=True)], found.within_size.tolist()


def _errors(
    heat: Float[np.ndarray, "chain number"], effective: Float[np.ndarray, " number"]
) -> Float[np.ndarray, " number"]:
    """Return Monte Carlo errors of temperatures: those of variances or the spread between chains, if larger."""
    chains, number = heat.shape
    spread = heat.std(axis=0, ddof=1) / chains**0.5 if chains > 1 else np.zeros(number)
    of_a_variance = np.abs(heat.mean(axis=0)) * (2 / np.maximum(effective, 1)) ** 0.5
    return np.where(of_a_variance > spread, of_a_variance, spread)
