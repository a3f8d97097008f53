"""Tables of a run: its parameters and its diagnosis."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from isotherm.judging.diagnosis import Diagnosis, signed
from isotherm.judging.summary import Row, Summary, coordinate, fixed
from isotherm.reporting import page
from isotherm.reporting.page import Html

if TYPE_CHECKING:
    from isotherm.draws import Draws

_ALL, _WORST, _FIRST = 60, 30, 20  # rows; of more than _ALL, only the _WORST and the _FIRST are shown


def parameters(draws: "Draws", summary: Summary) -> Iterator[Html]:
    """Mean, sd, interval, R-hat, ESS and temperature of each parameter. Long tables show the worst and the first."""
    rows = summary.rows
    if not rows:
        yield page.paragraph(summary.verdict)
        return
    order = list(range(len(rows)))
    if len(rows) > _ALL:
        worst = by_r_hat(rows)[:_WORST]
        first = [i for i in range(_FIRST) if i not in worst]
        order = [*worst, *first]
        yield page.paragraph(
            f"{len(order)} of {len(rows):,} parameters: the {_WORST} with the largest R-hat, worst first, then the "
            f"rest of the first {_FIRST}. The other {len(rows) - len(order):,} are in draws.summary()."
        )
    header = ("parameter", "mean", "sd", "5 %", "95 %", "R-hat", "ESS", "T")
    body = [_cells(rows[i]) for i in order]
    yield page.numbers(header, body, caption="Posterior mean, standard deviation and 90 % interval")
    if summary.derived:
        more = f", the first {_ALL} of {len(summary.derived):,}" if len(summary.derived) > _ALL else ""
        cells = [_cells(row)[:-1] for row in summary.derived[:_ALL]]
        header = ("derived", *header[1:-1])
        yield page.numbers(header, cells, caption=f"Functions of the parameters{more}")
    yield page.paragraph(
        "R-hat compares the chains and should be at most 1.01. ESS is the number of independent draws that would be "
        f"as informative. T is the temperature of {coordinate(draws)}; if its variance is right, T is "
        f"{summary.target_temperature:g}."
    )


def _cells(row: Row) -> tuple[str, ...]:
    values = (fixed(x, row.sd) for x in (row.mean, row.sd, row.low, row.high))
    return (row.name, *values, f"{row.r_hat:.3f}", f"{row.ess_bulk:,.0f}", f"{row.temperature:.2f}")


def findings(draws: "Draws", summary: Summary, diagnosis: Diagnosis | None) -> Iterator[Html]:
    """The evidence behind the verdict, block by block."""
    T = summary.target_temperature
    facts = {"chains": "; ".join(dict.fromkeys(draws.status))}
    if summary.kinetic_temperature is not None:
        facts["kinetic temperature"] = f"{summary.kinetic_temperature / T:.3f} of target"
    if summary.rows:
        facts["configurational temperature"] = f"{summary.configurational_temperature / T:.3f} of target"
    if (s := draws.record.s) is not None:
        facts["s, the gradient noise of one step"] = f"{s:.3g}"
    if diagnosis is None:
        yield page.definitions(facts)
        yield page.paragraph(page.prose("`iso.diagnose` was not run; the verdict uses the draws alone."))
        return
    if (t := diagnosis.thermostat) is not None:
        facts["xi"] = f"{t.xi:.3g} ± {t.error:.1g} (theory: {t.expected:.3g})"
    if diagnosis.blocks:
        header = ("block", "size", "R-hat", "ESS", "T by gradients", "variance, by h/2", "mean, by h/2")
        rows = [
            (
                b.name,
                f"{b.size}",
                f"{b.r_hat:.3f}",
                f"{b.ess_bulk:,.0f}",
                f"{b.temperature:.3f} ± {b.temperature_error:.3f}",
                signed(b.variance_bias, b.variance_bias_error, 100.0, " %"),
                signed(b.mean_bias, b.mean_bias_error, 1.0, " sd"),
            )
            for b in diagnosis.blocks
        ]
        yield page.numbers(
            header,
            rows,
            caption="Blocks of parameters: the worst R-hat, ESS and mean, and the average T and variance",
        )
        yield page.paragraph(
            "T by gradients is computed from fresh gradients at the draws; it is 1 if the variances are right. The "
            "last two columns are the errors of variances and means, estimated with chains of half the step size. "
            "Each is given with its standard error."
        )
    yield page.definitions(facts)
    if diagnosis.notes:
        yield page.bullets(diagnosis.notes)


def by_r_hat(rows: Sequence[Row]) -> list[int]:
    """Indices of the rows, worst first. A row without an R-hat counts as the worst."""
    r_hats = [row.r_hat if math.isfinite(row.r_hat) else math.inf for row in rows]
    return sorted(range(len(rows)), key=lambda i: -r_hats[i])
