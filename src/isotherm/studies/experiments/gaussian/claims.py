"""The claims of section 4.1 and whether the numbers support them.

Every verdict is computed from the rows of the table. A difference between two methods is *clear* if a
one-sided sign test over data sets rejects equality at 5 %. That takes 5 wins of 5 data sets, or 15 of 20.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from isotherm.studies.experiments import verdicts
from isotherm.studies.experiments.gaussian.table import COLUMNS, Column, find

Rows = Sequence[dict[str, Any]]

# "easily outperforms": at most half the error. In the paper's table the factor is 3 or more where this holds.
EASILY = 2.0
VARIES = 1.5  # "not constant": the variance changes by a factor of more than 1.5
ADJUSTED = 0.25  # "adjusts to the noise": the thermostat absorbs at most a quarter of the noise's heat
_LARGE_STEP = tuple(c for c in COLUMNS if c.step_size == 0.01)


def judge(rows: Rows, noise: dict[str, Any], settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the claims in the paper's order, each with verdict, number and evidence."""
    return [
        _noise_varies(noise),
        _ccadl_adjusts(rows, settings),
        _thermostats_beat_sghmc(rows),
        _sghmc_only_in_one_corner(rows),
        _corner_is_slow(rows),
        _ccadl_beats_sgnht(rows),
    ]


def error(rows: Rows, method: str, column: Column, variant: str | None = None) -> float:
    """Return the median RMSE, or infinity if most chains failed."""
    value = find(rows, method, column, variant)["rmse"]
    return math.inf if value is None else value


def wins(rows: Rows, better: str, worse: str, column: Column) -> tuple[int, int]:
    """Count the data sets in which `better` has the smaller error. Returns (wins, data sets).

    The error of a failed chain is infinite.
    """
    series = (find(rows, m, column)["rmse_by_data_set"] for m in (better, worse))
    a, b = (np.array([math.inf if v is None else v for v in s]) for s in series)
    return int(np.sum(a < b)), len(a)


def is_clear(won: int, of: int) -> bool:
    """Return whether a one-sided sign test rejects equality at 5 %."""
    return sum(math.comb(of, k) for k in range(won, of + 1)) / 2**of < 0.05


def _noise_varies(noise: dict[str, Any]) -> dict[str, Any]:
    ratio, batch = noise["ratio"], noise["batch_ratio"]
    with_parameters, with_batch = max(ratio.values()) > VARIES, min(batch.values()) > VARIES
    return verdicts.claim(
        "The variance of the stochastic gradient noise is not constant: it depends on the size of the "
        "subset and on mu and gamma, which violates the assumption of SGNHT.",
        verdicts.grade(full=with_parameters and with_batch, part=with_parameters or with_batch),
        max(ratio.values()),
        "Over the central 95 % of the posterior of the first data set, the noise variance changes by a "
        f"factor of {ratio['mu']:.1f} in the mu-component and {ratio['gamma']:.1f} in the gamma-component; "
        f"the two components differ by a factor of {noise['mean']['mu'] / noise['mean']['gamma']:.1f}. Halving "
        f"the batch size multiplies the variance by {batch['mu']:.2f} and {batch['gamma']:.2f}.",
    )


def _ccadl_adjusts(rows: Rows, settings: dict[str, Any]) -> dict[str, Any]:
    absorbed, slowest_time = [], 0.0
    for column in _LARGE_STEP:
        h, A = column.step_size, column.friction
        xi_without_noise = (1 - math.sqrt(1 - 2 * A * h)) / h  # of this Euler step
        sgnht, ccadl = find(rows, "SGNHT", column), find(rows, "CCAdL", column)
        if sgnht["xi"] is None or ccadl["xi"] is None:
            return verdicts.claim(
                "CCAdL adjusts to the varying noise variance.", "not", math.inf, "Most chains failed."
            )
        absorbed.append((ccadl["xi"] - xi_without_noise) / (sgnht["xi"] - xi_without_noise))
        slowest_time = max(slowest_time, ccadl["autocorrelation_time"])
    window = (settings["burn_in"] + settings["num_samples"]) / slowest_time
    matches_mean, follows = max(map(abs, absorbed)) <= ADJUSTED, window <= 1
    return verdicts.claim(
        "CCAdL adjusts to the varying noise variance.",
        verdicts.grade(full=matches_mean and follows, part=matches_mean or follows),
        max(map(abs, absorbed)),
        "At h = 0.01 the thermostat of CCAdL absorbs only "
        f"{absorbed[0]:.0%} (A = 1) and {absorbed[1]:.0%} (A = 10) of the gradient noise's heat that the "
        "thermostat of SGNHT absorbs, measured by the shift of xi. But the covariance is an average over the "
        f"whole run (kappa_t = 1/t), which is {window:,.0f} autocorrelation times long. It matches the mean of "
        "the noise over the posterior and does not follow mu and gamma.",
    )


def _thermostats_beat_sghmc(rows: Rows) -> dict[str, Any]:
    factors = [
        error(rows, "SGHMC", c) / max(error(rows, "SGNHT", c), error(rows, "CCAdL", c)) for c in COLUMNS
    ]
    better, easily = sum(f > 1 for f in factors), sum(f >= EASILY for f in factors)
    most = len(COLUMNS) // 2 + 1
    sghmc_temperatures = [find(rows, "SGHMC", c)["kinetic_temperature"] for c in COLUMNS]
    shown = ", ".join(f"{f:.1f} ({c})" for f, c in zip(factors, COLUMNS, strict=True))
    corrected = ", ".join(f"{error(rows, 'SGHMC', c, 'noise estimate on'):.4f}" for c in COLUMNS)
    temperatures = ", ".join("failed" if t is None else f"{t:.2f}" for t in sghmc_temperatures)
    return verdicts.claim(
        "In most of the cases, both SGNHT and CCAdL easily outperform SGHMC, possibly due to the "
        "Nosé-Hoover device.",
        verdicts.grade(full=easily >= most, part=better >= most),
        easily,
        f"Error of SGHMC divided by the larger of the other two errors: {shown}. Both are better in {better} of "
        f"{len(COLUMNS)} columns, with at most half the error in {easily}. SGHMC has no thermostat and "
        f"runs at kinetic temperatures of {temperatures} instead of 1. (With the noise estimate on, its "
        f"errors are {corrected}.)",
    )


def _sghmc_only_in_one_corner(rows: Rows) -> dict[str, Any]:
    corner = Column(0.001, 10.0)
    best = [
        c for c in COLUMNS if error(rows, "SGHMC", c) < min(error(rows, m, c) for m in ("SGNHT", "CCAdL"))
    ]
    won = {m: wins(rows, "SGHMC", m, corner) for m in ("SGNHT", "CCAdL")}
    clear = all(is_clear(*w) for w in won.values())
    row = find(rows, "SGHMC", corner)
    chance = "unknown" if row["rmse_by_chance"] is None else f"{row['rmse_by_chance']:.4f}"
    return verdicts.claim(
        "SGHMC shows superiority only with a small value of h and a large value of A.",
        verdicts.grade(full=best == [corner] and clear, part=set(best) <= {corner}),
        len(best),
        f"SGHMC has the smallest median error in {len(best)} columns"
        + (f" ({'; '.join(map(str, best))})" if best else "")
        + f". At {corner} it beats SGNHT in {won['SGNHT'][0]} and CCAdL in {won['CCAdL'][0]} of "
        f"{row['data_sets']} data sets, which is {'clear' if clear else 'not clear'}. The errors are "
        f"{error(rows, 'SGHMC', corner):.4f}, {error(rows, 'SGNHT', corner):.4f} and "
        f"{error(rows, 'CCAdL', corner):.4f}; chance alone gives {chance}.",
    )


def _corner_is_slow(rows: Rows) -> dict[str, Any]:
    methods = ("SGHMC", "SGNHT", "CCAdL")
    times = {m: [find(rows, m, c)["autocorrelation_time"] or math.inf for c in COLUMNS] for m in methods}
    corner = COLUMNS.index(Column(0.001, 10.0))
    slowest = [m for m in methods if max(times[m]) == times[m][corner]]
    cost = [times[m][corner] / min(times[m]) for m in methods]
    shown = ", ".join(f"{m} {c:.0f}" for m, c in zip(methods, cost, strict=True))
    return verdicts.claim(
        "Neither a small h nor a large A is desirable in practice.",
        verdicts.grade(full=len(slowest) == len(methods), part=bool(slowest)),
        float(np.median(cost)),
        f"h = 0.001, A = 10 is the slowest column for {len(slowest)} of {len(methods)} methods. Its "
        f"autocorrelation time divided by that of the fastest column: {shown}.",
    )


def _ccadl_beats_sgnht(rows: Rows) -> dict[str, Any]:
    lower = [c for c in COLUMNS if error(rows, "CCAdL", c) < error(rows, "SGNHT", c)]
    won = {c: wins(rows, "CCAdL", "SGNHT", c) for c in COLUMNS}
    clear = [c for c in COLUMNS if is_clear(*won[c])]
    shown = "; ".join(
        f"{error(rows, 'CCAdL', c):.4f} vs {error(rows, 'SGNHT', c):.4f}, better in {won[c][0]} of "
        f"{won[c][1]} ({c})"
        for c in COLUMNS
    )
    return verdicts.claim(
        "CCAdL achieves better performance than SGNHT in each of the cases investigated.",
        verdicts.grade(
            full=len(lower) == len(clear) == len(COLUMNS), part=bool(clear) or len(lower) == len(COLUMNS)
        ),
        len(clear),
        f"Median errors of CCAdL and SGNHT: {shown}. The median is lower in {len(lower)} of {len(COLUMNS)} columns; "
        f"the difference is clear in {len(clear)}{' (' + '; '.join(map(str, clear)) + ')' if clear else ''}.",
    )
