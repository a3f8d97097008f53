"""A hash that recognises a posterior in another process."""

import hashlib
import re
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.extend import core

from isotherm.centring import uncharted
from isotherm.chains.problem import Problem
from isotherm.data.stream import rows_in_memory

_IS_TRACE = (core.ClosedJaxpr, core.Jaxpr)


def posterior_hash(problem: Problem) -> str:
    """Return a hash of what the log-likelihood, the log-prior and their gradients compute, with all constants.

    Names and comments do not count. Two processes that run the same functions get the same hash.
    """
    start = jax.tree.map(lambda x: x[0], problem.init) if problem.per_chain else problem.init
    row = jax.tree.map(lambda x: x[0], rows_in_memory(problem.data))
    digest, density = hashlib.sha256(), uncharted(problem.density)
    for f, args in ((density.one_log_likelihood, (start, row)), (density.prior_log_density, (start,))):
        # A function may have a derivative of its own, which its value does not show.
        trace = jax.make_jaxpr(jax.value_and_grad(f))(*args)
        digest.update(_without_names(str(trace)).encode())
        for x in _constants(trace):
            x = np.asarray(x)
            digest.update(f"{x.shape} {x.dtype}".encode() + x.tobytes())
    digest.update(f"{problem.temperature!r}".encode())
    return digest.hexdigest()


def _without_names(trace: str) -> str:
    """Return a printed trace without names of functions and places in memory."""
    return re.sub(r"\bname=[^\s\]]+|0x[0-9a-f]+", "", trace)


def _constants(trace: Any) -> Iterator[Any]:
    """Yield the constants of a trace and of the functions that it calls, which are traces among its parameters."""
    if isinstance(trace, core.ClosedJaxpr):
        yield from trace.consts
        trace = trace.jaxpr
    for equation in trace.eqns:
        for x in jax.tree.leaves(equation.params, is_leaf=lambda x: isinstance(x, _IS_TRACE)):
            if isinstance(x, _IS_TRACE):
                yield from _constants(x)
