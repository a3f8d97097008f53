"""Measurements of the paper's remarks (i) and (ii) on SGHMC and CCAdL.

    python benchmarks/remarks.py [--out remarks.json]

The posterior is that of a linear regression. Its residuals are larger where the first predictor is large, so
that the gradient is much noisier in one direction than in the others. In the coordinates used here the posterior
is exactly N(0, I), and a random rotation keeps the noisy direction off the axes.
"""

import argparse
import json
import time
import warnings
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import isotherm as iso

NUM_DATA, DIMENSION = 1000, 6


class Problem(NamedTuple):
    """A posterior that is exactly N(0, I), its rows, and the covariance C of a gradient estimated from one row."""

    posterior: iso.Posterior
    rows: dict
    unit_noise: np.ndarray

    def noise(self, batch_size):
        """Return eigenvalues, in decreasing order, and eigenvectors of C, averaged over the posterior."""
        values, vectors = np.linalg.eigh(self.unit_noise / batch_size)
        return values[::-1], vectors[:, ::-1]


def problem(seed=0):
    """Return heteroscedastic data under a homoscedastic model, whitened and rotated."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(NUM_DATA, DIMENSION))
    y = X @ rng.normal(size=DIMENSION) + np.sqrt(0.02 + X[:, 0] ** 4 / 5) * rng.normal(size=NUM_DATA)
    precision = X.T @ X + 0.01 * np.eye(DIMENSION)
    mean = np.linalg.solve(precision, X.T @ y)
    rotation = np.linalg.qr(rng.normal(size=(DIMENSION, DIMENSION)))[0]
    values, vectors = np.linalg.eigh(precision)
    L = vectors / np.sqrt(values) @ vectors.T @ rotation
    rows = {"x": X @ L, "r": y - X @ mean}
    u = rng.normal(size=(400, DIMENSION))
    g = (rows["r"] - u @ rows["x"].T)[:, :, None] * rows["x"]
    g -= g.mean(axis=1, keepdims=True)
    unit_noise = NUM_DATA**2 * np.einsum("uni,unj->ij", g, g) / g.shape[0] / g.shape[1]
    shift, scale = jnp.asarray(mean, jnp.float32), jnp.asarray(L, jnp.float32)
    posterior = iso.Posterior(
        lambda u, row: -((row["r"] - row["x"] @ u) ** 2) / 2,
        lambda u: -0.005 * jnp.sum((shift + scale @ u) ** 2),
    )
    return Problem(posterior, {k: np.asarray(v, np.float32) for k, v in rows.items()}, unit_noise)


class Scaled(iso.extend.Covariance):
    """The paper's dense estimate, multiplied by a wrong factor."""

    factor: jax.Array = eqx.field(converter=jnp.asarray)
    averaging: float = 0.0
    estimate: str = eqx.field(default="exact", static=True)
    contrasts: int = eqx.field(default=1, static=True)

    has_root = True
    controls_all = True
    tolerates_large_steps = True

    @property
    def dense(self):
        """The estimate without the factor."""
        return iso.Dense(estimate=self.estimate, averaging=self.averaging)

    def seed(self, num_parameters):
        """No batches before the first step: the remark is about estimates from the batches of the chain."""
        del num_parameters
        return 0, 0

    def init(self, position):
        """Same as for `Dense`."""
        return self.dense.init(position)

    def update(self, average, estimate):
        """Same as for `Dense`, with contrasts scaled by the root of the factor."""
        scaled = jax.tree.map(lambda z: jnp.sqrt(self.factor) * z, estimate.contrasts)
        return self.dense.update(average, eqx.tree_at(lambda x: x.contrasts, estimate, scaled))

    def operator(self, average, estimate):
        """Same as for `Dense`."""
        return self.dense.operator(average, estimate)


def sweep(p, samplers, *, batch_size, num_draws, num_chains, thinning=4, burn_in=400, seed=0):
    """Run `iso.sweep` from starts in equilibrium, without warnings: some settings are meant to clip or fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", iso.IsothermWarning)
        return iso.sweep(
            p.posterior,
            p.rows,
            jnp.zeros(DIMENSION),
            samplers,
            batch_size=batch_size,
            num_draws=num_draws,
            thinning=thinning,
            burn_in=burn_in,
            num_chains=num_chains,
            init_scale=1.0,
            seed=seed,
            progress=False,
        )


def variances(draws, directions):
    """Return the second moment along each direction (exact: 1) and the autocorrelation time in steps.

    The autocorrelation time comes from the variance of the chain means.
    """
    if not draws.complete.all():
        return np.full(DIMENSION, np.nan), np.nan
    along = np.asarray(draws.posterior, np.float64) @ directions
    variance = (along**2).mean(axis=(0, 1))
    steps = draws.record.num_draws * draws.record.thinning
    return variance, float(np.mean(steps * (along.mean(axis=1) ** 2).mean(axis=0) / variance))


def smallest_friction(p, ladder=(0.025, 0.05, 0.1, 0.2), *, batch_size=50, num_draws=250, num_chains=8):
    """Measure remark (i): the smallest A at which the noise covariance of SGHMC is positive semidefinite."""
    largest = p.noise(batch_size)[0][0]
    factors = 0.8 * 1.15 ** np.arange(20)
    samplers = [iso.SGHMC(h, h * largest / 2 * k, iso.Dense()) for h in ladder for k in factors]
    runs = sweep(p, samplers, batch_size=batch_size, num_draws=num_draws, num_chains=num_chains, burn_in=0)
    share = np.array([d.stats["clipped_steps"].mean() / d.record.steps for d in runs])
    rows = []
    for h, clipped in zip(ladder, share.reshape(len(ladder), -1), strict=True):
        row = {"h": h, "bound": h * largest / 2}
        for name, limit in (("clipped_below_2_percent", 0.02), ("never_clipped", 0.0)):
            enough = factors[clipped <= limit]
            row[name] = float(enough[0]) * row["bound"] if len(enough) else None
        rows.append(row)
    return rows


def overdamped(p, h=0.1, frictions=(1.0, 2.0, 4.0, 10.0), *, batch_size=50, num_draws=1500, num_chains=64):
    """Measure remark (i): with a large A, SGHMC behaves like SGLD with step h / A."""
    _, directions = p.noise(batch_size)
    size = {"batch_size": batch_size, "num_draws": num_draws, "num_chains": num_chains}
    sghmc_runs = sweep(p, [iso.SGHMC(h, A) for A in frictions], **size)
    sgld_runs = sweep(p, [iso.SGLD(h / A) for A in frictions], **size)
    rows = []
    for A, sghmc, sgld in zip(frictions, sghmc_runs, sgld_runs, strict=True):
        (sghmc_variance, sghmc_time), (sgld_variance, sgld_time) = (
            variances(run, directions) for run in (sghmc, sgld)
        )
        rows.append(
            {
                "A": A,
                "sghmc_time": sghmc_time,
                "sgld_time": sgld_time,
                "sghmc_variance": sghmc_variance[0],
                "sgld_variance": sgld_variance[0],
            }
        )
    return rows


@eqx.filter_jit
def temperatures(kernel, rows, directions, keys, num_steps):
    """Return the kinetic temperature and the second moment of the position along each direction: (chains, 2, d)."""

    def chain(key):
        def step(state, _):
            state, _, _ = kernel.step(state, rows, key=key)
            return state, jnp.stack([(state.momentum @ directions) ** 2, (state.position @ directions) ** 2])

        start = kernel.init(jax.random.normal(jax.random.fold_in(key, 2**31), (DIMENSION,)), rows, key=key)
        _, squares = jax.lax.scan(step, start, length=num_steps)
        return jnp.mean(squares[num_steps // 5 :], axis=0)

    return jax.vmap(chain)(keys)


def wrong_covariance(p, *, num_steps=6000, num_chains=64, seed=0):
    """Measure remark (ii): temperatures of SGHMC and CCAdL with biased or noisy estimates of C."""
    keys = jax.random.split(jax.random.key(seed), num_chains)
    large, small = (50, 0.025, 1.25), (3, 0.005, 2.0)  # batch size, h, A
    cases = [
        ("C / 2", *large, Scaled(0.5)),
        ("C", *large, Scaled(1.0)),
        ("2 C", *large, Scaled(2.0)),
        ("C from n = 3", *small, Scaled(1.0)),
        ("latest batch, n = 3", *small, Scaled(1.0, averaging=1.0)),
    ]
    rows = {k: jnp.asarray(v) for k, v in p.rows.items()}
    out = []
    for label, n, h, A, covariance in cases:
        values, vectors = p.noise(n)
        for sampler in (iso.SGHMC(h, A, covariance), iso.CCAdL(h, A, covariance)):
            kernel = iso.extend.Kernel(sampler, iso.Minibatch(p.posterior), NUM_DATA, n)
            directions = jnp.asarray(vectors, jnp.float32)
            per_chain = np.asarray(temperatures(kernel, rows, directions, keys, num_steps), np.float64)
            momentum, position = per_chain.mean(axis=0)
            excess = h * (1 - float(covariance.factor)) * values.mean() / (2 * A)
            out.append(
                {
                    "estimate": label,
                    "method": type(sampler).__name__,
                    "kinetic_temperature": momentum.mean(),
                    "standard_error": per_chain[:, 0].mean(axis=1).std(ddof=1) / np.sqrt(num_chains),
                    "predicted": 1 + excess if isinstance(sampler, iso.SGHMC) else 1.0,
                    "coldest": momentum.min(),
                    "hottest": momentum.max(),
                    "worst_variance_error": float(np.abs(position - 1).max()),
                }
            )
    return out


# Sampler, smallest step of its ladder, number of chains: more if it mixes slowly, fewer if a step factors a matrix.
METHODS = {
    "SGLD": (iso.SGLD, 0.0015625, 96),
    "ModifiedSGLD, dense": (lambda h: iso.ModifiedSGLD(h, iso.Dense()), 0.0125, 32),
    "SGHMC": (lambda h: iso.SGHMC(h, 2.0), 0.003125, 96),
    "SGHMC, dense": (lambda h: iso.SGHMC(h, 2.0, iso.Dense()), 0.025, 32),
    "SGNHT": (lambda h: iso.SGNHT(h, 2.0), 0.00625, 96),
    "CCAdL, diagonal": (lambda h: iso.CCAdL(h, 2.0, iso.Diagonal()), 0.0125, 64),
    "CCAdL, dense": (lambda h: iso.CCAdL(h, 2.0, iso.Dense()), 0.0125, 64),
}


def largest_step(p, *, batch_size=50, num_draws=2500, rungs=7):
    """Measure remark (ii): the largest h at which every variance is within 10 % and no chain fails."""
    directions = p.noise(batch_size)[1]
    rows = []
    for name, (make, first, chains) in METHODS.items():
        ladder = first * 2 ** (np.arange(rungs) / 2)
        samplers = [make(h) for h in ladder]
        runs = sweep(p, samplers, batch_size=batch_size, num_draws=num_draws, num_chains=chains)
        measured = [variances(d, directions) for d in runs]
        errors = np.array([np.abs(v - 1).max() for v, _ in measured])
        row = {"method": name, "largest_h": None, "error_at_largest_h": None, "autocorrelation_steps": None}
        for h, error, (_, steps) in zip(ladder, errors, measured, strict=True):
            if not error <= 0.1:
                break
            row |= {"largest_h": float(h), "error_at_largest_h": float(error), "autocorrelation_steps": steps}
        row["ladder"] = ladder.tolist()
        row["errors"] = [None if np.isnan(e) else float(e) for e in errors]
        rows.append(row)
    return rows


def show(title, rows, console):
    """Print one table. Columns that hold lists appear in the JSON only."""
    names = [k for k in rows[0] if not isinstance(rows[0][k], list)]
    table = Table(title=title)
    for name in names:
        table.add_column(name.replace("_", " "))
    for row in rows:
        table.add_row(*(f"{row[k]:.4g}" if isinstance(row[k], float) else str(row[k]) for k in names))
    console.print(table)


def main():
    """Run all four measurements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", help="write the results to this JSON file")
    arguments = parser.parse_args()
    console, p = Console(), problem()
    console.print("Eigenvalues of C at n = 50:", np.round(p.noise(50)[0], 1))
    parts = {
        "(i) smallest friction of SGHMC": smallest_friction,
        "(i) SGHMC at large friction": overdamped,
        "(ii) wrong covariance": wrong_covariance,
        "(ii) largest usable step": largest_step,
    }
    results = {"eigenvalues": p.noise(50)[0].tolist()}
    for title, measure in parts.items():
        began = time.perf_counter()
        results[title] = measure(p)
        show(f"{title} ({time.perf_counter() - began:.0f} s)", results[title], console)
    if arguments.out is not None:
        with open(arguments.out, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
