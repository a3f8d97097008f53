"""Log-likelihoods in which the features of a row enter only by a product x.w: regressions of every family."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
from jax.extend import core
from jaxtyping import Array, PyTree

from isotherm.posterior import Posterior

_Program = Callable[..., list[Array]]


class LinearLikelihood(NamedTuple):
    """A log-likelihood tail(s, x.w, y), where (w, s) = head(theta) and s and y are tuples of scalars.

    - `head`: (posterior, theta) -> (w, s).
    - `tail`: (s, eta, y) -> the log-likelihood of a row. It holds no arrays, so that a kernel may contain it.
    - `features`: the position of x among the leaves of a row; y are the others.
    """

    head: Callable[[Posterior, PyTree], tuple[Array, tuple[Array, ...]]]
    tail: Callable[[tuple[Array, ...], Array, tuple[Array, ...]], Array]
    features: int


def linear_likelihood(posterior: Posterior, theta: PyTree, rows: PyTree) -> LinearLikelihood | None:
    """Return the log-likelihood of a row in two parts around its product x.w; `None` if it has another form.

    `rows` have a leading axis. The form is read from the trace of the log-likelihood: one leaf of a row is a vector,
    its only use is a product with a vector that does not depend on the row, and all else is scalars in float32.
    """
    if posterior.batched:
        return None
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), rows)
    trace = jax.make_jaxpr(lambda at, row: posterior.log_likelihood(at, row))(theta, one)
    shapes = [x.shape for x in jax.tree.leaves(one)]
    vectors = [i for i, shape in enumerate(shapes) if shape != ()]
    num_theta = len(jax.tree.leaves(theta))
    if len(vectors) != 1 or len(shapes[vectors[0]]) != 1 or trace.jaxpr.effects:
        return None
    parts = _split(trace.jaxpr, num_theta, num_theta + vectors[0])
    if parts is None:
        return None
    before, after = parts

    def head(posterior: Posterior, theta: PyTree) -> tuple[Array, tuple[Array, ...]]:
        # Traced again, for the arrays that `posterior` holds now; constants come in the same order.
        consts = jax.make_jaxpr(lambda at, row: posterior.log_likelihood(at, row))(theta, one).consts
        w, *scalars = before(*consts, *jax.tree.leaves(theta))
        return w, tuple(scalars)

    def tail(scalars: tuple[Array, ...], eta: Array, others: tuple[Array, ...]) -> Array:
        (value,) = after(*scalars, eta, *others)
        return value

    return LinearLikelihood(head, tail, vectors[0])


def _split(jaxpr: Any, num_theta: int, features: int) -> tuple[_Program, _Program] | None:
    """Return the equations before and after the product, as two programs; `None` if there is no such product."""
    x, rows = jaxpr.invars[features], jaxpr.invars[num_theta:]
    uses = [eqn for eqn in jaxpr.eqns if x in _variables(eqn.invars)]
    if len(uses) != 1 or x in _variables(jaxpr.outvars) or uses[0].primitive.name != "dot_general":
        return None
    product = uses[0]
    dependent, before, after = set(rows), [], []
    for eqn in jaxpr.eqns:
        if dependent.isdisjoint(_variables(eqn.invars)):
            before.append(eqn)
        else:
            dependent.update(eqn.outvars)
            if eqn is not product:
                after.append(eqn)
    (w,) = [v for v in product.invars if v is not x] or [x]
    eta, used = product.outvars[0], [v for eqn in after for v in _variables(eqn.invars)]
    scalars = list(dict.fromkeys(v for v in [*used, *_variables(jaxpr.outvars)] if v not in dependent))
    inner = [*scalars, eta, *(v for v in rows if v is not x)]
    if not isinstance(w, core.Var) or w in dependent or eta.aval.shape != ():
        return None
    dtypes = [cast(Any, v.aval).dtype for v in (*scalars, eta, x, w)]
    if any(cast(Any, v.aval).shape != () for v in inner) or any(dtype != jnp.float32 for dtype in dtypes):
        return None
    outer = [*jaxpr.constvars, *jaxpr.invars[:num_theta]]
    return _program(jaxpr, outer, [w, *scalars], before), _program(jaxpr, inner, jaxpr.outvars, after)


def _variables(atoms: Any) -> list[Any]:
    return [v for v in atoms if isinstance(v, core.Var)]


def _program(jaxpr: Any, inputs: list[Any], outputs: list[Any], equations: list[Any]) -> _Program:
    """Return some equations of a trace as a function of `inputs`."""
    part = jaxpr.replace(constvars=[], invars=inputs, outvars=outputs, eqns=equations)
    return core.jaxpr_as_fun(core.ClosedJaxpr(part, []))
