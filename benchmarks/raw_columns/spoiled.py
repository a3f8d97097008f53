"""A mistake that the verdict must notice: a Hessian with respect to the parameters, added up in float32."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso
from isotherm import tree


def with_float32_hessian(setup: iso.Setup) -> iso.Setup | None:
    """Return the setup with that Hessian among the known sums of its control variates; `None` if it has none."""
    sums = getattr(setup.gradient, "sums", None)
    if sums is None or sums[2] is None:
        return None
    problem, coordinates = setup.problem, setup.preconditioner
    center = jax.tree.map(lambda x: jnp.asarray(np.asarray(x), jnp.float32), coordinates.center)
    narrow = lambda x: jnp.asarray(np.asarray(x), jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x
    rows = jax.tree.map(narrow, problem.data)

    def total(x: jax.Array) -> jax.Array:
        return jnp.sum(problem.density.row_log_likelihoods(tree.unravel_like(x, center), rows))

    hessian = np.asarray(jax.jit(jax.hessian(total))(tree.ravel(center)), np.float64)
    root = np.asarray(coordinates.root, np.float64)
    spoiled = tree.put(root.T @ hessian @ root, sums[2].dtype)
    return setup.with_gradient(eqx.tree_at(lambda g: g.sums[2], setup.gradient, spoiled))
