"""Section 4.3 of the CCAdL paper: discriminative restricted Boltzmann machines, Table 2, Figure 3, larger steps.

`Settings` holds the sizes; `INFERRED` lists what the paper leaves open and what we chose.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from isotherm import plots
from isotherm.studies.experiments.drbm.choice import HIDDEN, chosen, error_of_fold
from isotherm.studies.experiments.drbm.claims import judge
from isotherm.studies.experiments.drbm.figures import draw_panels, draw_spread
from isotherm.studies.experiments.drbm.problem import Panel, majority, panels, rows
from isotherm.studies.experiments.drbm.report import show as show
from isotherm.studies.experiments.drbm.report import write_page
from isotherm.studies.experiments.drbm.runs import chain
from isotherm.studies.experiments.gaussian.study import versions
from isotherm.studies.experiments.parts import Part, compute
from isotherm.terminal import literal

PAPER = ("SGHMC", "SGNHT", "CCAdL")
BEYOND = ("SGNHT", "CCAdL", "CCAdL symmetric", "CCAdL symmetric, low rank", "CCAdL symmetric, matrix-free")
FACTORS = (1, 3, 10)  # times the paper's largest step
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "unchanged": ("nothing", {}),
    "standardised": ("inputs standardised", {"standardised": True}),
    "narrow-prior": ("prior N(0, 0.3²)", {"prior_scale": 0.3}),
    "wide-prior": ("prior N(0, 3²)", {"prior_scale": 3.0}),
    "small-start": ("start at N(0, 0.01²)", {"init_scale": 0.01}),
    "large-batch": ("batch twice as large", {"batch_size": 2}),  # a multiple of the panel's batch size
}

INFERRED = (
    "Initial weights are drawn from N(0, 1/F) and N(0, 1/H), biases are zero; the prior is N(0, 1). Neither is in "
    "the paper.",
    "The text gives no values of A; we use 0.1, 1, 10 and 50.",
    "Batches have 1000 rows, 500 for letter (the paper says 500 to 1000), drawn with replacement.",
    "connect-4 is split by a seeded permutation into 54,046 and 13,511 rows as in the paper; the paper's split is "
    "not published.",
    "The diagonal covariance of CCAdL comes from the difference of half-batches. Its expectation is the paper's "
    "estimate, and it costs nothing extra. SGHMC has no noise estimate.",
    "The posterior mean is the mean of the parameters, as in the paper, over four samples per pass; it restarts when "
    "burn-in ends, after 20 % of the passes. Permuting the hidden units does not change the model, so this mean is "
    "meaningful only while a chain stays near one ordering of the units. The averaged prediction does not have this "
    "flaw and is given as well.",
    "There is one chain per setting: differences of less than about 0.01 are not significant.",
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Size of the experiment: the passes of every chain, and the panels to run.

    - `frictions`, `beyond_frictions`: values of A in the paper's panels and in those beyond the paper.
    - `all_steps`: whether to run all three steps of a data set or only the largest.
    - `beyond`: whether to run larger steps and better covariances.
    - `variant_passes`: passes of the chains with other input scales, priors, starts and batch sizes; 0 skips them.
    - `cv_passes`, `folds`: passes and folds of the cross-validation of hidden units.
    - `data_sets`: the number of data sets, in the paper's order.
    """

    passes: int = 100
    frictions: tuple[float, ...] = (0.1, 1.0, 10.0, 50.0)
    beyond_frictions: tuple[float, ...] = (0.1, 10.0)
    all_steps: bool = True
    beyond: bool = True
    variant_passes: int = 50
    cv_passes: int = 20
    folds: int = 3
    data_sets: int = 3


FULL = Settings()
QUICK = Settings(
    passes=5,
    frictions=(0.1, 10.0),
    all_steps=False,
    beyond=False,
    variant_passes=0,
    cv_passes=2,
    data_sets=2,
)


def reproduce(
    out: Path,
    *,
    quick: bool,
    seed: int,
    console: Console,
    settings: Settings | None = None,
    cross_validate: bool = False,
) -> dict[str, Any]:
    """Run the experiment, write `results.json`, `figures/` and `report.html` under `out`, and return the results."""
    plots.require_matplotlib()
    settings = (QUICK if quick else FULL) if settings is None else settings
    chosen_panels, note = panels()
    chosen_panels, note = chosen_panels[: settings.data_sets], note if settings.data_sets > 2 else ""
    if note:
        console.print(literal(note))
    parts = plan(settings, chosen_panels, seed)
    folds = folds_of(settings, chosen_panels, seed) if cross_validate else []
    done = compute([*parts, *folds], out / "parts", title="drbm", console=console)
    cells = [{**part.arguments, "variant": part.name.partition("--")[2], **done[part.name]} for part in parts]
    tables = [_table2(panel) for panel in chosen_panels]
    results = {
        "experiment": "drbm",
        "claims": judge(cells, tables),
        "cells": cells,
        "table2": tables,
        "variants": {name: label for name, (label, _) in VARIANTS.items()},
        "hidden_units": chosen([(f.arguments, done[f.name]) for f in folds]),
        "inferred": [*([note] if note else []), *INFERRED],
        "settings": {**dataclasses.asdict(settings), "quick": quick, "seed": seed},
        "versions": versions(),
    }
    write(out, results)
    return results


def plan(settings: Settings, chosen_panels: list[Panel], seed: int) -> list[Part]:
    """Return the parts, one chain each. Chains of one method on one data set share a compilation."""
    parts: dict[str, Part] = {}
    for panel in chosen_panels:
        steps = panel.steps if settings.all_steps else panel.steps[-1:]
        chains = [(m, h, A, "") for m in PAPER for h in steps for A in settings.frictions]
        if settings.beyond:
            larger = [round(f * panel.steps[-1], 12) for f in FACTORS]
            chains += [(m, h, A, "") for m in BEYOND for h in larger for A in settings.beyond_frictions]
        if settings.variant_passes:
            small = min(settings.frictions)
            chains += [(m, panel.steps[-1], small, v) for m in ("SGNHT", "CCAdL") for v in VARIANTS]
        for method, step, friction, variant in chains:
            passes = settings.variant_passes if variant else settings.passes
            common: dict[str, Any] = {
                "data": panel.data,
                "method": method,
                "step_size": step,
                "friction": friction,
                "passes": passes,
                "seed": seed,
            }
            change = dict(VARIANTS[variant][1]) if variant else {}
            if "batch_size" in change:
                change["batch_size"] *= panel.batch_size
            name = f"{panel.data}-{method}-{step:g}-{friction:g}".replace(", ", "-").replace(" ", "-")
            name += f"--{variant}" if variant else ""
            parts[name] = Part(name, chain, common | change, float(passes), _cost(panel))
    return list(parts.values())


def folds_of(settings: Settings, chosen_panels: list[Panel], seed: int) -> list[Part]:
    """Return the parts of the cross-validation of hidden units."""
    return [
        Part(
            f"hidden-{panel.data}-{hidden}-{fold}",
            error_of_fold,
            {
                "data": panel.data,
                "hidden": hidden,
                "fold": fold,
                "folds": settings.folds,
                "passes": settings.cv_passes,
                "seed": seed,
            },
            settings.cv_passes * (1 - 1 / settings.folds),
            _cost(panel) * hidden / panel.hidden,
        )
        for panel in chosen_panels
        for hidden in HIDDEN
        for fold in range(settings.folds)
    ]


def _cost(panel: Panel) -> float:
    data = rows(panel.data)
    return len(data.y_train) * panel.hidden * data.num_classes / 1e6


def _table2(panel: Panel) -> dict[str, Any]:
    data = rows(panel.data)
    return {
        **dataclasses.asdict(panel),
        "train": len(data.y_train),
        "test": len(data.y_test),
        "features": data.x_train.shape[1],
        "classes": data.num_classes,
        "majority": majority(panel),
    }


def write(out: Path, results: dict[str, Any]) -> None:
    """Write the results, then the figures and the page, which depend on the results alone."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")
    settings = results["settings"]
    drawn = {
        "figure3-mean": draw_panels(results, PAPER, "mean_error", settings["frictions"]),
        "figure3-predictive": draw_panels(results, PAPER, "predictive_error", settings["frictions"]),
        "spread": draw_spread(results, PAPER, settings["frictions"]),
    }
    if settings["beyond"]:
        drawn["beyond"] = draw_panels(
            results, BEYOND, "predictive_error", settings["beyond_frictions"], factors=FACTORS
        )
    figures = {name: plots.save(figure, out / "figures" / f"{name}.png") for name, figure in drawn.items()}
    page = write_page(results, figures, paper=PAPER, beyond=BEYOND, factors=FACTORS)
    (out / "report.html").write_text(page, encoding="utf-8")
