"""Effects of groups that a posterior does not declare, for advice where a warm-up without them finds no mode."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from isotherm import tree
from isotherm.chains.problem import Problem
from isotherm.data.stream import some_rows
from isotherm.draws.record import UNDECLARED, Reason
from isotherm.sampling.latents import elements_used

_ROWS_TRIED = 4
_LEVELS = 3  # fewest that count: a column of zeros and ones is often an outcome


def about_undeclared_groups(problem: Problem) -> tuple[Reason, ...]:
    """Return a line for each leaf of which every row tried uses the one level that a column of integers names."""
    rows, index = some_rows(problem.data, _ROWS_TRIED)
    columns = {name: np.asarray(x) for name, x in tree.named_leaves(rows) if _is_index(x)}
    leaves = [name for name, x in tree.named_leaves(problem.init) if x.ndim and x.shape[0] >= _LEVELS]
    if not leaves or not columns:
        return ()
    used = [_levels_used(problem, rows, i) for i in range(len(index))]
    found = []
    for leaf in leaves:
        levels = [x[leaf] for x in used]
        fits = [name for name, x in columns.items() if levels == [{int(level)} for level in x]]
        if fits and len(set.union(*levels)) > 1:
            found.append(_line(leaf, fits[0]))
    return tuple(found)


def _line(leaf: str, column: str) -> Reason:
    why = (
        f"a row uses the level of `{leaf}` that `{column}` names. If the scale of these effects is a parameter, the "
        f'density may have no mode: declare `groups={{"{leaf}": iso.Group("{column}", scale=...)}}`'
    )
    return Reason(*UNDECLARED, why)


def _levels_used(problem: Problem, rows: PyTree, i: int) -> dict[str, set[int]]:
    used = elements_used(problem.density, problem.init, rows, jnp.asarray(i), False)
    return {name: {*np.flatnonzero(np.asarray(x)).tolist()} for name, x in tree.named_leaves(used)}


def _is_index(x: Array) -> bool:
    return x.ndim == 1 and bool(np.issubdtype(x.dtype, np.integer)) and int(np.min(x)) >= 0
