"""The figure of docs/tuning.md: what the warm-up does to a posterior, on a real run.

    python benchmarks/figures/tuning.py --out docs/figures

A rare event against age and a condition that one row in 500 has: logistic regression on 50,000 rows. Prints the
settings that the warm-up chose, the figures in the picture and the verdict on the run. Takes about half a minute;
needs the extra `plots`.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso
from isotherm import plots
from isotherm.plots.style import BAND, CHAINS, MAIN, MUTED, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROWS = 50_000
PLACES, BATCHES = 64, 500  # draws at which the gradient noise is measured, and batches at each
AIM = 0.15  # the s that the warm-up aims at with control variates
RADIUS = np.sqrt(
    -2 * np.log(0.05)
)  # of the circle that holds 95 % of a standard normal distribution in the plane


def problem() -> tuple[iso.Posterior, dict[str, np.ndarray]]:
    """Logistic regression of an event that about 2 % of the rows have."""
    rng = np.random.default_rng(0)
    age, condition = rng.uniform(20, 80, size=ROWS), rng.random(ROWS) < 1 / 500
    y = rng.random(ROWS) < 1 / (1 + np.exp(6.5 - 0.05 * age - 2.0 * condition))

    def log_likelihood(p: dict, row: dict) -> jax.Array:
        logit = p["intercept"] + p["slope"] * row["age"] + p["condition"] * row["condition"]
        return jax.nn.log_sigmoid((2 * row["y"] - 1) * logit)

    posterior = iso.Posterior(
        log_likelihood,
        lambda p: -0.5 * ((p["intercept"] / 10) ** 2 + p["slope"] ** 2 + (p["condition"] / 10) ** 2),
    )
    columns = {"age": age, "condition": condition, "y": y}
    return posterior, {name: column.astype(np.float32) for name, column in columns.items()}


def noise(kernel: iso.extend.Kernel, data: dict, places: dict) -> float:
    """s of this kernel: the largest eigenvalue of h^2 times the covariance of the force, averaged over `places`."""

    @eqx.filter_jit
    def covariance(v: dict, key: jax.Array) -> jax.Array:
        def force(key: jax.Array) -> jax.Array:
            keys = jax.random.split(key, 3)
            batch = kernel.batch(data, jnp.zeros((), jnp.int32), key=keys[0], chain_key=keys[1])
            estimate = kernel.estimate(v, batch, needs=iso.extend.Needs(), key=keys[2])
            return jnp.stack(jax.tree.leaves(estimate.force))

        return jnp.cov(jax.vmap(force)(jax.random.split(key, BATCHES)).T)

    keys = jax.random.split(jax.random.key(1), PLACES)
    C = jax.lax.map(lambda x: covariance(*x), (places, keys)).mean(axis=0)
    return float(kernel.sampler.step_size) ** 2 * float(np.linalg.eigvalsh(np.asarray(C, np.float64))[-1])


def main() -> None:
    """Tune, sample, measure, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    out = parser.parse_args().out
    posterior, data = problem()
    init = {name: jnp.zeros(()) for name in ("intercept", "slope", "condition")}
    tuned = iso.warmup(posterior, data, init, progress=False)
    print(tuned)
    draws = iso.sample(posterior, data, tuned, progress=False)
    print(draws.summary())
    theta = {name: jnp.asarray(x.reshape(-1)) for name, x in draws.posterior.items()}
    v = jax.vmap(tuned.preconditioner.from_params)(theta)
    places = jax.tree.map(lambda x: x[:: len(x) // PLACES][:PLACES], v)
    rows = jax.tree.map(jnp.asarray, data)
    mode = tuned.preconditioner.center
    plans = {
        "plain minibatch": (iso.Minibatch(posterior), iso.WithReplacement()),
        "control variate,\norder 1": (iso.ControlVariate(posterior, order=1), iso.WithReplacement()),
        "control variate,\norder 2": (iso.ControlVariate(posterior, order=2), iso.WithReplacement()),
        "order 2 and\nweighted rows": (tuned.gradient, tuned.minibatch),
    }
    found = {}
    for name, (gradient, plan) in plans.items():
        if isinstance(gradient, iso.ControlVariate):
            gradient = gradient.bound(posterior, rows, mode)
        kernel = iso.extend.Kernel(
            tuned.sampler, gradient, ROWS, tuned.batch_size, plan, tuned.preconditioner
        )
        found[name] = noise(kernel, rows, places)
        print(f"s, {name!r}: {found[name]:.3g}")
    print(
        plots.save(
            draw(theta, v, found, tuned.preconditioner, tuned.batch_size, float(tuned.sampler.step_size)),
            out / "tuning.png",
        )
    )


def draw(
    theta: dict,
    v: dict,
    noises: dict[str, float],
    preconditioner: iso.DensePreconditioner,
    batch_size: int,
    h: float,
) -> "Figure":
    """Draws before and after the change of coordinates, and the noise of four gradients."""
    figure = plots.new_figure(11.5, 3.9)
    raw, round_, bars = figure.subplots(1, 3)
    x, y = (np.asarray(theta[name], np.float64) for name in ("intercept", "slope"))
    axes = np.sqrt(np.linalg.eigvalsh(np.cov(x, y)))
    print(f"raw coordinates: correlation {np.corrcoef(x, y)[0, 1]:.3f}, axes {axes[1] / axes[0]:,.0f} to 1")
    circle = RADIUS * np.stack([f(np.linspace(0, 2 * np.pi, 200)) for f in (np.cos, np.sin)])
    center, root = preconditioner.center, np.asarray(preconditioner.root, np.float64)
    normal = np.linalg.cholesky(
        (root @ root.T)[1:, 1:]
    )  # leaves are in the order condition, intercept, slope
    ellipse = np.array([[float(center["intercept"])], [float(center["slope"])]]) + normal @ circle
    _cloud(raw, (x, y), (ellipse[0], ellipse[1]))
    raw.set(xlabel="intercept", ylabel="slope per year of age")
    raw.set_title("1  The posterior as you wrote it", loc="left", fontsize=11)
    longest = f"longest axis {axes[1] / axes[0]:,.0f} times the shortest"
    _note(raw, f"correlation −{abs(np.corrcoef(x, y)[0, 1]):.2f};\n{longest}\nblack: normal, 95 %")
    _cloud(round_, (np.asarray(v["intercept"]), np.asarray(v["slope"])), (circle[0], circle[1]))
    round_.set(xlabel="v₁", ylabel="v₂", xlim=(-4.6, 4.6), ylim=(-4.3, 4.9))
    round_.set_xticks(range(-4, 5, 2))
    round_.set_yticks(range(-4, 5, 2))
    round_.set_title("2  Coordinates in which the chains move", loc="left", fontsize=11)
    _note(round_, "scaled by the Hessian at the mode:\none step suits every direction")
    round_.plot([-4, -4 + h], [-3.9, -3.9], color="black", lw=2.5, solid_capstyle="butt")
    round_.annotate(
        f"step, {h:.2g} sd", (-4 + h, -3.9), (5, 0), textcoords="offset points", va="center", fontsize=9
    )
    _bars(bars, noises)
    bars.set_title(f"3  Gradient noise, {batch_size} rows a step", loc="left", fontsize=11)
    return figure


def _cloud(ax: "Axes", dots: tuple, ellipse: tuple) -> None:
    ax.plot(*dots, ".", color=MAIN, ms=3, alpha=0.25, mew=0, rasterized=True)
    ax.plot(*ellipse, color="black", lw=1.2)
    ax.set_box_aspect(1)
    tidy(ax)


def _note(ax: "Axes", text: str) -> None:
    ax.annotate(
        text, (1, 1), (0, -2), "axes fraction", "offset points", ha="right", va="top", fontsize=9, color=MUTED
    )


def _bars(ax: "Axes", noises: dict[str, float]) -> None:
    """Bars from the same small number, since the axis is logarithmic."""
    names, values = list(noises), list(noises.values())
    least = 10 ** np.floor(np.log10(min(values)) - 0.5)
    at = np.arange(len(names))[::-1]
    ax.axvspan(least, AIM, color=BAND, lw=0, zorder=0)
    colors = [MUTED, MUTED, MUTED, CHAINS[2]]
    ax.barh(at, np.asarray(values) - least, left=least, color=colors, height=0.55, zorder=2)
    for place, value in zip(at, values, strict=True):
        ax.annotate(
            f"{float(f'{value:.2g}'):,g}",
            (value, place),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    ax.set(xscale="log", xlim=(least, 30 * max(values)), ylim=(-0.6, len(names) - 0.1))
    ax.set_yticks(at, names, fontsize=9)
    ax.annotate(
        f"aim: s < {AIM:g}",
        (AIM, len(names) - 0.2),
        (-4, 0),
        "data",
        "offset points",
        ha="right",
        va="top",
        fontsize=9,
        color=MUTED,
    )
    ax.set_xlabel("s, the noise of one step (log scale)")
    ax.set_box_aspect(1)
    tidy(ax)
    ax.tick_params(axis="y", length=0)


if __name__ == "__main__":
    main()
