"""The claims of section 4.2 and whether the numbers support them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from isotherm.studies.experiments.logistic.table import NEAR, at, find
from isotherm.studies.experiments.verdicts import claim, grade

Rows = list[dict[str, Any]]

METHODS = ("SGHMC", "SGNHT", "CCAdL")  # as in the paper; SGHMC with its noise estimate off
MUCH = 0.05  # "much faster": lead in test log-likelihood per point after 50 passes at the largest h, A = 10
WIDE = 4.0  # "does not fit in the plot": area of the ellipse over that of the reference
_MARGINAL_FRICTION = 10.0


def judge(
    curves: Rows, marginals: Rows, truth: dict[str, Any], steps: Sequence[float], frictions: Sequence[float]
) -> list[dict[str, Any]]:
    """Return the claims in the paper's order, each with verdict, number and evidence."""
    return [
        _faster(curves, steps, frictions),
        _mixes(marginals, steps),
        _robust(curves, steps, frictions),
        _reference_agrees(truth),
        _closest(marginals, steps),
        _sghmc_off_the_plot(marginals, steps),
    ]


def _faster(curves: Rows, steps: Sequence[float], frictions: Sequence[float]) -> dict[str, Any]:
    cells, clear, first, none_near = [(h, A) for h in steps for A in frictions], 0, 0, 0
    never = np.inf
    for h, A in cells:
        row = {m: find(curves, m, h, A) for m in METHODS}
        chains = {m: [-np.inf if v is None else v for v in r["by_chain_at_50"]] for m, r in row.items()}
        clear += min(chains["CCAdL"]) > max(chains["SGHMC"] + chains["SGNHT"])
        near = {m: r["passes_to_near"] or never for m, r in row.items()}
        first += near["CCAdL"] < min(near["SGHMC"], near["SGNHT"])
        none_near += min(near.values()) == never
    h, A = steps[-1], 10.0
    after = {m: at(find(curves, m, h, A), 50) for m in METHODS}
    ahead = after["CCAdL"] - max(after["SGHMC"], after["SGNHT"])
    to_near, last = {m: find(curves, m, h, A)["passes_to_near"] for m in METHODS}, curves[0]["passes"][-1]
    shown = ", ".join(f"{m} {f'over {last}' if to_near[m] is None else to_near[m]}" for m in METHODS)
    return claim(
        "CCAdL converges much faster than SGHMC and SGNHT, with different values of h and A.",
        grade(full=ahead >= MUCH and clear == len(cells), part=ahead > 0 and clear > len(cells) / 2),
        float(ahead),
        f"At h = {h:g}, A = {A:g}, the test log-likelihood of the running mean after 50 passes is "
        + ", ".join(f"{after[m]:.3f} ({m})" for m in METHODS)
        + f". Passes until it stays within {NEAR} of the reference: {shown}. After 50 passes every chain of CCAdL "
        f"is ahead of every chain of the other methods in {clear} of {len(cells)} combinations of h and A. CCAdL is "
        f"the first to come within {NEAR} in {first}; in {none_near} no method does within {last} passes.",
    )


def _mixes(marginals: Rows, steps: Sequence[float]) -> dict[str, Any]:
    burn_in_ratios, time_ratios = [], []
    for h in steps:
        row = {m: find(marginals, m, h, _MARGINAL_FRICTION) for m in METHODS}
        if any(r["died"] for r in row.values()):
            continue
        others = ("SGHMC", "SGNHT")
        burn_in_ratios.append(min(row[m]["burn_in"] for m in others) / max(row["CCAdL"]["burn_in"], 1))
        time_ratios.append(
            min(row[m]["autocorrelation_time"] for m in others) / row["CCAdL"]["autocorrelation_time"]
        )
    text = "Faster convergence indicates a faster mixing speed and a shorter burn-in period of CCAdL."
    if not burn_in_ratios:
        return claim(text, "not", 0.0, "Chains diverged at every step size.")
    shorter, faster = sum(b > 1 for b in burn_in_ratios), sum(t > 1.1 for t in time_ratios)
    count = len(burn_in_ratios)
    return claim(
        text,
        grade(full=shorter == count and faster == count, part=shorter + faster >= count),
        float(np.median(time_ratios)),
        "The shorter burn-in (by our rule) of SGHMC and SGNHT divided by that of CCAdL, for each h at A = 10: "
        + ", ".join(f"{b:.1f}" for b in burn_in_ratios)
        + "; the same ratio of autocorrelation times: "
        + ", ".join(f"{t:.2f}" for t in time_ratios)
        + ". The autocorrelation times of the marginals are nearly the same: CCAdL gains during burn-in only.",
    )


def _robust(curves: Rows, steps: Sequence[float], frictions: Sequence[float]) -> dict[str, Any]:
    spread = {}
    for m in METHODS:
        values = [[at(find(curves, m, h, A), 50) for A in frictions] for h in steps]
        spread[m] = [max(v) - min(v) for v in values]
    smallest = sum(spread["CCAdL"][i] < min(spread[m][i] for m in METHODS[:2]) for i in range(len(steps)))
    needs_large = all(
        at(find(curves, m, steps[-1], max(frictions)), 50)
        > at(find(curves, m, steps[-1], min(frictions)), 50)
        for m in METHODS[:2]
    )
    ratio = min(spread[m][-1] for m in METHODS[:2]) / max(spread["CCAdL"][-1], 1e-9)
    return claim(
        "CCAdL is robust in the effective friction A, while SGHMC and SGNHT rely on a large one.",
        grade(full=smallest == len(steps) and needs_large and ratio > 2, part=smallest > 0),
        float(ratio),
        f"Range over A = {', '.join(f'{A:g}' for A in frictions)} of the test log-likelihood after 50 passes, "
        f"for each h: "
        + "; ".join(f"{m} {', '.join(f'{x:.3f}' for x in spread[m])}" for m in METHODS)
        + f". At h = {steps[-1]:g} the range of CCAdL is {ratio:.1f} times smaller than the next smallest.",
    )


def _reference_agrees(truth: dict[str, Any]) -> dict[str, Any]:
    good = truth["rhat"] <= 1.01
    return claim(
        "There is no variation between ten runs of standard HMC.",
        grade(full=good, part=truth["rhat"] <= 1.05),
        truth["rhat"],
        f"{truth['runs']} runs of {truth['draws']:,} draws: R-hat at most {truth['rhat']:.4f}. In any of the 100 "
        f"dimensions the means of two runs differ by at most {truth['largest_difference']:.2f} posterior standard "
        f"deviations; the standard error of the pooled mean is {truth['standard_error']:.3f} standard deviations.",
    )


def _closest(marginals: Rows, steps: Sequence[float]) -> dict[str, Any]:
    best, lines, ratios = 0, [], []
    for h in steps:
        row = {m: find(marginals, m, h, _MARGINAL_FRICTION) for m in METHODS}
        error = {m: np.inf if r["died"] else r["covariance_error"] for m, r in row.items()}
        chance = "–" if row["CCAdL"]["died"] else f"{row['CCAdL']['covariance_by_chance']:.2f}"
        area_error = {m: np.inf if r["died"] else abs(np.log(r["area_ratio_median"])) for m, r in row.items()}
        best += min(error, key=error.__getitem__) == "CCAdL" == min(area_error, key=area_error.__getitem__)
        ratios.append(min(error["SGHMC"], error["SGNHT"]) / error["CCAdL"])
        lines.append(
            f"h = {h:g}: "
            + ", ".join(
                f"{m} diverged"
                if r["died"]
                else f"{m} {r['area_ratio_median']:.2f} ({r['mean_rms']:.2f}, {r['covariance_error']:.2f})"
                for m, r in row.items()
            )
            + f"; chance alone gives a covariance error of {chance} for CCAdL"
        )
    return claim(
        "CCAdL's marginal posterior is much closer to the reference than those of SGHMC and SGNHT.",
        grade(full=best == len(steps) and min(ratios) > 2, part=best > 0),
        float(min(ratios)),
        "Area of the ellipse divided by that of the reference, median over all 4,950 pairs of dimensions (in "
        "brackets: rms distance of the means in posterior standard deviations, relative error of the whole "
        "covariance): " + "; ".join(lines) + f". CCAdL is closest at {best} of {len(steps)} step sizes.",
    )


def _sghmc_off_the_plot(marginals: Rows, steps: Sequence[float]) -> dict[str, Any]:
    row = {m: find(marginals, m, steps[-1], _MARGINAL_FRICTION) for m in METHODS}
    text = "The contour of SGHMC does not fit in the plot, and it deviates even in the mean."
    diverged = [m for m, r in row.items() if r["died"]]
    if diverged:
        verdict = "partly" if "SGHMC" in diverged else "not"
        return claim(text, verdict, 0.0, f"Chains diverged: {', '.join(diverged)}.")
    wide = row["SGHMC"]["area_ratio"] > WIDE
    off_mean = row["SGHMC"]["mean_rms"] > 2 * max(
        row["SGNHT"]["mean_rms"], row["SGHMC"]["mean_rms_by_chance"]
    )
    return claim(
        text,
        grade(full=wide and off_mean, part=wide or off_mean),
        row["SGHMC"]["area_ratio"],
        f"At h = {steps[-1]:g}, A = 10, in dimensions 2 and 5, the area of SGHMC's ellipse is "
        f"{row['SGHMC']['area_ratio']:.1f} times that of the reference "
        f"(SGNHT {row['SGNHT']['area_ratio']:.1f}, CCAdL {row['CCAdL']['area_ratio']:.2f}). The rms error of its "
        f"means over all dimensions is {row['SGHMC']['mean_rms']:.2f} posterior standard deviations; chance alone "
        f"gives {row['SGHMC']['mean_rms_by_chance']:.2f} (SGNHT {row['SGNHT']['mean_rms']:.2f}, "
        f"CCAdL {row['CCAdL']['mean_rms']:.2f}).",
    )
