"""Section 4.1 of the CCAdL paper: mean and precision of a normal distribution, Table 1 and Figure 1.

The paper ran one data set; errors differ much between data sets, so this runs many and gives medians and
ranges. `Settings` holds the sizes; `INFERRED` says what the paper leaves open and how it was settled.
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
from isotherm.samplers import SGHMC, SGNHT, CCAdL, Sampler
from isotherm.sampling.sample import sweep
from isotherm.studies.experiments import measures
from isotherm.studies.experiments.gaussian.claims import judge
from isotherm.studies.experiments.gaussian.figures import draw_figure1, draw_table1
from isotherm.studies.experiments.gaussian.noise import gradient_noise
from isotherm.studies.experiments.gaussian.report import show as show
from isotherm.studies.experiments.gaussian.report import write_page
from isotherm.studies.experiments.gaussian.table import COLUMNS, PAPER, Column, table_rows
from isotherm.studies.progress import Progress
from isotherm.versions import versions as run_versions

PARAMETERS = ("mu", "gamma")

INFERRED = (
    'SGHMC is run twice. "Noise estimate off" adds no correction for the gradient noise; it is the '
    'variant whose errors resemble the SGHMC line of the paper, so the claims are judged with it. "Noise '
    'estimate on" ("SGHMC, corrected") uses the same dense covariance as CCAdL, clipped where the '
    "noise to be added would need a negative variance.",
    "RMSE is that of the probabilities of 20 equal bins over 4 exact standard deviations on either side "
    "of the exact mean, averaged over mu and gamma. The paper does not define it.",
    "Autocorrelation time is 1 + 2 sum of rho_k, in steps, up to the first negative rho_k, averaged over "
    "mu and gamma.",
    'Batches are drawn with replacement. The paper says "random subset", but its noise covariance '
    "(N^2/n) V has no factor 1 - n/N, and that is exact for draws with replacement; without, the noise "
    "would be 10 % weaker.",
    "Every chain starts at mu = 0, gamma = 1, near the centre of every one of these posteriors. Length of "
    "the burn-in, start and number of data sets are not in the paper.",
    "gamma is sampled untransformed, as the printed gradients have it. A chain that steps to gamma < 0 is "
    "dead: it is counted, and its error enters the medians as infinite.",
    "Within a data set all methods use the same random numbers, so their differences are sharper than "
    "their errors.",
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Size of the experiment: each of `data_sets` gets one chain of `num_samples` per method and column."""

    data_sets: int = 20
    num_samples: int = 1_000_000
    burn_in: int = 10_000
    num_data: int = 100
    batch_size: int = 10


FULL = Settings()
QUICK = Settings(data_sets=5, num_samples=100_000)


@dataclasses.dataclass(frozen=True)
class Method:
    """A line of Table 1. `label` is its name in figures; `variant` tells apart lines of one method."""

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
    """Run the experiment; write `results.json`, `figures/` and `report.html` under `out`."""
    plots.require_matplotlib()
    settings = (QUICK if quick else FULL) if settings is None else settings
    cells: list[dict[str, Any]] = []
    figure1: dict[str, Any] = {}
    with Progress("gaussian", settings.data_sets * len(METHODS), console) as progress:
        for data_set in range(settings.data_sets):
            x = data(seed, data_set, settings.num_data)
            for method in METHODS:
                progress.start(f"data set {data_set + 1} of {settings.data_sets}, {method.label}")
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
    """The record, then the figures and the page, which are functions of the record alone."""
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, indent=1, allow_nan=False)
    (out / "results.json").write_text(text + "\n")
    figures = {
        "figure1": plots.save(draw_figure1(results), out / "figures" / "figure1.png"),
        "table1": plots.save(draw_table1(results), out / "figures" / "table1.png"),
    }
    (out / "report.html").write_text(write_page(results, figures), encoding="utf-8")


def data(seed: int, data_set: int, num_data: int) -> np.ndarray:
    """The standard normal sample of one data set."""
    return np.random.default_rng([seed, data_set]).standard_normal(num_data).astype(np.float32)


def _run(method: Method, x: np.ndarray, settings: Settings, seed: int, data_set: int) -> list[Draws]:
    """One chain for each column, side by side. All data sets share the compilation."""
    with warnings.catch_warnings():
        # Dead chains and clipped noise are counted in the results, which is what these warnings ask for.
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
        raise KeyboardInterrupt  # `sweep` returns what it has; half a cell of the table is worth nothing
    return runs


def _measure(method: Method, column: Column, run: Draws, x: np.ndarray, settings: Settings) -> dict[str, Any]:
    """One cell of the table for one data set; a dead chain has its sentence and no numbers."""
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
    """Histograms as densities, finer than those of the error, for Figure 1."""
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
    """What a reader needs to run it again."""
    return {**run_versions(), **{name: metadata.version(name) for name in ("scipy", "matplotlib")}}


__all__ = ["FULL", "METHODS", "PAPER", "QUICK", "Settings", "reproduce", "show", "write"]
