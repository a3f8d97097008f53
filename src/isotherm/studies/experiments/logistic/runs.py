"""The chains of section 4.2: how fast the mean converges, and which distribution the samples have."""

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
# Time of a step over that of SGNHT, roughly; an estimate of the time that is left is made of them.
COSTS = {"SGHMC": 1, "SGNHT": 1, "SGHMC, corrected": 20, "CCAdL": 5, "CCAdL symmetric": 3}
_PILOTS = 4  # a pilot run is doubled less often than this


def convergence(
    method: str, step_size: float, frictions: Sequence[float], chains: int, passes: int, seed: int
) -> dict[str, Any]:
    """Test log-likelihood of the running mean from w = 0, for each friction and chain, at whole passes.

    A chain that died has `None` from there on.
    """
    p = problem(seed)
    steps = round(passes * len(p.y) / BATCH_SIZE)
    at = np.unique(np.linspace(0, passes, min(passes, 100) + 1).round()[1:].astype(int))
    ends = np.maximum(1, np.round(at * len(p.y) / BATCH_SIZE).astype(int))
    samplers = [METHODS[method](step_size=step_size, friction=A) for A in frictions]
    runs = _sweep(seed, samplers, chains=chains, num_draws=steps)
    out: dict[str, Any] = {"passes": at.tolist(), "log_likelihood": [], "kinetic": [], "died": []}
    for run in runs:
        x = np.asarray(run.posterior, np.float64)
        means = np.cumsum(x, axis=1)[:, ends[ends <= x.shape[1]] - 1] / ends[ends <= x.shape[1], None]
        values = np.full((chains, len(ends)), np.nan)
        values[:, : means.shape[1]] = p.test_log_likelihood(means)
        values[np.arange(len(ends))[None, :] >= _alive(run, ends)[:, None]] = np.nan
        out["log_likelihood"].append([[_number(v) for v in line] for line in values])
        heat = np.asarray(run.stats["kinetic_temperature"])[run.lengths == steps, x.shape[1] // 2 :]
        out["kinetic"].append(_number(heat.mean()) if heat.size else None)
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
    """One chain: its burn-in by the rule of `burn_in_of`, then moments over `num_samples` steps.

    Mean and variances are those of every step, correlations those of every `thinning`-th.
    """
    sampler = METHODS[method](step_size=step_size, friction=friction)
    own = partial(_sweep, seed, [sampler], chains=1, fold=chain + 1, thinning=thinning)
    burn_in, length = None, pilot
    for length in [pilot * 2**i for i in range(_PILOTS)]:
        (first,) = own(num_draws=length // thinning)
        if first.lengths[0] < length // thinning:
            return {"died": True, "status": first.status[0]}
        burn_in = burn_in_of(problem(seed).test_log_likelihood(first.posterior[0]))
        if burn_in is not None:
            break
    burn_in_steps = length if burn_in is None else burn_in * thinning
    (run,) = own(num_draws=num_samples // thinning, burn_in=burn_in_steps)
    x = np.asarray(run.posterior[0], np.float64)
    if run.lengths[0] < len(x) or len(x) < num_samples // thinning:
        return {"died": True, "status": run.status[0]}
    if not np.all(np.isfinite(run.moments.variance)):
        return {"died": True, "status": "moments beyond the range of float32"}
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
    """Twice the draws after which the test log-likelihood first reaches its later level; `None` if it has none yet.

    The level is that of the second half. It is one if third and fourth quarter differ by less than half its standard
    deviation, and it is reached at its mean less one standard deviation.
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
        # Steps that are too long and noise that is clipped are what the experiment shows.
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


def _alive(run: Draws, ends: np.ndarray) -> np.ndarray:
    """For each chain, how many of the checkpoints it reached."""
    return np.searchsorted(ends, run.lengths, side="right")


def _number(x: Any) -> float | None:
    return round(float(x), 5) if np.isfinite(x) else None
