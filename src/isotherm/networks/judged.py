"""Networks judged by what they predict for rows that they have not seen."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from isotherm import scores
from isotherm.compilation import compile_fully
from isotherm.posterior import Posterior

_LARGEST_POWER = 4.0
_BLOCK = 2**14  # rows that are on the device at once
_CHANGE = 0.02  # tolerated relative change of the loss within the chains
_MORE_CHAINS = 0.05  # relative gain from many more chains that is worth a remark
_SIGMAS = 4.0


class Score(NamedTuple):
    """Losses of single rows, and for classes the accuracy and the calibration error."""

    name: str
    losses: Float[np.ndarray, " row"]
    accuracy: float | None = None
    calibration_error: float | None = None

    def __repr__(self) -> str:
        accuracy = "" if self.accuracy is None else f", accuracy {self.accuracy:.4f}"
        calibration = (
            "" if self.calibration_error is None else f", calibration error {self.calibration_error:.4f}"
        )
        return f"Score({self.name}: loss {self.loss:.4f} ± {self.error:.4f}{accuracy}{calibration})"

    @property
    def loss(self) -> float:
        """Minus the log of the probability of an outcome, averaged over the rows."""
        return float(self.losses.mean())

    @property
    def error(self) -> float:
        """The standard error of `loss`."""
        return float(self.losses.std(ddof=1)) / len(self.losses) ** 0.5


def log_likelihoods(posterior: Posterior, params: PyTree, rows: PyTree) -> Float[np.ndarray, "draw row"]:
    """Return the log-likelihood of each row at each of `params`, whose leaves are (draw, ...)."""
    return np.stack(list(values_at(functools.partial(_of_rows, posterior), params, rows)))


def values_at(f: Callable[[PyTree, PyTree], Array], params: PyTree, rows: PyTree) -> Iterator[np.ndarray]:
    """Yield f(theta, rows) for each theta in `params`, whose leaves are (draw, ...). Rows are taken in blocks."""
    count = jax.tree.leaves(rows)[0].shape[0]
    part = lambda first: jax.tree.map(lambda x: x[first : first + _BLOCK], rows)
    for i in range(jax.tree.leaves(params)[0].shape[0]):
        theta = jax.tree.map(lambda x, i=i: jnp.asarray(x[i]), params)
        blocks = [np.asarray(f(theta, part(first)), np.float64) for first in range(0, count, _BLOCK)]
        yield np.concatenate(blocks)


def predictive(values: Float[np.ndarray, "*draws row"]) -> Float[np.ndarray, " row"]:
    """Return minus the log of the mean likelihood of each row."""
    values = values.reshape(-1, values.shape[-1])
    top = values.max(axis=0)
    return -(top + np.log(np.mean(np.exp(values - top), axis=0)))


def score(name: str, losses: Float[np.ndarray, " row"], p: np.ndarray | None, y: np.ndarray) -> Score:
    """Return the score of predictions with these losses; `p` are probabilities of classes, if there are some."""
    if p is None:
        return Score(name, losses)
    return Score(name, losses, scores.accuracy(p, y), scores.calibration(p, y).calibration_error)


def averaged(name: str, each: Sequence[Score]) -> Score:
    """Return the mean scores of several networks."""
    mean = lambda x: None if x[0] is None else float(np.mean(x))
    accuracy, calibration_error = (
        [getattr(x, kind) for x in each] for kind in ("accuracy", "calibration_error")
    )
    return Score(name, np.mean([x.losses for x in each], axis=0), mean(accuracy), mean(calibration_error))


def recalibrated(p: Float[np.ndarray, "row *class"], power: float) -> Float[np.ndarray, "row *class"]:
    """Return probabilities raised to a power, and normalised."""
    both = np.stack([1 - p, p], axis=-1) if p.ndim == 1 else p
    logs = power * np.log(np.maximum(both, np.finfo(np.float64).tiny))
    q = np.exp(logs - logs.max(axis=-1, keepdims=True))
    q = q / q.sum(axis=-1, keepdims=True)
    return q[:, 1] if p.ndim == 1 else q


def of_classes(p: Float[np.ndarray, "row *class"], y: np.ndarray) -> Float[np.ndarray, " row"]:
    """Return minus the log-probability of each row's class."""
    own = np.where(y == 1, p, 1 - p) if p.ndim == 1 else p[np.arange(len(y)), y]
    return -np.log(np.maximum(own, np.finfo(np.float64).tiny))


def sharpest(p: Float[np.ndarray, "row *class"], y: np.ndarray) -> float:
    """Return the power of the probabilities that gives the smallest loss."""
    loss = lambda t: float(of_classes(recalibrated(p, np.exp(t)), y).mean())
    return float(np.exp(_minimum(loss, -np.log(_LARGEST_POWER), np.log(_LARGEST_POWER))))


def judged(values: Float[np.ndarray, "chain draw row"]) -> Iterator[tuple[bool, str]]:
    """Yield what the log-likelihoods of held-out rows show about the chains, and whether it is a fault."""
    chains, draws, rows = values.shape
    loss = predictive(values).mean()
    first, second = predictive(values[:, : draws // 2]), predictive(values[:, draws // 2 :])
    change = second - first
    error = change.std(ddof=1) / rows**0.5
    if abs(change.mean()) > max(_SIGMAS * error, _CHANGE * abs(loss)):
        better = "lower" if change.mean() < 0 else "higher"
        yield (
            True,
            f"the loss in the second half of the chains is {better} by {abs(change.mean()):.2g} than in the first: "
            "raise `epochs`",
        )
    if chains > 1:
        without = [predictive(np.delete(values, k, axis=0)).mean() for k in range(chains)]
        gain = (chains - 1) * (
            np.mean(without) - loss
        )  # the loss of k chains exceeds its limit by about b / k
        if gain > _MORE_CHAINS * abs(loss):
            yield False, f"Many more chains would lower the loss by about {gain:.2g}."


def _minimum(f: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function with one minimum has it, by golden sections."""
    ratio = (5**0.5 - 1) / 2
    while high - low > 1e-3:
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if f(a) < f(b) else (a, high)
    return (low + high) / 2


@compile_fully
def _of_rows(posterior: Posterior, params: PyTree, rows: PyTree) -> Float[Array, " row"]:
    return posterior.row_log_likelihoods(params, rows)
