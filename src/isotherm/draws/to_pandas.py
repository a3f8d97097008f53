"""Draws and summaries as data frames of pandas."""

from typing import TYPE_CHECKING, Any

import numpy as np

from isotherm.draws.elements import labels_of
from isotherm.errors import missing_extra

if TYPE_CHECKING:
    from pandas import DataFrame

    from isotherm.draws.draws import Draws


def pandas_for(what: str) -> Any:
    """Return the module pandas, or raise an error that names the extra that `what` needs."""
    try:
        import pandas
    except ImportError as error:
        raise missing_extra(what, "pandas") from error
    return pandas


def to_pandas(draws: "Draws") -> "DataFrame":
    """Return a row for each draw of the chains that did not fail, and a column for each element of a parameter."""
    pd = pandas_for("draws.to_pandas()")
    chains, labels = np.flatnonzero(draws.complete), labels_of(draws)
    index = pd.MultiIndex.from_product([chains, range(draws.num_draws)], names=["chain", "draw"])
    leaves = {**draws.flat(), **draws.derived}
    columns = [
        pd.DataFrame(
            np.asarray(leaf)[chains].reshape(len(index), len(labels[name])), index=index, columns=labels[name]
        )
        for name, leaf in leaves.items()
    ]
    return pd.concat(columns, axis=1)
