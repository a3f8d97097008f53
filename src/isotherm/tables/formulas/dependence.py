"""Whether some columns of a formula's matrix are linearly dependent."""

from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float

from isotherm.tables.dependence import warn_if_dependent
from isotherm.tables.formulas.design import FormulaDesign
from isotherm.tables.formulas.passes import FormulaPass

Blocks = Iterator[Float[np.ndarray, "n F"]]


class _Sample:
    """Rows of the matrix, in the form that `warn_if_dependent` takes."""

    def __init__(self, seen: FormulaPass, design: FormulaDesign) -> None:
        is_all, self._blocks = seen.dependence_rows(design)
        self.stride = 1 if is_all else 2

    def blocks(self, design: FormulaDesign) -> Blocks:
        """Yield the rows, standardised."""
        return _mirrored(design, self._blocks)


def warn_if_formula_dependent(
    seen: FormulaPass, design: FormulaDesign, all_rows: Callable[[], Blocks], *, stacklevel: int
) -> None:
    """Warn if some columns are linearly dependent in the sample and, if that is not all rows, in all rows too.

    `all_rows` returns the encoded rows. It is called only if the columns of the sample are dependent.
    """
    sample = _Sample(seen, design)
    warn_if_dependent(sample, design, lambda: _mirrored(design, all_rows()), stacklevel=stacklevel + 1)


def _mirrored(design: FormulaDesign, blocks: Blocks) -> Blocks:
    """Yield the rows and, without an intercept, their negatives too, so that the mean that is taken out is zero.

    The indicators of all levels of a category sum to one, which repeats an intercept only if there is one.
    """
    for block in blocks:
        yield block
        if not design.has_intercept:
            yield -block
