"""Does covariance control work? Temperatures by direction under anisotropic gradient noise.

    ISOTHERM_DATA_DIR=... python benchmarks/control.py [--out DIR] [--quick] [--part many] [--only "rank"]

Part `many`: 1000 parameters under anisotropic noise with tr(S) = 50 and three spectra, for ranks from 0 (the
diagonal alone) to 128. Part `mnist`: MNIST 7 v 9 logistic regression without whitening (100 dimensions, condition
number 3,400), comparing the covariance of the samples with that of Hamiltonian Monte Carlo.
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

D, TRACE, H, A = 1000, 50.0, 0.2, 1.0
SPECTRA = {
    "1/i": 1 / np.arange(1, D + 1),
    "exp(-i/10)": np.exp(-np.arange(D) / 10),
    "40 equal": np.r_[np.ones(40), np.full(D - 40, 0.01)],
}


class Anisotropic(iso.extend.Gradient):
    """U = |theta|^2/2 with white noise of covariance R R', R = `root`. Contrasts are independent, same covariance."""

    root: jax.Array

    all_rows = False

    def __call__(self, position, batch, *, needs, key):  # noqa: D102
        del batch
        count = 0 if needs.contrasts == "exact" else needs.contrasts
        noise = jax.random.normal(key, (1 + count, position.size)) @ self.root.T
        return iso.extend.GradientEstimate(noise[0] - position, noise[1:] if count else None, jnp.zeros(()))


def many_directions(quick: bool, only: str) -> list[dict]:
    """Return one row per spectrum and rank: temperature errors along the eigenvectors of the noise.

    The temperature is the configurational one.
    """
    rng, rows = np.random.default_rng(0), []
    U = np.linalg.qr(rng.normal(size=(D, D)))[0]
    for name, spectrum in SPECTRA.items():
        S = spectrum * TRACE / spectrum.sum()
        root = jnp.asarray(U * np.sqrt(S) / H, jnp.float32)
        methods = {"uncontrolled": iso.SGNHT(H, A, scheme="symmetric")}
        methods["diagonal"] = iso.CCAdL(H, A, covariance=iso.Diagonal(), scheme="symmetric")
        for rank in (8, 16, 32, 64, 128):
            covariance = iso.DiagonalLowRank(rank=rank)
            methods[f"rank {rank}"] = iso.CCAdL(H, A, covariance=covariance, scheme="symmetric")
        for method, sampler in methods.items():
            if only not in method:
                continue
            kernel = iso.extend.Kernel(sampler, Anisotropic(root), 1, 1)
            count, steps = (8, 2_000) if quick else (32, 20_000)
            starts = jax.random.normal(jax.random.key(2), (count, D))
            m = chains.run(kernel, jnp.zeros((1, 1)), starts, burn_in=steps // 2, steps=steps, axes=U)
            temperature = m.square.mean(axis=0)
            spread = m.square.std(axis=0, ddof=1) / np.sqrt(count)
            noisiest = slice(0, 50)
            row = {
                "spectrum": name,
                "s": float(S[0]),
                "method": method,
                "rms_error": _rms(temperature - 1, spread),
                "rms_error_50": _rms((temperature - 1)[noisiest], spread[noisiest]),
                "worst": float(np.max(np.abs(temperature - 1))),
                "by_chance": float(np.sqrt(np.mean(spread**2))),
                "xi_over_A": float(m.xi.mean() / A),
            }
            rows.append(row)
            print(
                json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}),
                flush=True,
            )
    return rows


def _rms(x: np.ndarray, spread: np.ndarray) -> float:
    """Return the root mean square, corrected for Monte Carlo noise."""
    return float(np.sqrt(max(np.mean(x**2) - np.mean(spread**2), 0)))


def mnist(quick: bool, only: str) -> list[dict]:
    """Return one row per scheme and covariance estimate: the relative error of the posterior covariance.

    The error is measured in the metric of the reference.
    """
    problem, n, rows = logistic.problem(whitened=False), 500, []
    draws = logistic.reference(problem, chains=256, draws=50 if quick else 1000)
    flat = draws.reshape(-1, draws.shape[-1])
    values, vectors = np.linalg.eigh(np.cov(flat.T))
    whiten = vectors / np.sqrt(values)
    starts, gradient = jnp.asarray(draws[:, -1], jnp.float32), iso.Minibatch(problem.posterior)
    h = logistic.step_for(problem, 0.25, n)
    covariances = {
        "none (SGNHT)": None,
        "Diagonal": iso.Diagonal(),
        "DiagonalLowRank(16)": iso.DiagonalLowRank(rank=16),
        "Dense": iso.Dense(),
        'Dense("exact")': iso.Dense("exact"),
        "MatrixFree": iso.MatrixFree(),
    }
    for scheme in ("euler", "symmetric"):
        for name, covariance in covariances.items():
            if only not in name:
                continue
            friction = 30.0
            sampler = iso.SGNHT(h, friction, scheme=scheme)
            if covariance is not None:
                sampler = iso.CCAdL(h, friction, covariance=covariance, scheme=scheme)
            kernel = iso.extend.Kernel(sampler, gradient, len(problem.y), n)
            steps = 4_000 if quick else 40_000
            m = chains.run(kernel, problem.data, starts, burn_in=steps // 5, steps=steps, axes=whiten)
            covariance_error, mc_error = m.covariance_error()
            row = {
                "scheme": scheme,
                "covariance": name,
                "covariance_error": covariance_error,
                "mc_error": mc_error,
                "xi_over_A": float(m.xi.mean() / friction),
            }
            rows.append(row)
            print(
                json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}),
                flush=True,
            )
    return rows


def main() -> None:
    """Run both parts and write many.json and mnist.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/control"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--part", choices=("many", "mnist"), help="run only this part")
    parser.add_argument("--only", default="", help="run only methods whose name contains this")
    options = parser.parse_args()
    jax.config.update("jax_default_matmul_precision", "highest")
    options.out.mkdir(parents=True, exist_ok=True)
    for name, part in (("many", many_directions), ("mnist", mnist)):
        if options.part in (None, name):
            result = {"rows": part(options.quick, options.only), "versions": versions()}
            # A partial run does not overwrite the full table.
            file = f"{name}-only.json" if options.only else f"{name}.json"
            (options.out / file).write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
