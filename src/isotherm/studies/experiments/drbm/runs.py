"""One chain of a discriminative restricted Boltzmann machine, and its errors on the test rows as it goes."""

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
BURN_IN = 0.2  # of all passes
_PER_PASS = 4  # samples kept in a pass, of which the mean is made
_POINTS = 50  # of a curve, each with a sample for the predictive average


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
    """Test errors at whole passes: of the mean of the parameters, of the averaged prediction, of the sample alone.

    Averages run from the start and begin anew when burn-in ends. What comes after a chain has died is `None`.
    """
    panel, d = PANELS[data], rows(data, standardised)
    batch_size = panel.batch_size if batch_size is None else batch_size
    steps = steps_of(panel, passes) * panel.batch_size // batch_size
    thinning = max(1, steps // (passes * _PER_PASS))
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
    for average in _averages(run.posterior, ends, int(run.lengths[0]), round(BURN_IN * points), x):
        errors = [None] * 3 if average is None else [float(np.mean(c != y)) for c in average]
        for name, error in zip(names, errors, strict=True):
            out[name].append(error)
    heat = run.stats["kinetic_temperature"][0, num_draws // 2 : run.lengths[0]]
    return out | {
        "died": int(run.lengths[0]) < num_draws,
        "kinetic": _number(np.mean(heat)) if len(heat) else None,
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
    """One chain; an interruption is passed on, since part of a chain is no result."""
    with warnings.catch_warnings():
        # Steps that are too long are what the experiment shows.
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


def _averages(
    draws: PyTree[np.ndarray], ends: np.ndarray, length: int, burn_in: int, x: Float[Array, "n F"]
) -> Iterator[tuple[np.ndarray, ...] | None]:
    """At each end, the classes named by the mean, the averaged prediction and the last sample; `None` after death."""
    begin, since, total, predicted = 0, 0, None, 0.0
    for i, end in enumerate(ends.tolist()):
        if end > length:
            yield None
            continue
        if i == burn_in:
            since, total, predicted = begin, None, 0.0
        new = _between(draws, begin, end)
        total = new if total is None else jax.tree.map(np.add, total, new)
        begin = end
        now = np.asarray(_probabilities(_between(draws, end - 1, end), x))
        mean = jax.tree.map(partial(np.multiply, 1 / (end - since)), total)
        predicted = predicted + now
        yield np.asarray(_probabilities(mean, x)).argmax(1), predicted.argmax(1), now.argmax(1)


def _between(draws: PyTree[np.ndarray], begin: int, end: int) -> PyTree[np.ndarray]:
    """The sum of the draws from `begin` to before `end`."""
    return jax.tree.map(lambda leaf: leaf[0, begin:end].sum(axis=0, dtype=np.float64), draws)


@functools.cache
def _compiled() -> Callable[..., Array]:
    return jax.jit(lambda params, x: jax.nn.softmax(drbm_scores(params, x)))


def _probabilities(params: PyTree, x: Float[Array, "n F"]) -> Float[Array, "n C"]:
    return _compiled()(jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params), x)


def _number(x: Any) -> float | None:
    return float(x) if np.isfinite(x) else None
