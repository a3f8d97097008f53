"""Log-densities of the target of rows, at each draw and at the posterior mean."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from isotherm.prediction.blocks import blocks
from isotherm.tables.fitted import Fitted
from isotherm.tables.marginal.given import encoded
from isotherm.tables.new_formula import with_new_levels
from isotherm.tables.responses import likelihood_of
from isotherm.tables.table import Columns


def log_densities(
    model: Fitted, params: Mapping[str, np.ndarray], columns: Columns
) -> Float[np.ndarray, "draw row"]:
    """Return the log-density of the target of each row at each draw. The rows have a target that is known."""
    rows = encoded(model, columns)
    assert rows.y is not None
    likelihood, data = likelihood_of(model, rows)
    y = rows.y.astype(np.int32 if model.family.has_probabilities else np.float32)
    params = with_new_levels(dict(params), model, rows, 0)
    parts = [values for _, values in blocks(likelihood, params, data | {"y": y})]
    return np.concatenate(parts, axis=1).astype(np.float64)


def mean_params(params: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the mean over the draws, as parameters with one draw."""
    return {
        name: x.mean(axis=0, keepdims=True, dtype=np.float64).astype(x.dtype) for name, x in params.items()
    }
