"""The figure of docs/prediction.md: predictions inside and outside a gap in the data.

    python benchmarks/prediction_figure.py --out docs/figures

One input, 300 rows with a gap in the middle, a sum of 16 Gaussian bumps, unknown scale of the noise. Prints how
often outcomes of new rows fall into their intervals, outside the gap and everywhere. Needs the extra `plots`.
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso
from isotherm import plots
from isotherm.plots.style import BAND, MAIN, MUTED, tidy
from isotherm.prediction.record import Prediction

ROWS, NOISE, GAP = 300, 0.15, (-0.3, 0.9)
CENTRES, WIDTH = np.linspace(-2.5, 2.5, 16).astype(np.float32), 0.35
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def truth(x: np.ndarray) -> np.ndarray:
    """Return the true curve."""
    return np.sin(2.2 * x) + 0.3 * x


def rows(count: int, rng: np.random.Generator, *, everywhere: bool) -> dict[str, np.ndarray]:
    """Return inputs on [-2, 2], outside the gap unless `everywhere`, and their outcomes."""
    x = rng.uniform(-2, 2, size=10 * count)
    x = x[everywhere | (x < GAP[0]) | (x > GAP[1])][:count]
    return {"x": x.astype(np.float32), "y": (truth(x) + NOISE * rng.normal(size=count)).astype(np.float32)}


def curve(p: dict, x: jax.Array) -> jax.Array:
    """Return the expected outcome of each row."""
    return jnp.exp(-0.5 * ((x[:, None] - jnp.asarray(CENTRES)[None]) / WIDTH) ** 2) @ p["w"]


def log_likelihood(p: dict, batch: dict) -> jax.Array:
    """Return one value per row."""
    return -0.5 * ((batch["y"] - curve(p, batch["x"])) / p["sigma"]) ** 2 - jnp.log(p["sigma"])


def sampled(data: dict) -> iso.Draws:
    """Return draws of the untuned default, with normal priors on weights and an exponential prior on the noise."""
    posterior = iso.Posterior(
        log_likelihood,
        lambda p: -0.5 * jnp.sum(p["w"] ** 2) - p["sigma"],
        batched=True,
        transforms={"w": None, "sigma": iso.Positive()},
    )
    return iso.sample(posterior, data, {"w": jnp.zeros(len(CENTRES)), "sigma": 0.5}, progress=False)


def main() -> None:
    """Sample, predict, print the scores and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    out = parser.parse_args().out
    rng = np.random.default_rng(0)
    data = rows(ROWS, rng, everywhere=False)
    draws = sampled(data)
    print(draws.summary().verdict)
    outcome = lambda p, x, key: curve(p, x) + p["sigma"] * jax.random.normal(key, x.shape)
    for name, everywhere in (("outside the gap", False), ("everywhere", True)):
        new = rows(5000, rng, everywhere=everywhere)
        predicted = iso.predict(draws, outcome, new["x"], quantiles=LEVELS, observed=new["y"], seed=1)
        print(f"{name}: {iso.scores.regression(predicted, new['y'])}")
    x = np.linspace(-2, 2, 400).astype(np.float32)
    mean = iso.predict(draws, curve, x, quantiles=LEVELS)
    outcomes = iso.predict(draws, outcome, x, quantiles=LEVELS, seed=2)
    print(plots.save(draw(data, x, mean, outcomes), out / "prediction.png"))


def draw(data: dict, x: np.ndarray, mean: Prediction, outcomes: Prediction) -> object:
    """Return a figure of the rows, the expected outcome with its interval, and the interval of outcomes."""
    figure = plots.new_figure(8, 3.8)
    ax = figure.subplots()
    ax.fill_between(x, *outcomes.interval(0.9), color=BAND, lw=0)
    ax.fill_between(x, *mean.interval(0.9), color=MAIN, alpha=0.3, lw=0)
    ax.plot(x, mean.mean, color=MAIN, lw=1.8)
    ax.plot(x, truth(x), color="black", lw=1, ls=(0, (4, 2)))
    ax.plot(data["x"], data["y"], ".", color="black", ms=3.5, alpha=0.5, mew=0)
    ax.set(xlim=(-2, 2), xlabel="x", ylabel="y")
    ends = {"truth": (float(truth(x[-1:])[0]), "black"), "mean": (float(mean.mean[-1]), MAIN)}
    labels = sorted(ends.items(), key=lambda end: end[1][0])
    for i, (name, (y, color)) in enumerate(labels):
        shift = (2 * i - 1) * 5
        ax.annotate(
            name, (2, y), (4, shift), textcoords="offset points", color=color, va="center", fontsize=10
        )
    top = lambda at, prediction: float(np.interp(at, x, prediction.interval(0.9)[1]))
    note = {"textcoords": "offset points", "fontsize": 10}
    ax.annotate("90 % of outcomes", (1.25, top(1.25, outcomes)), (4, 4), color=MUTED, **note)
    ax.annotate("90 % for the mean", (0.1, top(0.1, mean)), (-8, 6), color=MAIN, ha="right", **note)
    tidy(ax)
    return figure


if __name__ == "__main__":
    main()
