"""Effects of groups: draws beside quadrature, beside NumPyro's NUTS, calibration by simulation, and seconds.

    python benchmarks/groups.py truth          # the normal model, whose moments are known by quadrature
    python benchmarks/groups.py nuts           # counts and yes or no with correlated slopes; needs `numpyro`
    python benchmarks/groups.py hard           # few levels, no spread, one row, separation, correlations near 1
    python benchmarks/groups.py calibration    # ranks of the truth among draws, 100 data sets
    python benchmarks/groups.py speed          # until 400 effective draws of all scales and coefficients

`--only` takes rows of a table whose name contains a text. Each table has a row for each posterior: errors of means in
posterior sd at the median and at the 99th percentile of all parameters, the largest in Monte Carlo errors, the median
ratio of sds and its range over coefficients, scales and correlations, the largest R-hat, seconds and the verdict.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from arviz_stats.base import array_stats

import isotherm as iso
from grouped_models import Model, by_nuts, crossed, simulated

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support.grouped import exact_moments, normal_groups

Reference = dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]  # mean, sd, Monte Carlo error of the mean
HEAD = "| posterior | error, median | 99 % | largest, MC errors | ratio of sds | of scales | R-hat | s | verdict |"


def compared(name: str, draws: iso.Draws, seconds: float, reference: Reference) -> str:
    """Return a line of the table."""
    if not draws.complete.any():
        return f"| {name} | | | | | | | {seconds:.0f} | {draws.summary().verdict} |"
    rows = iter(draws.summary().rows)
    distances, errors, ratios, common = [], [], [], []
    worst = 0.0
    for leaf, x in draws.flat().items():
        found = [next(rows) for _ in range(int(np.prod(x.shape[2:])))]
        mean, sd, mcse = (np.ravel(np.asarray(v, float)) for v in reference[leaf])
        off = np.array([row.mean for row in found]) - mean
        errors.append(np.abs(off) / np.hypot([row.mcse for row in found], mcse))
        distances.append(np.abs(off) / sd)
        ratios.append(np.array([row.sd for row in found]) / sd)
        worst = max(worst, *(row.r_hat for row in found))
        if leaf not in ("effect", "site"):
            common.append(ratios[-1])
    distances, errors, ratios, common = (np.concatenate(x) for x in (distances, errors, ratios, common))
    verdict = draws.summary().verdict.split(":")[0]
    return (
        f"| {name} | {np.median(distances):.3f} | {np.quantile(distances, 0.99):.3f} | {errors.max():.1f} "
        f"| {np.median(ratios):.3f} | {common.min():.2f} to {common.max():.2f} | {worst:.3f} "
        f"| {seconds:.0f} | {verdict} |"
    )


def run(model: Model, **arguments: int) -> tuple[iso.Draws, float]:
    """Return draws with nothing tuned, and the seconds they took."""
    began = time.perf_counter()
    draws = iso.sample(model.posterior, model.rows, model.init, progress=False, **arguments)
    return draws, time.perf_counter() - began


def truth(wanted: Callable[[str], bool]) -> Iterator[str]:
    """The normal model against quadrature."""
    cases = [(5, 1), (5, 5), (5, 500), (500, 1), (500, 5), (500, 500), (25_000, 1), (25_000, 5)]
    for groups, each in cases:
        name = f"normal, {groups:,} groups x {each}"
        if wanted(name):
            posterior, rows, init = normal_groups(groups, each)
            draws, seconds = run(Model(posterior, rows, init, {}), num_draws=1500)
            exact = {k: (mean, sd, np.zeros_like(mean)) for k, (mean, sd) in exact_moments(rows).items()}
            yield compared(name, draws, seconds, exact)


def levels_of(rng: np.random.Generator, rows: int, levels: int) -> np.ndarray:
    """Return the level of each row, at random; each has one at least."""
    return rng.permutation(np.concatenate([np.arange(levels), rng.integers(levels, size=rows - levels)]))


def beside_nuts(name: str, model: Model, *, centred: bool = False, num_draws: int = 1000) -> str:
    """Return a line of the table, with two chains of NUTS as the reference."""
    draws, seconds = run(model, num_draws=1500)
    found = by_nuts(model, num_draws=num_draws, num_warmup=num_draws // 2, num_chains=2, centred=centred)
    stats: Any = array_stats
    reference = {}
    for leaf, x in found.items():
        flat = x.reshape(*x.shape[:2], -1)
        mcse = np.asarray(stats.mcse(flat, chain_axis=0, draw_axis=1))
        reference[leaf] = flat.mean((0, 1)), flat.std((0, 1)), mcse
    return compared(name, draws, seconds, reference)


def nuts(wanted: Callable[[str], bool]) -> Iterator[str]:
    """Logistic and Poisson regressions with (1 + x | level) + (1 | site) against NUTS."""
    for family in ("logistic", "poisson"):
        for rows, levels, sites in ((1_000, 50, 8), (5_000, 200, 20), (50_000, 500, 50)):
            name = f"{family}, {rows:,} rows, {levels} x 2 + {sites}"
            if wanted(name):
                rng = np.random.default_rng(rows)
                model = crossed(family, levels_of(rng, rows, levels), levels_of(rng, rows, sites))
                yield beside_nuts(name, model, centred=rows // levels > 50)


def hard(wanted: Callable[[str], bool]) -> Iterator[str]:
    """Posteriors of scales that are far from normal, against NUTS in the non-centred form."""
    rng = np.random.default_rng(1)
    some = lambda levels, each: np.repeat(np.arange(levels), each)
    cases: dict[str, tuple[str, np.ndarray, dict[str, np.ndarray], bool]] = {
        "3 levels": ("normal", some(3, 20), {}, False),
        "8 levels with slopes": ("normal", some(8, 20), {}, True),
        "no spread": ("normal", some(50, 10), {"sd": np.array([0.0])}, False),
        "hardly any spread, slopes": ("poisson", some(60, 8), {"sd": np.array([0.02, 0.01])}, True),
        "one row in a level": ("logistic", np.concatenate([np.arange(40), some(10, 40)]), {}, False),
        "separated levels": ("logistic", some(60, 4), {"sd": np.array([3.0])}, False),
        "correlation 0.99": ("normal", some(40, 20), {"r": np.array([0.99])}, True),
        "correlation -0.99, counts": ("poisson", some(40, 10), {"r": np.array([-0.99])}, True),
        "spread 50": ("normal", some(20, 10), {"sd": np.array([50.0])}, False),
    }
    for title, (family, levels, true, slope) in cases.items():
        name = f"{family}, {title}"
        if wanted(name):
            model = crossed(family, rng.permutation(levels), slope=slope, truth=true, seed=3)
            yield beside_nuts(name, model, num_draws=4000)


def calibration(sets: int) -> Iterator[str]:
    """Ranks of the parameters that made the rows among draws: uniform if draws are right. Chi-square of 10 bins.

    The 99.9 % quantile of chi-square with 9 degrees of freedom is 27.9.
    """
    yield "| parameter | chi-square of 10 bins |"
    yield "|---|---|"
    levels, rng = np.repeat(np.arange(10), 5), np.random.default_rng(0)
    model = crossed("logistic", levels, slope=False, prior_sd=1.0)
    ranks: dict[str, list[float]] = {}
    faults = 0
    for number in range(sets):
        true = {"coefficients": rng.normal(size=2), "sd": np.abs(rng.normal(size=1))}
        true["effect"] = true["sd"] * rng.normal(size=(10, 1))
        rows = simulated("logistic", true, levels, None, rng)
        draws = iso.sample(model.posterior, rows, model.init, seed=number, progress=False)
        verdict = draws.summary().verdict
        if "No fault" not in verdict:
            faults += 1
            print(f"data set {number}: {verdict}", file=sys.stderr)
        for leaf, value in true.items():
            x = draws.flat()[leaf].reshape(-1, value.size)
            for i in range(min(value.size, 3)):
                ranks.setdefault(f"{leaf}[{i}]", []).append(float(np.mean(x[:, i] < value.ravel()[i])))
    for leaf, found in ranks.items():
        counts = np.histogram(found, bins=10, range=(0, 1))[0]
        yield f"| {leaf} | {np.sum((counts - sets / 10) ** 2) / (sets / 10):.1f} |"
    yield f"\n{sets} data sets, {faults} with a warning"


def speed(wanted: Callable[[str], bool]) -> Iterator[str]:
    """Seconds from nothing tuned to the least effective size of scales and coefficients."""
    yield "| posterior | s | of which the warm-up | passes | ess of scales and coefficients | R-hat |"
    yield "|---|---|---|---|---|---|"
    for rows, levels, sites in ((73_421, 2_972, 1_128), (100_000, 2_500, 50), (1_000_000, 25_000, 500)):
        name = f"logistic, {rows:,} rows, {levels:,} + {sites:,}"
        if not wanted(name):
            continue
        rng = np.random.default_rng(rows)
        model = crossed("logistic", levels_of(rng, rows, levels), levels_of(rng, rows, sites), slope=False)
        draws, seconds = run(model, num_draws=200)
        common = [row for row in draws.summary().rows if not row.name.startswith(("effect", "site"))]
        assert draws.setup is not None
        yield (
            f"| {name} | {seconds:.0f} | {draws.setup.seconds:.0f} | {draws.setup.passes:,.0f} "
            f"| {min(min(row.ess_bulk, row.ess_tail) for row in common):,.0f} "
            f"| {max(row.r_hat for row in common):.3f} |"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=["truth", "nuts", "hard", "calibration", "speed"])
    parser.add_argument("--only", default="", help="rows whose name contains this text")
    parser.add_argument("--sets", type=int, default=100, help="data sets of `calibration`")
    args = parser.parse_args()
    tables = {"truth": truth, "nuts": nuts, "hard": hard, "speed": speed}
    if args.table in ("truth", "nuts", "hard"):
        print(HEAD + "\n|" + "---|" * 9)
    lines = (
        calibration(args.sets)
        if args.table == "calibration"
        else tables[args.table](lambda x: args.only in x)
    )
    for line in lines:
        print(line, flush=True)
