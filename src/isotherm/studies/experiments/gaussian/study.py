"""Section 4.1 of the CCAdL paper: mean and precision of a normal distribution, Table 1 and Figure 1.

The paper used one data set. Errors vary strongly between data sets, so this experiment uses many and reports
medians and ranges. `Settings` holds the sizes; `INFERRED` lists what the paper leaves open and what we chose.
"""

import dataclasses
import json
import warnings
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console

from isotherm import plots
from isotherm.covariance import Dense
from isotherm.data.plans import WithReplacement
from isotherm.draws import Draws
from isotherm.errors import IsothermWarning
from isotherm.models.gaussian import exact_posterior, gaussian
from isotherm.progress import Progress
from isotherm.samplers import SGHMC, SGNHT, CCAdL, Sampler
from isotherm.sampling.sample import sweep
from isotherm.studies.experiments import measures
from isotherm.studies.experiments.gaussian.claims import judge
from isotherm.studies.experiments.gaussian.figures import draw_figure1, draw_table1
from isotherm.studies.experiments.gaussian.noise import gradient_noise
from isotherm.studies.experiments.gaussian.report import show as show
from isotherm.studies.experiments.gaussian.report import write_page
from isotherm.studies.experiments.gaussian.table import COLUMNS, PAPER, Column, table_rows
from isotherm.versions import versions as run_versions

PARAMETERS = ("mu", "gamma")

INFERRED = (
    'SGHMC is run twice. "Noise estimate off" does not correct for the gradient noise. Its errors '
    'resemble the SGHMC line of the paper, so the claims are judged with it. "Noise estimate on" '
    '("SGHMC, corrected") uses the same dense covariance as CCAdL, clipped where the noise to be added '
    "would need a negative variance.",
    "RMSE is the error of the probabilities of 20 equal bins spanning the exact mean ± 4 exact standard "
    "deviations, averaged over mu and gamma. The paper does not define it.",
    "Autocorrelation time is 1 + 2 sum of rho_k, in steps, up to the first negative rho_k, averaged over "
    "mu and gamma.",
    'Batches are drawn with replacement. The paper says "random subset", but its noise covariance '
    "(N^2/n) V has no factor 1 - n/N, which is exact for sampling with replacement. Without replacement "
    "the noise variance would be 10 % smaller.",
    "Every chain starts at mu = 0, gamma = 1, near the centre of each posterior. The paper does not "
    "state the length of the burn-in, the starting point or the number of data sets.",
    "gamma is sampled untransformed, as in the gradients printed in the paper. A chain that steps to "
    "gamma < 0 has failed: it is counted, and its error enters the medians as infinite.",
    "Within a data set all methods use the same random numbers, so the differences between methods are "
    "more precise than the errors themselves.",
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Size of the experiment. Each data set gets one chain of `num_samples` per method and column."""

    data_sets: int = 20
    num_samples: int = 1_000_000
    burn_in: int = 10_000
    num_data: int = 100
    batch_size: int = 10


FULL = Settings()
QUICK = Settings(data_sets=5, num_samples=100_000)


@dataclasses.dataclass(frozen=True)
class Method:
    """A line of Table 1. `label` is its name in figures; `variant` distinguishes lines of the same method."""

    name: str
    variant: str
    label: str
    build: Callable[..., Sampler]


METHODS = (
    Method("SGHMC", "noise estimate off", "SGHMC", SGHMC),
    Method("SGHMC", "noise estimate on", "SGHMC, corrected", partial(SGHMC, covariance=Dense("exact"))),
    Method("SGNHT", "", "SGNHT", SGNHT),
    Method("CCAdL", "dense covariance", "CCAdL", partial(CCAdL, covariance=Dense("exact"))),
)


def reproduce(
    out: Path, *, quick: bool, seed: int, console: Console, settings: Settings | None = None
) -> dict[str, Any]:
    """Run the experiment, write `results.json`, `figures/` and `report.html` under `out`, and return the results."""
    plots.require_matplotlib()
    settings = (QUICK if quick else FULL) if settings is None else settings
    cells: list[dict[str, Any]] = []
    figure1: dict[str, Any] = {}
    with Progress("gaussian", settings.data_sets * len(METHODS), console=console, lines=True) as progress:
        for data_set in range(settings.data_sets):
            x = data(seed, data_set, settings.num_data)
            for method in METHODS:
                progress.say(f"data set {data_set + 1} of {settings.data_sets}, {method.label}")
                runs = _run(method, x, settings, seed, data_set)
                cells += [_measure(method, c, d, x, settings) for c, d in zip(COLUMNS, runs, strict=True)]
                if data_set == 0:
                    _add_densities(figure1, method, x, runs)
                progress.advance()
            progress.milestone(f"data set {data_set + 1} of {settings.data_sets}")
    rows = table_rows(cells)
    noise = gradient_noise(data(seed, 0, settings.num_data), settings.batch_size, seed=seed)
    results = {
        "experiment": "gaussian",
        "rows": rows,
        "claims": judge(rows, noise, dataclasses.asdict(settings)),
        "versions": versions(),
        "settings": {**dataclasses.asdict(settings), "quick": quick, "seed": seed},
        "inferred": list(INFERRED),
        "gradient_noise": noise,
        "figure1": figure1,
    }
    write(out, results)
    return results


def write(out: Path, results: dict[str, Any]) -> None:
    """Write the results, then the figures and the page, which depend on the results alone."""
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, indent=1, allow_nan=False)
    (out / "results.json").write_text(text + "\n")
    figures = {
        "figure1": plots.save(draw_figure1(results), out / "figures" / "figure1.png"),
        "table1": plots.save(draw_table1(results), out / "figures" / "table1.png"),
    }
    (out / "report.html").write_text(write_page(results, figures), encoding="utf-8")


def data(seed: int, data_set: int, num_data: int) -> np.ndarray:
    """Return one data set: a standard normal sample."""
    return np.random.default_rng([seed, data_set]).standard_normal(num_data).astype(np.float32)


def _run(method: Method, x: np.ndarray, settings: Settings, seed: int, data_set: int) -> list[Draws]:
    """Run one chain per column, all at once. All data sets share one compilation."""
    with warnings.catch_warnings():
        # The results already report failed chains and clipped noise, so the warnings add nothing.
        warnings.simplefilter("ignore", IsothermWarning)
        runs = sweep(
            gaussian(),
            x,
            {"mu": 0.0, "gamma": 1.0},
            [method.build(step_size=c.step_size, friction=c.friction) for c in COLUMNS],
            batch_size=settings.batch_size,
            num_draws=settings.num_samples,
            burn_in=settings.burn_in,
            num_chains=1,
            seed=jax.random.fold_in(jax.random.key(seed), data_set),
            minibatch=WithReplacement(),
            progress=False,
        )
    if any("interrupted" in line for run in runs for line in run.status):
        raise KeyboardInterrupt  # `sweep` returns the draws so far, but an incomplete chain is of no use here
    return runs


def _measure(method: Method, column: Column, run: Draws, x: np.ndarray, settings: Settings) -> dict[str, Any]:
    """Return one cell of the table for one data set. A failed chain has its status message and no numbers."""
    cell: dict[str, Any] = {
        "method": method.name,
        "variant": method.variant,
        "label": method.label,
        "step_size": column.step_size,
        "friction": column.friction,
    }
    if run.lengths[0] < settings.num_samples:
        return {**cell, "failure": run.status[0]}
    marginals, chains = exact_posterior(x).marginals, {p: run.posterior[p][0] for p in PARAMETERS}
    average = lambda f: float(np.mean([f(p) for p in PARAMETERS]))
    clipped = run.stats.get("clipped_steps")
    return {
        **cell,
        "rmse": average(lambda p: measures.histogram_rmse(chains[p], marginals[p])),
        "rmse_by_chance": average(lambda p: measures.chance_rmse(chains[p], marginals[p])),
        "autocorrelation_time": average(lambda p: measures.autocorrelation_time(chains[p])),
        "kinetic_temperature": float(run.stats["kinetic_temperature"].mean(dtype=np.float64)),
        "xi": float(run.stats["xi"].mean(dtype=np.float64)) if "xi" in run.stats else None,
        "clipped_share": None if clipped is None else float(clipped[0]) / run.record.steps,
    }


def _add_densities(figure1: dict[str, Any], method: Method, x: np.ndarray, runs: list[Draws]) -> None:
    """Add the densities of a method to Figure 1: histograms with narrower bins than those of the RMSE."""
    marginals, curves = exact_posterior(x).marginals, figure1.setdefault("curves", [])
    edges = {p: measures.bin_edges(marginals[p], bins=40, half_width=5.0) for p in PARAMETERS}
    for p in PARAMETERS:
        grid = np.linspace(edges[p][0], edges[p][-1], 301)
        figure1[p] = {
            "grid": grid.tolist(),
            "exact": marginals[p].pdf(grid).tolist(),
            "centres": ((edges[p][:-1] + edges[p][1:]) / 2).tolist(),
        }
    for column, run in zip(COLUMNS, runs, strict=True):
        curve: dict[str, Any] = {"label": method.label, **dataclasses.asdict(column)}
        for p in PARAMETERS:
            chain = run.posterior[p][0]
            valid = chain[np.isfinite(chain)]
            if len(valid):
                share = measures.bin_probabilities(valid, edges[p])
                curve[p] = np.round(share / np.diff(edges[p]), 6).tolist()
        curves.append(curve)


def versions() -> dict[str, str]:
    """Return the versions of the packages that the results depend on."""
    return {**run_versions(), **{name: metadata.version(name) for name in ("scipy", "matplotlib")}}


__all__ = ["FULL", "METHODS", "PAPER", "QUICK", "Settings", "reproduce", "show", "write"]
