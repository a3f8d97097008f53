"""The data sets of Table 2 with the step sizes of Figure 3."""

import dataclasses
import functools
import math

import jax
import numpy as np
from jaxtyping import Array, PyTree

from isotherm.data import DataSet, load
from isotherm.models.classifiers import drbm_init


@dataclasses.dataclass(frozen=True)
class Panel:
    """A row of Figure 3: a data set, its hidden units and parameters in Table 2, three step sizes, the batch size."""

    data: str
    hidden: int
    steps: tuple[float, float, float]
    batch_size: int
    parameters: int


PANELS = {
    "connect-4": Panel("connect-4", 20, (0.5e-3, 1e-3, 2e-3), 1000, 2603),
    "letter": Panel("letter", 100, (1e-3, 2e-3, 5e-3), 500, 4326),
    "acoustic": Panel("acoustic", 20, (0.2e-3, 0.5e-3, 1e-3), 1000, 1083),
    # Replaces acoustic if that is not available, and is cut to its size.
    "covertype": Panel("covertype", 20, (0.2e-3, 0.5e-3, 1e-3), 1000, 1247),
}
_ACOUSTIC_ROWS = (78_823, 19_705)  # training, test


def panels() -> tuple[list[Panel], str]:
    """Return the available rows of the figure, and a note on the missing one, which is empty if none is missing."""
    try:
        load("acoustic")
    except (OSError, ImportError):
        note = (
            "SensIT acoustic was not found and could not be downloaded (`isotherm data` shows where to put it). "
            "covertype, cut to the same size, replaces it and does not count towards the verdicts."
        )
        return [PANELS[name] for name in ("connect-4", "letter", "covertype")], note
    return [PANELS[name] for name in ("connect-4", "letter", "acoustic")], ""


@functools.cache
def rows(name: str, standardised: bool = False) -> DataSet:
    """Return a data set, with covertype cut to the size of acoustic.

    With `standardised`, columns have mean 0 and variance 1 on the training rows.
    """
    data = load(name)
    if name == "covertype":
        train, test = _ACOUSTIC_ROWS
        data = dataclasses.replace(
            data,
            x_train=data.x_train[:train],
            y_train=data.y_train[:train],
            x_test=data.x_test[:test],
            y_test=data.y_test[:test],
        )
    if standardised:
        mean, sd = data.x_train.mean(axis=0), data.x_train.std(axis=0)
        scale = lambda x: ((x - mean) / np.where(sd > 0, sd, 1)).astype(np.float32)
        data = dataclasses.replace(data, x_train=scale(data.x_train), x_test=scale(data.x_test))
    return data


def starts(panel: Panel, chains: int, seed: int, scale: float | None = None) -> PyTree[Array]:
    """Return initial weights, drawn independently for each chain."""
    data = rows(panel.data)
    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), 3), chains)
    init = lambda key: drbm_init(data.x_train.shape[1], panel.hidden, data.num_classes, key=key, scale=scale)
    return jax.vmap(init)(keys)


def majority(panel: Panel) -> float:
    """Return the test error of always predicting the most frequent class: that of a model that has learnt nothing."""
    data = rows(panel.data)
    top = np.bincount(data.y_train).argmax()
    return float(np.mean(data.y_test != top))


def steps_of(panel: Panel, passes: int | float) -> int:
    """Return the number of steps in `passes` over the training rows."""
    return math.ceil(passes * len(rows(panel.data).y_train) / panel.batch_size)
