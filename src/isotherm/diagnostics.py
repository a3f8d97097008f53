"""What the draws say about themselves: effective sizes, R-hat, temperatures, a verdict."""

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    from isotherm.draws import Draws


@dataclasses.dataclass(frozen=True)
class Row:
    """One scalar parameter."""

    name: str
    mean: float
    sd: float
    mcse: float
    ess_bulk: float
    ess_tail: float
    r_hat: float
    temperature: float
    temperature_error: float


@dataclasses.dataclass(frozen=True)
class Summary:
    """A table of parameters, the temperatures and a sentence of judgement."""

    rows: tuple[Row, ...]
    kinetic_temperature: float | None
    configurational_temperature: float
    target_temperature: float
    verdict: str

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"{name!r} is not a parameter; there are {', '.join(r.name for r in self.rows[:10])}")

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=100, force_terminal=False)
        with console.capture() as capture:
            console.print(self)
        return capture.get()

    __repr__ = __str__

    def __rich_console__(self, console, options):  # noqa: ANN001
        from rich.table import Table

        table = Table(box=None, header_style="bold")
        table.add_column("parameter")
        for title in ("mean", "sd", "mcse", "ess bulk", "ess tail", "R-hat", "T"):
            table.add_column(title, justify="right")
        shown = self.rows if len(self.rows) <= 20 else (*self.rows[:10], *self.rows[-10:])
        for row in shown:
            table.add_row(
                row.name,
                *(f"{x:.4g}" for x in (row.mean, row.sd, row.mcse)),
                *(f"{x:,.0f}" for x in (row.ess_bulk, row.ess_tail)),
                f"{row.r_hat:.3f}",
                f"{row.temperature:.3f}",
            )
        yield table
        if len(shown) < len(self.rows):
            yield f"... and {len(self.rows) - len(shown)} more parameters"
        kinetic = "" if self.kinetic_temperature is None else f"kinetic {self.kinetic_temperature:.3f}, "
        yield (
            f"temperature: {kinetic}configurational {self.configurational_temperature:.3f} "
            f"(target {self.target_temperature:g})"
        )
        yield self.verdict


def summarise(draws: "Draws") -> Summary:
    """A `Summary` of the chains that have all their draws."""
    chains = np.flatnonzero(draws.complete)
    if len(chains) == 0 or draws.num_draws < 4:
        raise ValueError(
            "A summary needs at least one complete chain of four draws; got: " + "; ".join(draws.status) + "."
        )
    rows = []
    temperatures = jax.tree.leaves(draws.moments.temperature)
    for (name, leaf), temperature in zip(draws.flat().items(), temperatures, strict=True):
        flat = leaf[chains].reshape(len(chains), leaf.shape[1], -1).astype(np.float64)
        heat = temperature[chains].reshape(len(chains), -1)
        labels = [_label(name, leaf.shape[2:], i) for i in range(flat.shape[2])]
        rows += [_row(label, flat[:, :, i], heat[:, i]) for i, label in enumerate(labels)]
    kinetic = draws.stats.get("kinetic_temperature")
    target = draws.settings["sampler"].get("temperature")
    target = target if isinstance(target, float) else 1.0  # of a schedule only the name is recorded
    configurational = float(np.mean(draws.stats["configurational_temperature"][chains]))
    return Summary(
        rows=tuple(rows),
        kinetic_temperature=_mean(kinetic, chains, 1.0),
        configurational_temperature=configurational,
        target_temperature=target,
        verdict=_verdict(draws, rows, configurational, _mean(kinetic, chains, 1.0), target, len(chains)),
    )


def _mean(values: np.ndarray | None, chains: np.ndarray, unit: float) -> float | None:
    return None if values is None else float(np.mean(values[chains], dtype=np.float64)) / unit


def _unevenly_hot(rows: list[Row], target: float) -> Row | None:
    """The parameter whose temperature is furthest off, if that is more than 10 % beyond Monte Carlo error.

    The spread between a few chains is a poor estimate of that error for one parameter, so the median over all
    parameters stands in where it is larger.
    """
    typical = float(np.nanmedian([row.temperature_error for row in rows])) if len(rows) > 1 else np.nan

    def excess(row: Row) -> float:
        error = np.nanmax([row.temperature_error, typical, 0.0])
        return abs(row.temperature - target) - 4 * float(error)

    worst = max(rows, key=excess)
    return worst if excess(worst) > 0.1 * target else None


def _verdict(
    draws: "Draws", rows: list[Row], heat: float, kinetic: float | None, target: float, chains: int
) -> str:
    problems = []
    heat, kinetic = heat / target, None if kinetic is None else kinetic / target
    if chains < draws.num_chains:
        problems.append(
            f"{draws.num_chains - chains} of {draws.num_chains} chains stopped early and are left out"
        )
    worst = max(rows, key=lambda row: row.r_hat if np.isfinite(row.r_hat) else np.inf)
    if not worst.r_hat <= 1.01:
        problems.append(f"R-hat of `{worst.name}` is {worst.r_hat:.3f}: the chains have not mixed")
    least = min(row.ess_bulk for row in rows)
    if not least >= 100 * chains:
        problems.append(f"only {least:.0f} effective draws in the slowest parameter")
    if kinetic is not None and not abs(kinetic - 1) <= 0.05:
        cause = "the thermostat has not settled: burn in longer" if "xi" in draws.stats else "gradient noise"
        problems.append(f"kinetic temperature {kinetic:.3f} of target ({cause})")
    if not abs(heat - 1) <= 0.05:
        problems.append(
            f"configurational temperature {heat:.3f} of target: variances are off by about "
            f"{100 * (heat - 1):+.0f} %"
        )
    if (uneven := _unevenly_hot(rows, target)) is not None:
        problems.append(
            f"`{uneven.name}` has a temperature of {uneven.temperature / target:.2f} of target and its variance is "
            "off by about that factor, as when noise differs between directions and is not controlled"
        )
    clipped = draws.stats.get("clipped_steps")
    if clipped is not None and np.max(clipped) > 0:
        problems.append("added noise was clipped: some directions are too hot")
    if not problems:
        return "No fault found: chains agree and the temperatures are right within 5 %."
    return "Do not trust these draws yet: " + "; ".join(problems) + "."


def _row(name: str, x: Float[np.ndarray, "chain draw"], heat: Float[np.ndarray, " chain"]) -> Row:
    from arviz_stats.base import array_stats

    stats: Any = array_stats
    axes = {"chain_axis": 0, "draw_axis": 1}
    sd, mean_size = float(x.std(ddof=1)), float(stats.ess(x, method="mean", **axes))
    return Row(
        name=name,
        mean=float(x.mean()),
        sd=sd,
        mcse=sd / max(mean_size, 1) ** 0.5,
        ess_bulk=float(stats.ess(x, method="bulk", **axes)),
        ess_tail=float(stats.ess(x, method="tail", prob=(0.05, 0.95), **axes)),
        r_hat=float(stats.rhat(x, **axes)),
        temperature=float(heat.mean()),
        temperature_error=float(heat.std(ddof=1) / len(heat) ** 0.5) if len(heat) > 1 else float("nan"),
    )


def _label(name: str, shape: tuple[int, ...], i: int) -> str:
    index = ", ".join(str(k) for k in np.unravel_index(i, shape)) if shape else ""
    return f"{name}[{index}]" if index else name
