"""The chains of section 4.2: convergence of the mean, and the distribution of the samples."""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from isotherm.covariance import Dense, DiagonalLowRank, MatrixFree
from isotherm.draws import Draws
from isotherm.errors import IsothermWarning
from isotherm.models import logistic_regression
from isotherm.samplers import SGHMC, SGNHT, CCAdL, Sampler
from isotherm.sampling.sample import sweep
from isotherm.studies.experiments.logistic.problem import DIMENSION, SHOWN, problem
from isotherm.studies.experiments.measures import autocorrelation_time

BATCH_SIZE = 500
METHODS: dict[str, Callable[..., Sampler]] = {
    "SGHMC": SGHMC,
    "SGHMC, corrected": partial(SGHMC, covariance=Dense("exact")),
    "SGNHT": SGNHT,
    "CCAdL": partial(CCAdL, covariance=Dense("exact")),
    "CCAdL symmetric": partial(CCAdL, covariance=Dense(), scheme="symmetric"),
    "CCAdL symmetric, low rank": partial(CCAdL, covariance=DiagonalLowRank(rank=16), scheme="symmetric"),
    "CCAdL symmetric, matrix-free": partial(CCAdL, covariance=MatrixFree(), scheme="symmetric"),
}
# Approximate time of a step relative to SGNHT, for the estimate of the remaining time.
COSTS = {"SGHMC": 1, "SGNHT": 1, "SGHMC, corrected": 20, "CCAdL": 5, "CCAdL symmetric": 3}
_PILOTS = 4  # at most this many pilot runs, each twice as long as the one before


def convergence(
    method: str, step_size: float, frictions: Sequence[float], chains: int, passes: int, seed: int
) -> dict[str, Any]:
    """Return the test log-likelihood of the running mean at whole passes, for each friction and chain.

    Chains start at w = 0. Values after a chain has diverged are `None`.
    """
    p = problem(seed)
    steps = round(passes * len(p.y) / BATCH_SIZE)
    checkpoints = np.unique(np.linspace(0, passes, min(passes, 100) + 1).round()[1:].astype(int))
    ends = np.maximum(1, np.round(checkpoints * len(p.y) / BATCH_SIZE).astype(int))
    samplers = [METHODS[method](step_size=step_size, friction=A) for A in frictions]
    runs = _sweep(seed, samplers, chains=chains, num_draws=steps)
    out: dict[str, Any] = {"passes": checkpoints.tolist(), "log_likelihood": [], "kinetic": [], "died": []}
    for run in runs:
        x = np.asarray(run.posterior, np.float64)
        means = np.cumsum(x, axis=1)[:, ends[ends <= x.shape[1]] - 1] / ends[ends <= x.shape[1], None]
        values = np.full((chains, len(ends)), np.nan)
        values[:, : means.shape[1]] = p.test_log_likelihood(means)
        values[np.arange(len(ends))[None, :] >= _checkpoints_reached(run, ends)[:, None]] = np.nan
        out["log_likelihood"].append([[_number(v) for v in line] for line in values])
        temperatures = np.asarray(run.stats["kinetic_temperature"])[run.lengths == steps, x.shape[1] // 2 :]
        out["kinetic"].append(_number(temperatures.mean()) if temperatures.size else None)
        out["died"].append(int(np.sum(run.lengths < steps)))
    return out


def marginal(
    method: str,
    step_size: float,
    friction: float,
    chain: int,
    num_samples: int,
    thinning: int,
    pilot: int,
    seed: int,
) -> dict[str, Any]:
    """Run one chain and return its moments over `num_samples` steps after the burn-in chosen by `burn_in_of`.

    Means and variances use every step, correlations every `thinning`-th.
    """
    sampler = METHODS[method](step_size=step_size, friction=friction)
    run_chain = partial(_sweep, seed, [sampler], chains=1, fold=chain + 1, thinning=thinning)
    burn_in, length = None, pilot
    for length in [pilot * 2**i for i in range(_PILOTS)]:
        (pilot_run,) = run_chain(num_draws=length // thinning)
        if pilot_run.lengths[0] < length // thinning:
            return {"died": True, "status": pilot_run.status[0]}
        burn_in = burn_in_of(problem(seed).test_log_likelihood(pilot_run.posterior[0]))
        if burn_in is not None:
            break
    burn_in_steps = length if burn_in is None else burn_in * thinning
    (run,) = run_chain(num_draws=num_samples // thinning, burn_in=burn_in_steps)
    x = np.asarray(run.posterior[0], np.float64)
    if run.lengths[0] < len(x) or len(x) < num_samples // thinning:
        return {"died": True, "status": run.status[0]}
    if not np.all(np.isfinite(run.moments.variance)):
        return {"died": True, "status": "the moments overflowed float32"}
    times = [thinning * autocorrelation_time(x[:, i]) for i in range(DIMENSION)]
    sd = np.sqrt(np.asarray(run.moments.variance)[0])
    cloud = x[:: max(1, len(x) // 400), list(SHOWN)]
    return {
        "died": False,
        "status": run.status[0],
        "burn_in": burn_in_steps,
        "stabilised": burn_in is not None,
        "mean": np.asarray(run.moments.mean)[0].tolist(),
        "covariance": (np.corrcoef(x.T) * np.outer(sd, sd)).tolist(),
        "cloud": np.round(cloud, 5).tolist(),
        "autocorrelation_time": np.round(times, 1).tolist(),
        "kinetic": float(np.mean(run.stats["kinetic_temperature"])),
        "xi": float(np.mean(run.stats["xi"])) if "xi" in run.stats else None,
        "test_log_likelihood": float(problem(seed).test_log_likelihood(np.asarray(run.moments.mean)[0])),
        "samples": num_samples,
    }


def burn_in_of(series: np.ndarray) -> int | None:
    """Return twice the number of draws until the test log-likelihood reaches its final level.

    The level is that of the second half, and is reached at its mean minus one standard deviation. Returns `None` if
    there is no level yet, that is, if the means of the third and fourth quarters differ by half the standard
    deviation of the second half or more.
    """
    half = series[len(series) // 2 :]
    third, fourth = np.array_split(half, 2)
    if not abs(third.mean() - fourth.mean()) < 0.5 * half.std():
        return None
    first = int(np.argmax(series >= half.mean() - half.std()))
    return min(2 * first + 1, len(series))


def _sweep(
    seed: int,
    samplers: Sequence[Sampler],
    *,
    chains: int,
    num_draws: int,
    thinning: int = 1,
    burn_in: int = 0,
    fold: int = 0,
) -> list[Draws]:
    with warnings.catch_warnings():
        # Steps that are too large and clipped noise are part of what the experiment shows.
        warnings.simplefilter("ignore", IsothermWarning)
        runs = sweep(
            logistic_regression(),
            problem(seed).rows,
            np.zeros(DIMENSION, np.float32),
            samplers,
            batch_size=BATCH_SIZE,
            num_draws=num_draws,
            thinning=thinning,
            burn_in=burn_in,
            num_chains=chains,
            seed=jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), 2), fold),
            progress=False,
        )
    if any("interrupted" in line for run in runs for line in run.status):
        raise KeyboardInterrupt
    return runs


def _checkpoints_reached(run: Draws, ends: np.ndarray) -> np.ndarray:
    """Return the number of checkpoints that each chain reached."""
    return np.searchsorted(ends, run.lengths, side="right")


def _number(x: Any) -> float | None:
    return round(float(x), 5) if np.isfinite(x) else None
