"""Kept runs of NumPyro's samplers in seconds of this machine: their leapfrog steps times one gradient, measured here.

What is left out favours them: compilation, the bookkeeping of NUTS, and of HMCECS the drawing of rows and the
Hessians of the new ones. For the number of steps it does not matter where they were taken.
"""

import json
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from methods import sampled
from problems import PROBLEMS
from quality import REFERENCES, timed

from isotherm import tree
from isotherm.tuning.newton import climb

_LOOK = 2.0  # seconds for which a gradient is timed, over and over


def nuts(name: str) -> dict | None:
    """`nuts.py`: a step is a gradient of all rows, for one chain or for all at once, whichever is faster."""
    record = _kept("nuts", name)
    if record is None:
        return None
    posterior, data, init = PROBLEMS[name]()
    data, chains = jax.tree.map(jnp.asarray, data), record["chains"]
    gradient = jax.value_and_grad(posterior.log_density)
    starts = jax.tree.map(lambda x: jnp.broadcast_to(x, (chains, *x.shape)), init)
    all_at_once = _seconds(jax.vmap(gradient, in_axes=(0, None)), starts, data)
    return _counted(record, min(_seconds(gradient, init, data), all_at_once / chains))


def hmcecs(name: str) -> dict | None:
    """`hmcecs.py`: the way to the mode, and a step is a gradient of the energy that a batch gives."""
    record = _kept("hmcecs", name)
    if record is None:
        return None
    posterior, data, init = PROBLEMS[name]()
    data, n, num_data = jax.tree.map(jnp.asarray, data), record["batch_size"], record["num_data"]
    find = lambda: climb(posterior, data, init, seed=0)
    find()
    seconds_mode, top = timed(find)
    picked = np.random.default_rng(0).integers(num_data, size=n)
    rows = jax.tree.map(lambda x: x[picked], data)
    mode, known = tree.ravel(top.point.theta), [jnp.asarray(x, jnp.float32) for x in top.point.known]
    each = lambda x, row: posterior.one_log_likelihood(tree.unravel_like(x, init), row)
    orders = [jax.vmap(f(each), in_axes=(None, 0)) for f in (lambda f: f, jax.grad, jax.hessian)]
    at_mode = [jax.jit(f)(mode, rows) for f in orders]

    def energy(x: jax.Array, batch: tuple) -> jax.Array:
        rows, at_mode = batch
        off = x - mode
        taylor = lambda terms: terms[0] + terms[1] @ off + 0.5 * (terms[2] @ off @ off)
        theta = tree.unravel_like(x, init)
        left = posterior.row_log_likelihoods(theta, rows) - taylor(at_mode)
        estimate = taylor(known) + num_data * jnp.mean(left) - num_data**2 / n / 2 * jnp.var(left)
        return estimate + posterior.prior_log_density(theta)

    return _counted(record, _seconds(jax.value_and_grad(energy), mode, (rows, at_mode)), seconds_mode)


def _counted(record: dict, one: float, before: float = 0.0) -> dict:
    record |= {
        "method": f"{record['method']}, counted",
        "seconds_gradient": one,
        "device": jax.devices()[0].device_kind,
    }
    parts = before + one * record["leapfrogs_warmup"], one * record["leapfrogs_sampling"]
    return record | sampled(record, *parts) | sampled(record, *parts, "_compiled")


def _seconds(f: Callable, *arguments: object) -> float:
    """The median of many calls, without compilation."""
    f, taken = jax.jit(f), []
    jax.block_until_ready(f(*arguments))
    while sum(taken) < _LOOK:
        taken.append(timed(lambda: f(*arguments))[0])
    return float(np.median(taken))


def _kept(method: str, name: str) -> dict | None:
    path = REFERENCES / method / f"{name}.json"
    if not path.exists():
        return None
    record = json.loads(path.read_text())
    # Seconds of the machine where it ran are of no use here.
    return {k: v for k, v in record.items() if not k.startswith("seconds")}
