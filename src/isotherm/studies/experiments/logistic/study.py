"""Section 4.2 of the CCAdL paper: logistic regression on MNIST's sevens and nines, Figure 2, and beyond it.

`Settings` holds the sizes; `INFERRED` says what the paper leaves open and how it was settled.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from isotherm import plots
from isotherm.studies.experiments.gaussian.study import versions
from isotherm.studies.experiments.logistic.claims import judge
from isotherm.studies.experiments.logistic.figures import draw_convergence, draw_marginals
from isotherm.studies.experiments.logistic.problem import DIMENSION, largest_noise, problem, reference
from isotherm.studies.experiments.logistic.report import show as show
from isotherm.studies.experiments.logistic.report import write_page
from isotherm.studies.experiments.logistic.runs import BATCH_SIZE, COSTS, convergence, marginal
from isotherm.studies.experiments.logistic.table import converged, distribution
from isotherm.studies.experiments.parts import Part, compute

PAPER = ("SGHMC", "SGHMC, corrected", "SGNHT", "CCAdL")
BEYOND = ("SGNHT", "CCAdL", "CCAdL symmetric", "CCAdL symmetric, low rank", "CCAdL symmetric, matrix-free")
STEPS = (0.2e-4, 0.5e-4, 1e-4)
LARGER = (1e-4, 3e-4, 1e-3)
FRICTIONS = (1.0, 10.0, 50.0)
FRICTION = 10.0  # of the marginals

INFERRED = (
    "Pixels are divided by 255 and multiplied by a matrix of independent N(0, 1) numbers, 784 x 100, unscaled: of "
    "the scalings tried, the one at which the paper's steps behave as the paper says.",
    "Chains start at w = 0; the mean runs from the first step on. Values of A other than 10 are not in the text.",
    'SGHMC is run with its noise estimate off, which is "SGHMC", and on, with the same dense covariance as CCAdL, '
    'which is "SGHMC, corrected". Where the noise to be added would need a negative variance it is clipped.',
    "Burn-in of the marginals ends at twice the time at which the test log-likelihood of the current sample first "
    "reaches the level (mean less one standard deviation) of the second half of a pilot run, whose third and fourth "
    "quarter must agree within half a standard deviation; else the pilot is doubled.",
    "The reference is Hamiltonian Monte Carlo with all rows in every step, eight leaps, in the metric of the Hessian "
    "at the mode; its runs start two standard deviations from it.",
    "Dimensions 2 and 5 are counted from 1. They depend on the projection, which is not published.",
    "Batches are drawn with replacement, for which the paper's noise covariance is exact.",
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Size of the experiment.

    - `chains`, `passes`: of each curve of convergence.
    - `samples`, `corrected_samples`, `beyond_samples`: after burn-in, of a marginal in the paper's panels, of
      "SGHMC, corrected" (an eigendecomposition in every step) and beyond the paper.
    - `thinning`, `pilot`: steps between kept samples, steps of the first pilot run.
    - `runs`, `draws`: of the reference.
    - `paper`, `steps`, `beyond`, `larger`: methods and steps of the paper's panels and of those beyond them.
    """

    chains: int = 5
    passes: int = 200
    samples: int = 1_000_000
    corrected_samples: int = 50_000
    beyond_samples: int = 100_000
    thinning: int = 50
    pilot: int = 20_000
    runs: int = 10
    draws: int = 2_000
    paper: tuple[str, ...] = PAPER
    steps: tuple[float, ...] = STEPS
    beyond: tuple[str, ...] = BEYOND
    larger: tuple[float, ...] = LARGER


FULL = Settings()
QUICK = Settings(
    chains=2,
    passes=50,
    samples=20_000,
    corrected_samples=4_000,
    beyond_samples=10_000,
    thinning=10,
    pilot=2_000,
    draws=300,
    paper=("SGHMC", "SGNHT", "CCAdL"),
    steps=(STEPS[0], STEPS[-1]),
    beyond=("SGNHT", "CCAdL", "CCAdL symmetric"),
    larger=(LARGER[0], LARGER[-1]),
)


def reproduce(
    out: Path, *, quick: bool, seed: int, console: Console, settings: Settings | None = None
) -> dict[str, Any]:
    """Run the experiment; write `results.json`, `figures/` and `report.html` under `out`."""
    plots.require_matplotlib()
    settings = (QUICK if quick else FULL) if settings is None else settings
    parts = plan(settings, seed)
    done = compute(parts, out / "parts", title="logistic", console=console)
    truth = done["reference"]
    of = {"convergence": [], "marginal": []}
    for part in parts:
        kind = part.name.split("-")[0]
        if kind in of:
            of[kind].append((part.arguments, done[part.name]))
    curves = [row for arguments, result in of["convergence"] for row in converged(arguments, result, truth)]
    marginals = [distribution(arguments, result, truth) for arguments, result in of["marginal"]]
    noise = largest_noise(problem(seed), BATCH_SIZE)
    results = {
        "experiment": "logistic",
        "claims": judge(curves, marginals, truth, settings.steps, FRICTIONS),
        "convergence": curves,
        "marginals": marginals,
        "reference": {k: v for k, v in truth.items() if k not in ("mean", "covariance")} | _shown(truth),
        "s": {f"{h:g}": h * h * noise for h in sorted({*settings.steps, *settings.larger})},
        "inferred": list(INFERRED),
        "settings": {**dataclasses.asdict(settings), "quick": quick, "seed": seed, "batch_size": BATCH_SIZE},
        "versions": versions(),
    }
    write(out, results)
    return results


def plan(settings: Settings, seed: int) -> list[Part]:
    """All parts, each once. The numbers of a method differ between panels and its program does not."""
    s, num_data = settings, len(problem(seed).y)
    runs_cost = s.runs * s.draws * 8.0
    parts = {
        "reference": Part("reference", reference, {"runs": s.runs, "draws": s.draws, "seed": seed}, runs_cost)
    }
    for method, step in [(m, h) for m in s.paper for h in s.steps] + [
        (m, h) for m in s.beyond for h in s.larger
    ]:
        name = f"{method} {step:g}".replace(",", "").replace(" ", "-")
        cost = float(COSTS.get(method, 2))
        own: dict[str, Any] = {"method": method, "step_size": step, "seed": seed}
        curve = own | {"frictions": list(FRICTIONS), "chains": s.chains, "passes": s.passes}
        passes = float(len(FRICTIONS) * s.chains * s.passes)
        samples = s.samples if step in s.steps and method in s.paper else s.beyond_samples
        samples = s.corrected_samples if method == "SGHMC, corrected" else samples
        shape = {
            "friction": FRICTION,
            "chain": 0,
            "num_samples": samples,
            "thinning": s.thinning,
            "pilot": s.pilot,
        }
        long = (samples + 2 * s.pilot) * BATCH_SIZE / num_data
        parts[f"c {name}"] = Part(f"convergence-{name}", convergence, curve, passes, cost)
        parts[f"m {name}"] = Part(f"marginal-{name}", marginal, own | shape, long, cost)
    return list(parts.values())


def write(out: Path, results: dict[str, Any]) -> None:
    """The record, then the figures and the page, which are functions of the record alone."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")
    s = results["settings"]
    drawn = {
        "figure2-convergence": draw_convergence(results, s["paper"], s["steps"], FRICTIONS),
        "figure2-marginals": draw_marginals(results, s["paper"], s["steps"]),
        "beyond-convergence": draw_convergence(results, s["beyond"], s["larger"], FRICTIONS),
        "beyond-marginals": draw_marginals(results, s["beyond"], s["larger"]),
    }
    figures = {name: plots.save(figure, out / "figures" / f"{name}.png") for name, figure in drawn.items()}
    page = write_page(
        results,
        figures,
        paper=(s["paper"], s["steps"]),
        beyond=(s["beyond"], s["larger"]),
        frictions=FRICTIONS,
    )
    (out / "report.html").write_text(page, encoding="utf-8")


def _shown(truth: dict[str, Any]) -> dict[str, Any]:
    from isotherm.studies.experiments.logistic.table import shown

    mean, covariance = shown(truth["mean"], truth["covariance"])
    return {"mean": mean, "covariance": covariance, "dimension": DIMENSION}
