"""The time that stored runs of NumPyro's samplers would take on this machine: leapfrog steps times one gradient.

The estimate favours them: it leaves out compilation, the bookkeeping of NUTS, and for HMCECS the drawing of rows
and their Hessians. The number of steps does not depend on the machine.
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

_TIMING_SECONDS = 2.0  # how long a gradient is timed, by repeated calls


def nuts(name: str) -> dict | None:
    """Return a stored run of `nuts.py`. A step is a gradient of all rows.

    It is timed for one chain and for all at once, and the faster counts.
    """
    record = _stored("nuts", name)
    if record is None:
        return None
    posterior, data, init = PROBLEMS[name]()
    data, chains = jax.tree.map(jnp.asarray, data), record["chains"]
    gradient = jax.value_and_grad(posterior.log_density)
    starts = jax.tree.map(lambda x: jnp.broadcast_to(x, (chains, *x.shape)), init)
    all_at_once = _seconds(jax.vmap(gradient, in_axes=(0, None)), starts, data)
    return _counted(record, min(_seconds(gradient, init, data), all_at_once / chains))


def hmcecs(name: str) -> dict | None:
    """Return a stored run of `hmcecs.py`. A step is a gradient of a batch's energy; finding the mode counts too."""
    record = _stored("hmcecs", name)
    if record is None:
        return None
    posterior, data, init = PROBLEMS[name]()
    data, n, num_data = jax.tree.map(jnp.asarray, data), record["batch_size"], record["num_data"]
    find_mode = lambda: climb(posterior, data, init, key=jax.random.key(0))
    find_mode()
    seconds_mode, top = timed(find_mode)
    picked = np.random.default_rng(0).integers(num_data, size=n)
    rows = jax.tree.map(lambda x: x[picked], data)
    back = np.asarray(top.point.frame.inverse, np.float64)
    value, gradient, hessian = top.point.known
    known = [jnp.asarray(x, jnp.float32) for x in (value, back.T @ gradient, back.T @ hessian @ back)]
    mode = tree.ravel(top.point.theta)
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
    """Return the median time of many calls, without compilation."""
    f, taken = jax.jit(f), []
    jax.block_until_ready(f(*arguments))
    while sum(taken) < _TIMING_SECONDS:
        taken.append(timed(lambda: f(*arguments))[0])
    return float(np.median(taken))


def _stored(method: str, name: str) -> dict | None:
    path = REFERENCES / method / f"{name}.json"
    if not path.exists():
        return None
    record = json.loads(path.read_text())
    # The seconds of the machine where it ran do not apply here.
    return {k: v for k, v in record.items() if not k.startswith("seconds")}
