"""The number of hidden units, chosen by cross-validation as in the paper."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.covariance import Diagonal
from isotherm.models.classifiers import drbm_scores
from isotherm.samplers import CCAdL
from isotherm.studies.experiments.drbm.problem import PANELS, rows, starts
from isotherm.studies.experiments.drbm.runs import sampled

HIDDEN = (10, 20, 50, 100)
_DRAWS = 20
_FRICTION = 10.0


def error_of_fold(data: str, hidden: int, fold: int, folds: int, passes: int, seed: int) -> dict[str, Any]:
    """Return the error of the averaged prediction on one fold of the training rows, after training on the others.

    The error is 1 if the chain diverges.
    """
    panel, d = dataclasses.replace(PANELS[data], hidden=hidden), rows(data)
    fold_of_row = np.random.default_rng(seed).permutation(len(d.y_train)) % folds
    kept, held_out = fold_of_row != fold, fold_of_row == fold
    train = {"x": d.x_train[kept], "y": d.y_train[kept]}
    thinning = max(1, passes * len(train["y"]) // panel.batch_size // _DRAWS)
    run = sampled(
        train,
        starts(panel, 1, seed),
        CCAdL(panel.steps[-1], _FRICTION, covariance=Diagonal()),
        batch_size=panel.batch_size,
        num_draws=_DRAWS,
        thinning=thinning,
        seed=seed,
    )
    if run.lengths[0] < _DRAWS:
        return {"error": 1.0}
    x = jnp.asarray(d.x_train[held_out])
    probabilities = jax.jit(lambda w: jax.nn.softmax(drbm_scores(w, x)))
    draw = lambda i: jax.tree.map(lambda leaf: jnp.asarray(leaf[0, i]), run.posterior)
    predicted = sum(np.asarray(probabilities(draw(i))) for i in range(_DRAWS // 2, _DRAWS))
    return {"error": float(np.mean(np.argmax(predicted, axis=1) != d.y_train[held_out]))}


def chosen(folds: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return, for each data set, the mean error by number of hidden units and the best number."""
    errors: dict[str, dict[int, list[float]]] = {}
    for arguments, result in folds:
        errors.setdefault(arguments["data"], {}).setdefault(arguments["hidden"], []).append(result["error"])
    return [
        {
            "data": name,
            "errors": {str(hidden): float(np.mean(e)) for hidden, e in by_hidden.items()},
            "spread": {str(hidden): float(np.std(e) / np.sqrt(len(e))) for hidden, e in by_hidden.items()},
            "best": min(by_hidden, key=lambda hidden: float(np.mean(by_hidden[hidden]))),
            "paper": PANELS[name].hidden,
        }
        for name, by_hidden in errors.items()
    ]
