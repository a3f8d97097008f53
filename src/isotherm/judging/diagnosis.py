"""The result of `iso.diagnose`: a table of blocks and a verdict."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from isotherm.judging.halving import Halving
from isotherm.judging.heat import Heat
from isotherm.judging.modes import Mode
from isotherm.judging.reach import MissedTail
from isotherm.judging.summary import Summary
from isotherm.printed import Printed


@dataclasses.dataclass(frozen=True)
class Block:
    """The diagnosis of one leaf of the parameters.

    `temperature` is measured with fresh gradients at the draws and divided by its target. The biases come from chains
    of half the step: `variance_bias` is the mean relative bias over the block, and `mean_bias` that of the parameter
    that is farthest off, in posterior standard deviations. Each has its standard error beside it.
    """

    name: str
    size: int
    r_hat: float
    ess_bulk: float
    ess_tail: float
    kinetic_temperature: float | None
    temperature: float
    temperature_error: float
    variance_bias: float | None = None
    variance_bias_error: float | None = None
    mean_bias: float | None = None
    mean_bias_error: float | None = None


@dataclasses.dataclass(frozen=True)
class Thermostat:
    """The mean of xi, its standard error, its theoretical value, and the friction that the noise needs besides A."""

    xi: float
    error: float
    expected: float
    noise_friction: float


@dataclasses.dataclass(frozen=True, repr=False)
class Diagnosis(Printed):
    """How far draws can be trusted; prints as a table and a verdict.

    `ok` is whether no fault was found, `problems` lists the faults, and `notes` says what else is worth knowing.
    `summary` has R-hat and effective draws of each parameter, `heat` and `halving` have estimates of its errors, and
    `modes` are those that no chain has visited, or `None` if they were not searched for. `tail` is the tail that the
    chains may be missing, if there is one.
    """

    ok: bool
    verdict: str
    problems: tuple[str, ...]
    summary: Summary
    notes: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()
    thermostat: Thermostat | None = None
    heat: Heat | None = None
    halving: Halving | None = None
    modes: tuple[Mode, ...] | None = None
    tail: MissedTail | None = None

    def _parts(self) -> Iterator[Any]:
        from isotherm.terminal import Table

        table = Table(box=None, header_style="bold")
        table.add_column("block", overflow="fold")
        titles = ("size", "R-hat", "ess bulk", "ess tail", "T kinetic", "T by gradients")
        for title in (*titles, "variance, by h/2", "mean, by h/2"):
            table.add_column(title, justify="right", no_wrap=True)
        for b in self.blocks:
            table.add_row(
                b.name,
                f"{b.size}",
                f"{b.r_hat:.3f}",
                f"{b.ess_bulk:,.0f}",
                f"{b.ess_tail:,.0f}",
                "" if b.kinetic_temperature is None else f"{b.kinetic_temperature:.3f}",
                f"{b.temperature:.3f} ± {b.temperature_error:.3f}",
                signed(b.variance_bias, b.variance_bias_error, 100.0, " %"),
                signed(b.mean_bias, b.mean_bias_error, 1.0, " sd"),
            )
        if self.blocks:
            yield table
        if (t := self.thermostat) is not None:
            yield f"mean of xi: {t.xi:.3g} ± {t.error:.1g} (theory: {t.expected:.3g})"
        yield from self.notes
        yield self.verdict


def signed(value: float | None, error: float | None, scale: float, unit: str) -> str:
    """Return a bias with its error, or a dash if it was not measured."""
    if value is None or error is None:
        return "-"
    digits = 1 if scale > 1 else 2
    return f"{scale * value:+.{digits}f} ± {scale * error:.{digits}f}{unit}"
