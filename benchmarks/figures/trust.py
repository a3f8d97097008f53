"""The figure of docs/trust.md: a run that is right beside two that are wrong, and what each says of itself.

    python benchmarks/figures/trust.py --out docs/figures

Linear regression on 2,000 rows with seven parameters, whose posterior is known exactly, from minibatches of 50 rows.
Prints the verdict of `draws.summary()` and of `iso.diagnose` on each run, and the figures in the picture. Takes about
a minute; needs the extra `plots`.
"""

import argparse
import dataclasses
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

import isotherm as iso
from isotherm import plots
from isotherm.judging.diagnosis import Diagnosis
from isotherm.plots.style import BAND, EXACT, METHODS, MUTED, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROWS, COLUMNS, BATCH = 2000, 6, 50
TOLERANCE = 0.1  # of the temperature of one direction, beyond which `iso.diagnose` calls it a fault
RADIUS = np.sqrt(
    -2 * np.log(0.05)
)  # of the circle that holds 95 % of a standard normal distribution in the plane
DOTS, REACH = 1500, 5.2  # draws shown, and how far the axes reach


@dataclasses.dataclass(frozen=True)
class Problem:
    """A regression without a scale, so that its posterior is N(mode, covariance)."""

    posterior: iso.Posterior
    data: dict[str, np.ndarray]
    mode: np.ndarray
    covariance: np.ndarray

    def step(self, s: float) -> float:
        """The step at which s, the largest eigenvalue of h^2 C, is about this: C is N / n times the curvature."""
        return float(np.sqrt(s * BATCH / ROWS * np.linalg.eigvalsh(self.covariance)[0]))


def problem() -> Problem:
    """Correlated columns and an intercept: that of tests/judging/test_diagnosis.py."""
    rng = np.random.default_rng(0)
    mixing = np.linalg.cholesky(0.4 * np.eye(COLUMNS) + 0.6)
    x = np.column_stack([np.ones(ROWS), rng.normal(size=(ROWS, COLUMNS)) @ mixing]).astype(np.float32)
    y = (x[:, 1:] @ rng.normal(size=COLUMNS) + rng.normal(size=ROWS)).astype(np.float32)
    posterior = iso.Posterior(
        lambda w, rows: -0.5 * (rows["y"] - rows["x"] @ w) ** 2, lambda w: -0.5 * jnp.sum(w**2), batched=True
    )
    design = x.astype(np.float64)
    covariance = np.linalg.inv(design.T @ design + np.eye(COLUMNS + 1))
    return Problem(posterior, {"x": x, "y": y}, covariance @ design.T @ y, covariance)


def samplers(p: Problem) -> dict[str, tuple[float, str, iso.extend.Sampler]]:
    """The three runs by title: s, the method whose colour is used, and the sampler."""
    dense = iso.Dense()
    right = iso.CCAdL(p.step(0.2), 20.0, covariance=dense, scheme="symmetric", thermal_mass=100.0)
    return {
        "Right": (0.2, "CCAdL", right),
        "Step too long": (1.2, "SGHMC", iso.CCAdL(p.step(1.2), 20.0, covariance=dense, thermal_mass=1.0)),
        "Noise not controlled": (0.05, "SGNHT", iso.SGNHT(p.step(0.05), 10.0, thermal_mass=1.0)),
    }


def main() -> None:
    """Sample, diagnose, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    out = parser.parse_args().out
    p, runs = problem(), {}
    for name, (s, style, sampler) in samplers(p).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", iso.IsothermWarning)
            draws = iso.sample(
                p.posterior,
                p.data,
                jnp.asarray(p.mode, jnp.float32),
                sampler=sampler,
                batch_size=BATCH,
                burn_in=20_000,
                num_draws=2000,
                thinning=60,
                progress=False,
            )
        diagnosis = iso.diagnose(draws, progress=False)
        scheme = {"euler": "Euler"}.get(sampler.scheme, sampler.scheme)
        setting = f"{type(sampler).__name__}, {scheme} scheme, s = {s:g}"
        runs[name] = (setting, METHODS[style].color, draws, diagnosis)
        heat = diagnosis.heat
        print(f"\n{name}: {setting}, h = {float(sampler.step_size):.3g}")
        print(f"kinetic temperature {diagnosis.summary.kinetic_temperature:.4f}")
        print("summary: ", diagnosis.summary.verdict)
        print("diagnose:", diagnosis.verdict)
        print("directions:", np.round(1 + heat.directions.value, 3), "±", np.round(heat.directions.error, 3))
        print("variances over the right ones, by direction:", np.round(_ratios(p, draws), 2))
    print(plots.save(draw(p, runs), out / "trust.png"))


def _ratios(p: Problem, draws: iso.Draws) -> np.ndarray:
    values, vectors = np.linalg.eigh(p.covariance)
    return (draws.posterior.astype(np.float64) @ vectors).var(axis=(0, 1)) / values


def draw(p: Problem, runs: dict) -> "Figure":
    """Above, the draws beside the exact posterior; below, the temperatures."""
    figure = plots.new_figure(10, 6.6)
    axes = figure.subplots(2, 3, sharey="row", height_ratios=(1.25, 1))
    for (top, bottom), (name, (setting, color, draws, diagnosis)) in zip(axes.T, runs.items(), strict=True):
        _draws(top, p, draws, color)
        top.set_title(name, loc="left", fontsize=12, color=color, fontweight="bold", pad=36)
        verdict = "No fault found" if diagnosis.ok else "Do not trust these draws yet"
        beside = {"xytext": (0, 6), "textcoords": "offset points", "fontsize": 10, "va": "bottom"}
        top.annotate(f"{setting}\n“{verdict}”", (0, 1), xycoords="axes fraction", **beside)
        _temperatures(bottom, diagnosis, color)
    axes[0, 0].annotate(
        "black: exact, 95 %\ncolour: the draws",
        (0.02, 0.98),
        xycoords="axes fraction",
        va="top",
        fontsize=9,
        color=MUTED,
    )
    axes[1, 2].annotate("too hot", (2, 3.1), (10, 0), textcoords="offset points", va="center", fontsize=9)
    axes[1, 2].annotate("too cold", (5.5, 0.75), ha="center", va="bottom", fontsize=9)
    axes[0, 0].set_ylabel("noisiest direction, sd")
    axes[1, 0].set_ylabel("temperature (1 is right)")
    return figure


def _draws(ax: "Axes", p: Problem, draws: iso.Draws, color: str) -> None:
    """Draws along the axes of the posterior with the largest and the least gradient noise, in exact sd."""
    values, vectors = np.linalg.eigh(p.covariance)
    z = (draws.posterior.reshape(-1, COLUMNS + 1).astype(np.float64) - p.mode) @ vectors / np.sqrt(values)
    pair = z[:, [-1, 0]]
    circle = RADIUS * np.stack([f(np.linspace(0, 2 * np.pi, 200)) for f in (np.cos, np.sin)])
    ellipse = pair.mean(axis=0)[:, None] + np.linalg.cholesky(np.cov(pair.T)) @ circle
    some = pair[:: max(1, len(pair) // DOTS)]
    ax.plot(*some.T, ".", color=color, ms=3, alpha=0.3, mew=0, rasterized=True)
    ax.plot(*ellipse, color=color, lw=1.8)
    ax.plot(*circle, color=EXACT.color, lw=1.2)
    ax.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), xlabel="least noisy direction, sd")
    ax.set_aspect("equal")
    tidy(ax)


def _temperatures(ax: "Axes", diagnosis: Diagnosis, color: str) -> None:
    """The kinetic temperature, and that of each of the leading directions of the noise, with two standard errors."""
    found = diagnosis.heat.directions
    at = np.arange(len(found.value)) + 2
    ax.axhspan(1 - TOLERANCE, 1 + TOLERANCE, color=BAND, lw=0)
    ax.axhline(1, color=EXACT.color, lw=0.8)
    ax.plot(0, diagnosis.summary.kinetic_temperature, "D", color=MUTED, ms=6)
    ax.errorbar(at, 1 + found.value, 2 * found.error, fmt="o", color=color, ms=5, lw=1.2)
    ax.set(yscale="log", ylim=(0.5, 4), xlim=(-0.7, at[-1] + 0.7), xlabel="directions, noisiest first")
    ax.set_yticks((0.5, 0.7, 1, 1.5, 2, 3, 4), ("0.5", "0.7", "1", "1.5", "2", "3", "4"))
    ax.set_yticks([], minor=True)
    ax.set_xticks([0, *at], ["kinetic", *(str(i + 1) for i in range(len(at)))])
    tidy(ax)


if __name__ == "__main__":
    main()
