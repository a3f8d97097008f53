"""How large may a step be? CCAdL with symmetric, Euler and midpoint schemes on whitened logistic regression.

    ISOTHERM_DATA_DIR=... python benchmarks/large_steps.py [--out DIR] [--quick] [--part steps] [--only "low rank"]

Part `steps`: MNIST 7 v 9 projected to 100 dimensions (N = 12,214), whitened by the Hessian at the mode, with plain
minibatches of 500 rows, compared with Hamiltonian Monte Carlo on all rows. Part `order`: the order of the bias in the
step, by regression, on a wavy potential with and without gradient noise.
"""

import argparse
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import chains
import isotherm as iso
import logistic
from isotherm.versions import versions

BATCH, FRICTION, CHAINS = 500, 1.0, 256


def samplers() -> dict[str, object]:
    """Return samplers by name, each as a function of the step."""
    A = FRICTION
    ccadl = lambda covariance, scheme: lambda h: iso.CCAdL(h, A, covariance=covariance, scheme=scheme)
    return {
        "CCAdL dense, symmetric": ccadl(iso.Dense(), "symmetric"),
        "CCAdL diagonal, symmetric": ccadl(iso.Diagonal(), "symmetric"),
        "CCAdL low rank 16, symmetric": ccadl(iso.DiagonalLowRank(rank=16), "symmetric"),
        "CCAdL matrix-free, symmetric": ccadl(iso.MatrixFree(), "symmetric"),
        "CCAdL dense, euler-midpoint": ccadl(iso.Dense(), "euler-midpoint"),
        "CCAdL dense, euler": ccadl(iso.Dense(), "euler"),
        "SGNHT, symmetric": lambda h: iso.SGNHT(h, A, scheme="symmetric"),
        "modified CCAdL": lambda h: iso.ModifiedCCAdL(h, A),
    }


def large_steps(quick: bool, only: str) -> list[dict]:
    """Return one row per sampler and s: variance error overall and in the worst direction, mean error, xi."""
    problem = logistic.problem(whitened=True)
    draws = logistic.reference(problem, chains=CHAINS, draws=50 if quick else 1000)
    mean, variance = draws.mean(axis=(0, 1)), draws.var(axis=(0, 1))
    # Monte Carlo error of the reference, from the spread between its chains.
    error = ((draws - mean) ** 2).mean(axis=1).std(axis=0, ddof=1) / CHAINS**0.5 / variance
    mean_error = draws.mean(axis=1).std(axis=0, ddof=1) / CHAINS**0.5 / np.sqrt(variance)
    overall = float(np.sqrt(np.sum(error**2)) / len(error))
    print(
        f"reference: standard error of the variance {overall:.4f} overall, {error.max():.4f} in the worst direction"
    )
    starts, gradient = jnp.asarray(draws[:, -1], jnp.float32), iso.Minibatch(problem.posterior)
    rows = []
    for name, make in samplers().items():
        if only not in name:
            continue
        default_s = (0.06, 0.25, 1.0) if "euler" in name else (0.25, 1.0, 4.0)
        for s in (0.06, 0.25, 1.0, 4.0, 10.0, 320.0) if name == "CCAdL dense, symmetric" else default_s:
            h = logistic.step_for(problem, s, BATCH)
            kernel = iso.extend.Kernel(make(h), gradient, len(problem.y), BATCH)
            steps = 1_000 if quick else 12_000
            m = chains.run(kernel, problem.data, starts, burn_in=steps // 5, steps=steps)
            row = {"method": name, "s": s, "step_size": h, "steps": steps, "finite": m.finite}
            if m.finite:
                ratio, spread = m.variance_ratio(variance)
                spread = np.hypot(spread, error)
                offset = (m.mean.mean(axis=0) - mean) / np.sqrt(variance)
                chain_error = m.mean.std(axis=0, ddof=1) / CHAINS**0.5 / np.sqrt(variance)
                offset_error = np.hypot(chain_error, mean_error)
                worst = int(np.argmax(np.abs(ratio - 1)))
                row |= {
                    "variance_error": float(np.mean(ratio) - 1),
                    "variance_mc_error": float(np.sqrt(np.sum(spread**2)) / len(spread)),
                    "worst_direction": float(ratio[worst] - 1),
                    "worst_mc_error": float(spread[worst]),
                    "mean_rms": float(np.sqrt(np.mean(offset**2))),
                    "mean_rms_by_chance": float(np.sqrt(np.mean(offset_error**2))),
                    "mean_chi2": float(np.mean((offset / offset_error) ** 2)),
                    "xi_over_A": float(np.mean(m.xi) / FRICTION),
                    "kinetic": float(np.mean(m.kinetic)),
                }
            rows.append(row)
            print(
                json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}),
                flush=True,
            )
    return rows


class Wavy(iso.extend.Gradient):
    """U = theta^2/2 - 0.4 cos(2 theta) with exact gradients, or with white noise of variance `noise`."""

    noise: float

    all_rows = False

    def __call__(self, position, batch, *, needs, key):  # noqa: D102
        del batch, needs
        scale = jnp.sqrt(self.noise)
        force = -position - 0.8 * jnp.sin(2 * position) + scale * jax.random.normal(key, position.shape)
        return iso.extend.GradientEstimate(force, scale * jnp.ones((1, *position.shape)), jnp.zeros(()))


def order(noise: float, friction: float, quick: bool) -> dict:
    """Return the slope of log |bias of E theta^2| against log h for symmetric CCAdL, by weighted least squares."""
    grid = np.linspace(-8, 8, 200_001)
    density = np.exp(-(grid**2) / 2 + 0.4 * np.cos(2 * grid))
    exact = float(np.sum(grid**2 * density) / np.sum(density))
    points = []
    for h in (0.2, 0.25, 0.3, 0.35, 0.4, 0.5):
        sampler = iso.CCAdL(
            h, friction, covariance=iso.Diagonal("exact"), scheme="symmetric", thermal_mass=1e6
        )
        kernel = iso.extend.Kernel(sampler, Wavy(noise), 1, 1)
        count, steps = (2**12, 2_000) if quick else (2**17, 40_000)
        starts = jax.random.normal(jax.random.key(1), (count, 1)) * exact**0.5
        m = chains.run(kernel, jnp.zeros((1, 1)), starts, burn_in=200, steps=steps, every=2)
        bias, error = m.square.mean() / exact - 1, m.square.std(ddof=1) / np.sqrt(count) / exact
        points.append({"h": h, "bias": float(bias), "mc_error": float(error)})
        print(noise, friction, points[-1], flush=True)
    h, b, e = (np.array([p[k] for p in points]) for k in ("h", "bias", "mc_error"))
    significant = np.abs(b) > 5 * e
    slope = slope_error = float("nan")
    if significant.sum() >= 2:
        weights = np.abs(b[significant]) / e[significant]
        log_h, log_bias = np.log(h[significant]), np.log(np.abs(b[significant]))
        fit, cov = np.polyfit(log_h, log_bias, 1, w=weights, cov="unscaled")
        slope, slope_error = float(fit[0]), float(np.sqrt(cov[0, 0]))
    print(
        f"noise {noise}, A {friction}: order {slope:.2f} +- {slope_error:.2f} from {significant.sum()} steps",
        flush=True,
    )
    return {
        "noise": noise,
        "friction": friction,
        "points": points,
        "order": slope,
        "order_error": slope_error,
    }


def orders(quick: bool, only: str) -> list[dict]:
    """Return the orders for exact gradients at weak and strong friction, and for noisy gradients."""
    return (
        []
        if only
        else [order(noise, friction, quick) for noise, friction in ((0.0, 1.0), (0.0, 10.0), (4.0, 1.0))]
    )


def main() -> None:
    """Run both parts and write steps.json and order.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/large-steps"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--part", choices=("steps", "order"), help="run only this part")
    parser.add_argument("--only", default="", help="run only samplers whose name contains this")
    options = parser.parse_args()
    jax.config.update("jax_default_matmul_precision", "highest")
    options.out.mkdir(parents=True, exist_ok=True)
    parts = {"steps": large_steps, "order": orders}
    for name, part in parts.items():
        if options.part in (None, name):
            result = {"rows": part(options.quick, options.only), "versions": versions()}
            # A partial run does not overwrite the full table.
            file = f"{name}-only.json" if options.only else f"{name}.json"
            (options.out / file).write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
