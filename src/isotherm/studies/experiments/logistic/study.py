"""Section 4.2 of the CCAdL paper: logistic regression on MNIST 7 v 9, Figure 2, and larger steps.

`Settings` holds the sizes; `INFERRED` lists what the paper leaves open and what we chose.
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
FRICTION = 10.0  # for the marginals

INFERRED = (
    "Pixels are divided by 255 and multiplied by an unscaled 784 x 100 matrix of independent N(0, 1) numbers: of the "
    "scalings tried, this is the one at which the paper's steps behave as the paper says.",
    "Chains start at w = 0, and the running mean includes every step. The text gives no value of A other than 10.",
    'SGHMC is run with its noise estimate off ("SGHMC") and on, with the same dense covariance as CCAdL '
    '("SGHMC, corrected"). The noise to be added is clipped where it would need a negative variance.',
    "The burn-in of the marginals is chosen by a pilot run. It ends at twice the time at which the test "
    "log-likelihood of the current sample first reaches the level (mean minus one standard deviation) of the second "
    "half of the pilot run. If the third and fourth quarters of the pilot run differ by more than half a standard "
    "deviation, its length is doubled.",
    "The reference is Hamiltonian Monte Carlo with all rows in every step, eight leapfrog steps per draw, in the "
    "metric of the Hessian at the mode. Its starting points are spread around the mode with twice the posterior "
    "standard deviation.",
    "Dimensions 2 and 5 are counted from 1. They depend on the projection matrix, which is not published.",
    "Batches are drawn with replacement, for which the paper's noise covariance is exact.",
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Size of the experiment.

    - `chains`, `passes`: chains and passes of each convergence curve.
    - `samples`, `corrected_samples`, `beyond_samples`: samples after burn-in of a marginal in the paper's panels, of
      "SGHMC, corrected" (which needs an eigendecomposition in every step), and in the panels beyond the paper.
    - `thinning`, `pilot`: steps between kept samples, and steps of the first pilot run.
    - `runs`, `draws`: runs of the reference and draws in each.
    - `paper`, `steps`: methods and step sizes of the paper's panels; `beyond`, `larger`: those of the panels
      beyond the paper.
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
    """Run the experiment, write `results.json`, `figures/` and `report.html` under `out`, and return the results."""
    plots.require_matplotlib()
    settings = (QUICK if quick else FULL) if settings is None else settings
    parts = plan(settings, seed)
    done = compute(parts, out / "parts", title="logistic", console=console)
    truth = done["reference"]
    by_kind = {"convergence": [], "marginal": []}
    for part in parts:
        kind = part.name.split("-")[0]
        if kind in by_kind:
            by_kind[kind].append((part.arguments, done[part.name]))
    curves = [
        row for arguments, result in by_kind["convergence"] for row in converged(arguments, result, truth)
    ]
    marginals = [distribution(arguments, result, truth) for arguments, result in by_kind["marginal"]]
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
    """Return the parts, without duplicates. Panels of one method share a compilation and differ in numbers only."""
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
        common: dict[str, Any] = {"method": method, "step_size": step, "seed": seed}
        curve = common | {"frictions": list(FRICTIONS), "chains": s.chains, "passes": s.passes}
        passes = float(len(FRICTIONS) * s.chains * s.passes)
        samples = s.samples if step in s.steps and method in s.paper else s.beyond_samples
        samples = s.corrected_samples if method == "SGHMC, corrected" else samples
        size = {
            "friction": FRICTION,
            "chain": 0,
            "num_samples": samples,
            "thinning": s.thinning,
            "pilot": s.pilot,
        }
        marginal_passes = (samples + 2 * s.pilot) * BATCH_SIZE / num_data
        parts[f"c {name}"] = Part(f"convergence-{name}", convergence, curve, passes, cost)
        parts[f"m {name}"] = Part(f"marginal-{name}", marginal, common | size, marginal_passes, cost)
    return list(parts.values())


def write(out: Path, results: dict[str, Any]) -> None:
    """Write the results, then the figures and the page, which depend on the results alone."""
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
