"""Refuses models with a latent variable per row: a minibatch of n rows says nothing about those of the others."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.data.checks import evenly
from isotherm.data.stream import Stream, num_rows, rows_in_memory, some_rows
from isotherm.errors import must
from isotherm.posterior import Posterior

_ROWS_TRIED = 64
_PERTURBATION = 1e-3  # relative; at a start of zeros, gradients may vanish that are nonzero elsewhere


def refuse_row_latents(
    posterior: Posterior,
    free: PyTree[Array],
    data: PyTree[Array] | Stream,
    *,
    num_chains: int,
    init_per_chain: bool | None,
) -> None:
    """Raise if each row of the data uses a different element of a leaf. `free` is `init` in free parameters."""
    num_data = num_rows(data)
    latents = row_latents(posterior, free, data, num_chains=num_chains, init_per_chain=init_per_chain)
    for name, shape in latents.items():
        raise must(
            f"init.{name}" if name else "init",
            "parameters that rows share",
            np.broadcast_to(0.0, shape),
            f"Each of the {num_data} rows uses its own element, a latent variable per row. A minibatch of n rows "
            f"says nothing about those of other rows, and its noise is sqrt({num_data}/n) times its signal. "
            "Integrate the latent variables out of the log-likelihood, or use one per group, with few groups.",
        )


def row_latents(
    posterior: Posterior,
    free: PyTree[Array],
    data: PyTree[Array] | Stream,
    *,
    num_chains: int,
    init_per_chain: bool | None,
) -> dict[str, tuple[int, ...]]:
    """Return names and shapes of the leaves with a leading axis of N of which each row uses a different element.

    If another leaf happens to be as long, some row's gradient touches several of its elements, or two rows touch the
    same one. Nothing is computed if no leaf is as long.
    """
    num_data = num_rows(data)
    starts = _readings(free, num_chains, init_per_chain)
    readings = [(x, jax.eval_shape(lambda x: _params(posterior, x), x)) for x in starts]
    if num_data < 2 or not any(_as_long(shapes, num_data) for _, shapes in readings):
        return {}
    for start, shapes in readings:
        in_memory = not isinstance(data, Stream)
        for rows in (2, num_data) if posterior.batched and in_memory else (2,):
            if _fits(posterior, shapes, rows_in_memory(data), rows):
                suspects = _as_long(shapes, num_data)
                latents = _used_by_one_row(posterior, start, data, suspects, aligned=rows != 2)
                return {name: x.shape for name, x in tree.named_leaves(shapes) if name in latents}
    return {}


def _used_by_one_row(
    posterior: Posterior, start: PyTree, data: PyTree | Stream, suspects: list[str], *, aligned: bool
) -> set[str]:
    """Return the suspects whose every element is used by exactly one of the rows tried.

    Tries rows one at a time and stops when no suspect remains, usually after the first.
    """
    used: dict[str, set[int]] = {name: set() for name in suspects}
    rows, index = (data, evenly(num_rows(data), _ROWS_TRIED)) if aligned else some_rows(data, _ROWS_TRIED)
    for i in index if aligned else range(len(index)):
        if not used:
            break
        touched = dict(tree.named_leaves(elements_used(posterior, start, rows, jnp.asarray(i), aligned)))
        for name in list(used):
            elements = {*np.flatnonzero(touched[name]).tolist()}
            if len(elements) > 1 or elements & used[name]:
                del used[name]
            else:  # possibly empty: a row of weight 0 touches none
                used[name] |= elements
    return {name for name, elements in used.items() if len(elements) > 1}


def _readings(free: PyTree, num_chains: int, init_per_chain: bool | None) -> list[PyTree[Array]]:
    """Return `init` as one start for all chains, and its first element if it may have a chain axis."""
    readings = [] if init_per_chain else [free]
    if init_per_chain is not False and all(x.shape[:1] == (num_chains,) for x in jax.tree.leaves(free)):
        readings.append(jax.tree.map(lambda x: x[0], free))
    return readings


def _as_long(shapes: PyTree, num_data: int) -> list[str]:
    """Return the names of the leaves with a leading axis of N."""
    return [name for name, x in tree.named_leaves(shapes) if x.shape[:1] == (num_data,)]


def _params(posterior: Posterior, free: PyTree) -> PyTree:
    return free if posterior.constraint is None else posterior.constraint.constrained(free)


def _fits(posterior: Posterior, params: PyTree, data: PyTree, rows: int) -> bool:
    """Return whether the log-likelihood accepts these shapes. If not, the check of shapes raises the error later."""
    batch = jax.tree.map(lambda x: jax.ShapeDtypeStruct((rows, *x.shape[1:]), x.dtype), data)
    try:
        values = eqx.filter_eval_shape(posterior.row_log_likelihoods, params, batch)
    except Exception:
        return False
    return getattr(values, "shape", None) == (rows,)


@compile_quickly
def elements_used(
    posterior: Posterior, start: PyTree, data: PyTree, i: Int[Array, ""], aligned: bool
) -> PyTree[Bool[Array, "..."]]:
    """Return which elements along each leaf's leading axis the log-likelihood of row i depends on, near the start.

    `aligned` is for a function that only accepts all rows at once, aligned with elements of the parameters.
    """

    def one(params: PyTree) -> Array:
        if aligned:
            return posterior.log_likelihood(params, data)[i]
        return posterior.one_log_likelihood(params, jax.tree.map(lambda x: x[i], data))

    scale = jax.tree.map(lambda x: _PERTURBATION * (1 + jnp.abs(x)), start)
    near = tree.add_scaled(start, (scale, tree.normal_like(start, key=jax.random.key(0))))
    gradient = jax.grad(one)(_params(posterior, near))
    return jax.tree.map(lambda g: jnp.any(g != 0, axis=tuple(range(1, g.ndim))), gradient)
