"""`prepare`: turns a user's posterior, data and start into a `Problem`, for a warm-up and for a run."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from isotherm.chains.problem import Problem
from isotherm.compilation import drop_old_programs
from isotherm.data.checks import warn_if_unresolved
from isotherm.data.leaves import as_numbers, named_arguments
from isotherm.data.opening import Opened, brought
from isotherm.data.rows import checked_rows, on_device
from isotherm.data.stream import num_rows, rows_in_memory
from isotherm.errors import must
from isotherm.posterior import Posterior
from isotherm.sampling.constants import with_constants
from isotherm.sampling.latents import refuse_row_latents
from isotherm.sampling.shapes import has_chain_axis
from isotherm.sums import precision
from isotherm.transforms import OutsideSupportError, checked_free


def prepare(
    posterior: Posterior,
    data: PyTree,
    init: PyTree,
    *,
    num_chains: int,
    init_per_chain: bool | None,
    latents_allowed: bool = False,
    float64: bool = False,
) -> Problem:
    """Return the problem, after checking everything about it that does not depend on a sampler.

    **Arguments:**

    - `data`: arrays, a source, or a source that was opened before.
    - `init_per_chain`: whether `init` has a leading axis of `num_chains`; `None` decides by the shapes.
    - `latents_allowed`: whether to accept a latent variable per row, which needs steps that use all rows.
    - `float64`: whether to use float64 for rows and parameters. JAX must be in x64 mode.
    """
    drop_old_programs(posterior.log_likelihood, posterior.log_prior)
    data = brought(data)
    checked = data if isinstance(data, Opened) else checked_rows(data)
    for label, x in checked.labelled:
        warn_if_unresolved(label, x)
    rows = checked.stream() if isinstance(checked, Opened) else on_device(checked.arrays)
    free = freed(init, posterior)
    if not latents_allowed:
        refuse_row_latents(posterior, free, rows, num_chains=num_chains, init_per_chain=init_per_chain)
    position, density = in_32_bits(free, with_constants(posterior).unconstrained)
    if float64:
        position = precision.widened(position)
    per_chain = has_chain_axis(
        position, density, rows_in_memory(rows), num_chains=num_chains, declared=init_per_chain
    )
    return Problem(posterior, density, rows, num_rows(rows), position, per_chain, checked.infinite, float64)


def as_position(init: PyTree, argument: str = "init") -> PyTree[Array]:
    """Return parameters as arrays of floating dtype. Errors refer to them as `argument`."""
    leaves = named_arguments(argument, init)
    if not leaves:
        raise ValueError(f"`{argument}` must hold at least one array of parameters; got an empty pytree.")
    arrays = [_as_parameters(label, leaf) for label, leaf in leaves]
    if all(x.size == 0 for x in arrays):
        raise must(argument, "at least one parameter", arrays[0])
    return jax.tree.unflatten(jax.tree.structure(init), arrays)


def _as_parameters(label: str, leaf: Any) -> Array:
    if not isinstance(leaf, int | float) and not hasattr(leaf, "dtype") and not hasattr(leaf, "__array__"):
        raise TypeError(
            f"`{label}` must be an array of parameters; got {type(leaf).__name__}. For a module, pass "
            "its arrays only: `params, rest = eqx.partition(model, eqx.is_inexact_array)`."
        )
    x = as_numbers(label, leaf, rows=False)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        shown = jax.dtypes.canonicalize_dtype(x.dtype)
        raise TypeError(
            f"`{label}` must have a floating dtype, since it is updated by gradients; got {shown}. "
            "Write 0.0 instead of 0, or convert with `.astype(float)`."
        )
    if x.size >= 2**31:
        raise must(label, "fewer than 2^31 parameters", x)
    if x.dtype.itemsize < 2:
        raise TypeError(f"`{label}` must have 16 bits or more; got {x.dtype}. Convert with `.astype(float)`.")
    with np.errstate(over="ignore"):  # numbers too large for 32 bits are infinite, and refused as such
        # An explicit dtype: a weakly typed leaf would change its type after the first chunk and compile again.
        return jnp.asarray(x, jax.dtypes.canonicalize_dtype(x.dtype))


def freed(init: PyTree, posterior: Posterior, argument: str = "init") -> PyTree[Array]:
    """Return parameters as arrays of free parameters. Raises if they are outside the support."""
    position, constraint = as_position(init, argument), posterior.constraint
    if constraint is None:
        return position
    try:
        return checked_free(constraint, position, argument)
    except OutsideSupportError:
        raise
    except Exception as error:
        reason = constraint.misfit(position) or str(error).partition("\n")[0][:300]
        raise type(error)(
            f"`transforms` must have the structure of `{argument}`, or be a prefix of it, and its shapes must fit; "
            f"they do not: {reason}"
        ) from error


def in_32_bits(init: PyTree, posterior: Posterior) -> tuple[PyTree, Posterior]:
    """Return the start in at least 32 bits, and a posterior that rounds parameters to the dtypes of `init`.

    Parameters of 16 bits would lose small steps.
    """
    position = as_position(init)
    dtypes = tuple(x.dtype for x in jax.tree.leaves(position))
    if all(dtype.itemsize > 2 for dtype in dtypes):
        return position, posterior
    wide = jax.tree.map(lambda x: x.astype(jnp.promote_types(x.dtype, jnp.float32)), position)
    prior = None if posterior.log_prior is None else Rounded(posterior.log_prior, dtypes)
    functions = (Rounded(posterior.log_likelihood, dtypes), prior)
    return wide, eqx.tree_at(
        lambda p: (p.log_likelihood, p.log_prior), posterior, functions, is_leaf=lambda x: x is None
    )


class Rounded(eqx.Module):
    """A function that receives its parameters in the given dtypes and returns floating arrays in at least 32 bits."""

    function: Callable[..., Any]
    dtypes: tuple[Any, ...] = eqx.field(static=True)

    def __call__(self, position: PyTree, *rest: PyTree) -> Any:
        """Return the function at the rounded position."""
        leaves, structure = jax.tree.flatten(position)
        rounded = [x.astype(dtype) for x, dtype in zip(leaves, self.dtypes, strict=True)]
        value = self.function(structure.unflatten(rounded), *rest)
        if not hasattr(value, "dtype") or not jnp.issubdtype(value.dtype, jnp.floating):
            return value  # a constant prior, or refused by the check of shapes
        return value.astype(jnp.promote_types(value.dtype, jnp.float32))
