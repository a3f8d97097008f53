"""Hostile seeds, and places where the library cannot be called: inside transformations and in forks."""

import os
import signal
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .case import Case
from .models import NUMBERS, run
from .values import drawn

_FORK_S = 20  # more than a refusal takes, far less than a hang
_SEEDS = (0.0, 1.0, 7.0, 2.0**32, 2.0**40)


def seed(rng: np.random.Generator) -> Case:
    """Return a call with a hostile seed: a value, or keys of several kinds."""
    if rng.random() < 0.7:
        label, value, number = drawn(rng, _SEEDS)
        whole = number is not None and np.isfinite(number) and number == int(number) and number >= 0
        huge = {"huge int": 10**400, "integer without text": 10**5000, "key": jax.random.key(0)}
        plain = (lambda: run(seed=int(number))) if whole else None
        if label in huge:
            plain = lambda: run(seed=huge[label])
        return Case("seed", label, lambda: run(seed=value), plain, ("seed",))
    bits = int(rng.integers(1000))
    label, value, known = _KEYS[rng.integers(len(_KEYS))]
    plain = (lambda: run(seed=bits)) if known else None
    return Case("seed", label, lambda: run(seed=value(bits)), plain, ("seed",))


_KEYS = (
    ("key", lambda b: jax.random.key(b), True),
    ("old key", lambda b: jax.random.PRNGKey(b), True),
    ("old key of NumPy", lambda b: np.asarray(jax.random.PRNGKey(b)), True),
    ("old key of int32", lambda b: np.asarray(jax.random.PRNGKey(b)).astype(np.int32), False),
    ("big-endian key", lambda b: np.asarray(jax.random.PRNGKey(b)).astype(">u4"), True),
    ("keys", lambda b: jax.random.split(jax.random.key(b), 2), False),
    ("old keys", lambda b: jax.random.split(jax.random.PRNGKey(b), 3), False),
    ("one key in an axis", lambda b: jax.random.key(b)[None], False),
    ("generator", lambda b: np.random.default_rng(b), False),
    ("sequence of seeds", lambda b: np.random.SeedSequence(b), False),
    ("list", lambda b: [b], False),
    ("deleted key", lambda b: _deleted_key(b), False),
)


def _deleted_key(bits: int) -> Any:
    key = jax.random.PRNGKey(bits) + 0
    key.delete()
    return key


def _in_a_fork(call: Any) -> Any:
    """Call in a fork of this process, and raise what it raises here."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(_FORK_S)
        try:
            call()
            text = "accepted"
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


def _refused_in_a_fork() -> Any:
    text = _in_a_fork(run)
    return (
        1
        if text.startswith("RuntimeError: `iso.sample` must not be called in a process made by `fork`")
        else 0
    )


_ZEROS = np.zeros(2, np.float32)
_TRANSFORMED = {
    "jit": lambda: jax.jit(lambda x: run(data=x).posterior)(NUMBERS),
    "jit over the start": lambda: jax.jit(lambda t: run(init=t).posterior)(_ZEROS),
    "jit over nothing": lambda: jax.jit(lambda x: run().posterior)(1.0),
    "vmap": lambda: jax.vmap(lambda x: run(data=x).posterior)(np.stack([NUMBERS] * 2)),
    "grad": lambda: jax.grad(lambda x: jnp.sum(run(data=x).posterior))(NUMBERS),
    "scan": lambda: jax.lax.scan(lambda c, x: (c, run(data=x).posterior), 0, np.stack([NUMBERS] * 2)),
    "make_jaxpr": lambda: jax.make_jaxpr(lambda x: run(data=x).posterior)(NUMBERS),
    "eval_shape": lambda: jax.eval_shape(lambda x: run(data=x).posterior, NUMBERS),
    "jvp": lambda: jax.jvp(lambda t: run(init=t).posterior, (_ZEROS,), (_ZEROS,)),
    "checkpoint": lambda: jax.checkpoint(lambda x: run(data=x).posterior)(NUMBERS),
    "default run in jit": lambda: jax.jit(lambda x: run(data=x, sampler=None).posterior)(NUMBERS),
}


def place(rng: np.random.Generator) -> Case:
    """Return a call from a place where it cannot compute."""
    if rng.random() < 0.1:
        answer = lambda: np.ones(())
        run()  # so that the threads of JAX are there
        return Case("place", "fork", _refused_in_a_fork, answer, ("iso.sample",))
    name = str(rng.choice(list(_TRANSFORMED)))
    return Case("place", name, _TRANSFORMED[name], None, ("iso.sample",))
