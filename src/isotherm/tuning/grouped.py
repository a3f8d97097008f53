"""The warm-up for a posterior with groups: whether their structure is needed, and what is known of them.

Chains that use the structure take steps with all rows. Where levels are few and have many rows each, the posterior is
nearly normal around its mode, and minibatches with control variates are cheaper by orders of magnitude.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.chains.problem import Problem
from isotherm.chains.setup import Setup
from isotherm.data.stream import Stream
from isotherm.deviations import prior_factor
from isotherm.draws.record import Reason
from isotherm.groups import Group
from isotherm.preconditioner import DensePreconditioner
from isotherm.transforms import Constraint
from isotherm.tuning.groups.tune import tune_groups
from isotherm.tuning.normal import tune_normal

_FEW, _MANY = 300, 50_000  # most parameters and fewest rows for which chains without the structure are tried
_APART = 0.5  # largest distance, in sd, of a scale at the mode from the scale that the effects there imply


def tune_grouped(
    problem: Problem,
    *,
    key: Key[Array, ""],
    batch_size: int | None,
    say: Callable[[str], None],
    stacklevel: int,
) -> Setup:
    """Return a setup for a posterior whose parameters have levels of groups."""
    if _is_tall(problem) and batch_size is None:
        plain = tune_normal(problem, key=key, batch_size=None, say=say, stacklevel=stacklevel + 1)
        if isinstance(plain, Setup) and not plain.gradient.all_rows and _mode_serves(plain):
            why = (
                "levels have so many rows that the posterior is nearly normal: their structure is not needed"
            )
            return _described(plain, why)
    setup = tune_groups(problem, key=key, batch_size=batch_size, say=say, stacklevel=stacklevel + 1)
    return _described(setup, None)


def _is_tall(problem: Problem) -> bool:
    groups = [group for _, group in problem.posterior.groups]
    known = all(group.scale is not None and group.correlations is None for group in groups)
    in_memory = not isinstance(problem.data, Stream)
    return known and in_memory and tree.size(problem.init) <= _FEW and problem.num_data >= _MANY


def _mode_serves(setup: Setup) -> bool:
    """Return whether the scales at the joint mode are close to those of the posterior.

    At the mode of the marginal density of a scale, its square is the mean of the squares of the effects, their
    variances included. The joint mode leaves those out, and lies many standard deviations off if levels are many.
    """
    posterior, frame = setup.problem.posterior, setup.preconditioner
    assert isinstance(frame, DensePreconditioner)
    constraint = posterior.constraint or Constraint(None)
    names = [name for name, _ in tree.named_leaves(frame.center)]
    root = np.asarray(frame.root, np.float64)
    variance = dict(
        zip(names, _split(setup.problem.temperature * np.sum(root**2, axis=1), frame.center), strict=True)
    )
    free = dict(tree.named_leaves(frame.center))
    params = dict(tree.named_leaves(constraint.constrained(frame.center)))
    for name, group in posterior.groups:
        assert group.scale is not None
        b, own = (np.asarray(x, np.float64).reshape(len(x), -1) for x in (free[name], variance[name]))
        scale = np.diagonal(np.asarray(prior_factor(params, group.scale, None, b.shape[1]), np.float64))
        implied = np.sqrt(np.mean(b**2 + own, axis=0))
        error = np.sqrt(1 / (2 * len(b)))  # of the logarithm of a scale, at least
        if not np.all(np.abs(np.log(implied / scale)) < _APART * error):
            return False
    return True


def _split(x: np.ndarray, like: PyTree) -> list[np.ndarray]:
    leaves = jax.tree.leaves(like)
    ends = np.cumsum([leaf.size for leaf in leaves])[:-1]
    return [part.reshape(jnp.shape(leaf)) for part, leaf in zip(np.split(x, ends), leaves, strict=True)]


def _described(setup: Setup, why: str | None) -> Setup:
    """Return the setup with a line for each group."""
    lines = tuple(
        Reason("group", name if group.rows is None else f"{name} by {group.rows}", _prior(group))
        for name, group in setup.problem.posterior.groups
    )
    end = () if why is None else (Reason("groups", "not used", why),)
    return dataclasses.replace(setup, reasons=(*lines, *end, *setup.reasons))


def _prior(group: Group) -> str:
    if group.scale is None:
        return "levels are moved as they are, since no scale of a normal prior is known"
    correlated = f", with correlations `{group.correlations}`" if group.correlations is not None else ""
    scale = f"`{group.scale}`{correlated}"
    if group.standardized:
        return f"standard normal, and rows multiply it by {scale}: chains move the product"
    location = f"`{group.location}`" if isinstance(group.location, str) else f"{group.location:g}"
    return f"its prior is normal around {location} with scale {scale}"
