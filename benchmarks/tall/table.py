"""The table of `benchmarks/tall`."""

from collections.abc import Sequence

from quality import TARGET
from rich import box
from rich.console import Console
from rich.table import Table

LEGEND = f"""\
Seconds include compilation; in brackets, a second call on data of the same shape, without it. Laplace has only the
latter. "Counted": the leapfrog steps of a stored run times the seconds of one gradient on this machine, without
compilation and overhead, which favours the method. HMCECS gets the mode and the mass matrix of `iso.warmup`. ESS/s:
effective draws of the parameter with the fewest, over all seconds, set-up and warm-up included. ESS per pass:
effective draws of the median parameter, over all gradients in passes over the data, warm-up included. "To {TARGET}":
seconds to an rms error of {TARGET} posterior standard deviations in the means: set-up, warm-up and the part of the
sampling that is needed. Means: rms distance from the reference in posterior standard deviations (by chance alone;
worst parameter); for `draws.mean()` it is mostly the error of the reference. sd: ratio to the reference, median
[range]. Times NUTS: ratio of ESS/s and of the time to {TARGET}, with compilation (without)."""

HEAD = (
    "problem",
    "method",
    "seconds",
    "smallest ESS",
    "ESS/s",
    f"to {TARGET}, s",
    "ESS per pass",
    "means (chance; worst)",
    "draws.mean()",
    "sd ratio",
    "R-hat",
    "ESS/s, times NUTS",
    f"to {TARGET}, times NUTS",
)


def lines(rows: Sequence[dict]) -> list[list[str]]:
    """Return one line of text per record."""
    nuts = {row["problem"]: row for row in rows if row["method"].startswith("NUTS")}
    return [_line(row, nuts.get(row["problem"])) for row in rows]


def _line(row: dict, baseline: dict | None) -> list[str]:
    chance = f"{row['mean_rms_by_chance']:.3f}; " if "mean_rms_by_chance" in row else ""
    per_pass = row["ess_median"] / row["passes"] if "passes" in row else None
    return [
        row["problem"],
        row["method"],
        _pair(row, "seconds"),
        short(row.get("ess_min")),
        _pair(row, "ess_per_second"),
        _pair(row, "seconds_to_target") or "never",
        short(per_pass),
        f"{row['mean_rms']:.3f} ({chance}{row['mean_worst']:.2f})",
        f"{row['refined_rms']:.4f}" if "refined_rms" in row else "",
        f"{row['sd_median']:.3f} [{row['sd_low']:.2f}, {row['sd_high']:.2f}]",
        f"{row['r_hat']:.3f}" if "r_hat" in row else "",
        _times(row, baseline, "ess_per_second", 1),
        _times(row, baseline, "seconds_to_target", -1),
    ]


def _pair(row: dict, key: str) -> str:
    both, compiled = row.get(key), row.get(f"{key}_compiled")
    if compiled is None or compiled == both:
        return short(both)
    return f"{short(both)} ({short(compiled)})".strip()


def _times(row: dict, baseline: dict | None, key: str, power: int) -> str:
    if baseline is None or baseline is row:
        return ""
    ratios = {}
    for suffix in ("", "_compiled"):
        if (value := row.get(key + suffix)) is not None:
            ratios[key + suffix] = (value / baseline.get(key + suffix, baseline[key])) ** power
    return _pair(ratios, key)


def short(x: float | None) -> str:
    """Return a number with three digits as text."""
    if x is None:
        return ""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    line = lambda cells: "| " + " | ".join(cells) + " |"
    return "\n".join([line(head), line(["---"] * len(head)), *map(line, rows)])


def show(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, with a separator where the first column changes."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for i, name in enumerate(head):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=True)
    for i, row in enumerate(rows):
        table.add_row(*row, end_section=i + 1 < len(rows) and rows[i + 1][0] != row[0])
    Console(width=240).print(table)
