"""One chain of a discriminative restricted Boltzmann machine, and its test errors along the way."""

import functools
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from isotherm.covariance import Diagonal, DiagonalLowRank, MatrixFree
from isotherm.draws import Draws
from isotherm.errors import IsothermWarning
from isotherm.models import drbm
from isotherm.models.classifiers import drbm_scores
from isotherm.samplers import SGHMC, SGNHT, CCAdL, Sampler
from isotherm.sampling.sample import sample
from isotherm.studies.experiments.drbm.problem import PANELS, rows, starts, steps_of

METHODS: dict[str, Callable[..., Sampler]] = {
    "SGHMC": SGHMC,
    "SGNHT": SGNHT,
    "CCAdL": partial(CCAdL, covariance=Diagonal()),
    "CCAdL symmetric": partial(CCAdL, covariance=Diagonal(), scheme="symmetric"),
    "CCAdL symmetric, low rank": partial(CCAdL, covariance=DiagonalLowRank(rank=16), scheme="symmetric"),
    "CCAdL symmetric, matrix-free": partial(CCAdL, covariance=MatrixFree(), scheme="symmetric"),
}
BURN_IN = 0.2  # share of all passes
_SAMPLES_PER_PASS = 4  # that enter the mean of the parameters
_POINTS = 50  # of an error curve; each adds a sample to the averaged prediction


def chain(
    data: str,
    method: str,
    step_size: float,
    friction: float,
    passes: int,
    seed: int,
    batch_size: int | None = None,
    standardised: bool = False,
    prior_scale: float = 1.0,
    init_scale: float | None = None,
) -> dict[str, Any]:
    """Return the test errors of the mean of the parameters, the averaged prediction and the current sample.

    Averages start at the first sample and restart when burn-in ends. Errors after a chain has diverged are `None`.
    """
    panel, d = PANELS[data], rows(data, standardised)
    batch_size = panel.batch_size if batch_size is None else batch_size
    steps = steps_of(panel, passes) * panel.batch_size // batch_size
    thinning = max(1, steps // (passes * _SAMPLES_PER_PASS))
    num_draws = steps // thinning
    run = sampled(
        d.train,
        starts(panel, 1, seed, init_scale),
        METHODS[method](step_size=step_size, friction=friction),
        batch_size=batch_size,
        num_draws=num_draws,
        thinning=thinning,
        seed=seed,
        prior_scale=prior_scale,
    )
    points = min(_POINTS, passes)
    ends = np.round(np.linspace(0, num_draws, points + 1)[1:]).astype(int)
    x, y = jnp.asarray(d.x_test), d.y_test
    out: dict[str, Any] = {"passes": np.round(np.linspace(0, passes, points + 1)[1:], 3).tolist()}
    names = ("mean_error", "predictive_error", "sample_error")
    out |= {name: [] for name in names}
    for predictions in _predictions(run.posterior, ends, int(run.lengths[0]), round(BURN_IN * points), x):
        errors = [None] * 3 if predictions is None else [float(np.mean(c != y)) for c in predictions]
        for name, error in zip(names, errors, strict=True):
            out[name].append(error)
    temperatures = run.stats["kinetic_temperature"][0, num_draws // 2 : run.lengths[0]]
    return out | {
        "died": int(run.lengths[0]) < num_draws,
        "kinetic": _number(np.mean(temperatures)) if len(temperatures) else None,
        "xi": None
        if "xi" not in run.stats or not run.lengths[0]
        else _number(run.stats["xi"][0, run.lengths[0] - 1]),
        "steps": steps,
        "batch_size": batch_size,
    }


def sampled(
    train: dict[str, np.ndarray],
    init: PyTree[Array],
    sampler: Sampler,
    *,
    batch_size: int,
    num_draws: int,
    thinning: int,
    seed: int,
    prior_scale: float = 1.0,
) -> Draws:
    """Run one chain. Raises `KeyboardInterrupt` if it is interrupted, since an incomplete chain is of no use here."""
    with warnings.catch_warnings():
        # Steps that are too large are part of what the experiment shows.
        warnings.simplefilter("ignore", IsothermWarning)
        run = sample(
            drbm(prior_scale),
            train,
            init,
            sampler=sampler,
            batch_size=batch_size,
            num_draws=num_draws,
            thinning=thinning,
            num_chains=1,
            init_per_chain=True,
            seed=seed,
            progress=False,
        )
    if "interrupted" in run.status[0]:
        raise KeyboardInterrupt
    return run


def _predictions(
    draws: PyTree[np.ndarray], ends: np.ndarray, length: int, burn_in: int, x: Float[Array, "n F"]
) -> Iterator[tuple[np.ndarray, ...] | None]:
    """Yield, at each end, the classes predicted by the mean, by the averaged prediction and by the last sample.

    Yields `None` after the chain has diverged.
    """
    begin, restart, total, predicted = 0, 0, None, 0.0
    for i, end in enumerate(ends.tolist()):
        if end > length:
            yield None
            continue
        if i == burn_in:
            restart, total, predicted = begin, None, 0.0
        new = _sum_of_draws(draws, begin, end)
        total = new if total is None else jax.tree.map(np.add, total, new)
        begin = end
        current = np.asarray(_probabilities(_sum_of_draws(draws, end - 1, end), x))
        mean = jax.tree.map(partial(np.multiply, 1 / (end - restart)), total)
        predicted = predicted + current
        yield np.asarray(_probabilities(mean, x)).argmax(1), predicted.argmax(1), current.argmax(1)


def _sum_of_draws(draws: PyTree[np.ndarray], begin: int, end: int) -> PyTree[np.ndarray]:
    """Return the sum of draws `begin` to `end - 1`."""
    return jax.tree.map(lambda leaf: leaf[0, begin:end].sum(axis=0, dtype=np.float64), draws)


@functools.cache
def _compiled() -> Callable[..., Array]:
    return jax.jit(lambda params, x: jax.nn.softmax(drbm_scores(params, x)))


def _probabilities(params: PyTree, x: Float[Array, "n F"]) -> Float[Array, "n C"]:
    return _compiled()(jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params), x)


def _number(x: Any) -> float | None:
    return float(x) if np.isfinite(x) else None
