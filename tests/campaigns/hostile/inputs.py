"""Hostile data and hostile starts, in calls of several kinds."""

from typing import Any

import jax.numpy as jnp
import numpy as np

import isotherm as iso

from .arrays import leaf
from .case import Case
from .models import BARE, COLUMNS, PAIR, TREE, N, default_sampler, run


def _as_it_is(posterior: Any, data: Any) -> Any:
    return run(posterior, data)


def _in_a_sweep(posterior: Any, data: Any) -> Any:
    samplers = [default_sampler(), iso.SGLD(0.02)]
    options = {"batch_size": 4, "num_draws": 2, "num_chains": 2, "progress": False}
    return iso.sweep(posterior, data, np.zeros(2, np.float32), samplers, **options)


def _by_default(posterior: Any, data: Any) -> Any:
    return run(posterior, data, sampler=None, batch_size=None)


def _by_setup(posterior: Any, data: Any) -> Any:
    init, options = np.zeros(2, np.float32), {"sampler": default_sampler(), "batch_size": 4}
    setup = iso.setup(posterior, data, init, **options)
    return run(posterior, data, setup, sampler=None, batch_size=None)


def _all_rows(posterior: Any, data: Any) -> Any:
    return run(posterior, data, gradient=iso.FullData())


def _control(posterior: Any, data: Any) -> Any:
    return run(posterior, data, gradient=iso.ControlVariate())


CALLS = (_as_it_is, _as_it_is, _as_it_is, _in_a_sweep, _by_default, _by_setup, _all_rows, _control)


def data(rng: np.random.Generator) -> Case:
    """Return a call with hostile data, alone or beside good data."""
    shape = rng.choice(["bare", "columns", "pair", "two"])
    x = leaf(rng, N, flat=bool(rng.integers(2)))
    # Each dtype needs a program of its own, so most of them are left to the simplest call.
    call = CALLS[rng.integers(len(CALLS))] if x.numbers is None or rng.random() < 0.3 else _as_it_is
    y = leaf(rng, N, typed=False) if shape == "two" else None  # a pair of dtypes would be a new program
    good = np.arange(N, dtype=np.float32) / N
    posterior, value, plain = {
        "bare": (BARE, x.value, x.numbers),
        "columns": (COLUMNS, {"x": x.value, "y": good}, {"x": x.numbers, "y": good}),
        "pair": (PAIR, (x.value, good), (x.numbers, good)),
        "two": (PAIR, (x.value, y and y.value), (x.numbers, y and y.numbers)),
    }[str(shape)]
    known = x.numbers is not None and (y is None or y.numbers is not None)
    return Case(
        "data",
        f"{call.__name__} {shape} {x.label}{' and ' + y.label if y else ''}",
        lambda: call(posterior, value),
        (lambda: call(posterior, plain)) if known else None,
        # A likelihood that meets complex numbers or numbers of 8 bits returns what has no gradient, or raises.
        ("data", "log_likelihood", "iso.sample", "init"),
        users=True,
    )


def init(rng: np.random.Generator) -> Case:
    """Return a call with a hostile start, alone, beside a good one, or in the wrong structure."""
    x = leaf(rng, 2, flat=True, start=True)
    shape = str(rng.choice(["bare", "tree", "nested", "default"]))
    numbers = x.numbers
    dtype = getattr(x.value, "dtype", None)
    if numbers is not None and dtype in (np.float16, jnp.bfloat16):
        numbers = numbers.astype(
            dtype.newbyteorder("=")
        )  # the log-density is that of parameters with so few digits
    floating = numbers is not None
    if shape == "tree":
        value, plain = (
            {"w": x.value, "b": np.zeros((), np.float32)},
            {"w": numbers, "b": np.zeros((), np.float32)},
        )
        call = lambda start: run(TREE, init=start)
    elif shape == "nested":
        value, plain = [x.value, {"more": jnp.zeros(2)}], None
        call, floating = lambda start: run(BARE, init=start), False
    else:
        value, plain = x.value, numbers
        options = {"sampler": None, "batch_size": None} if shape == "default" else {}
        call = lambda start: run(BARE, init=start, **options)
    return Case(
        "init",
        f"{shape} {x.label}",
        lambda: call(value),
        (lambda: call(plain)) if floating else None,
        ("init", "log_likelihood", "iso.sample"),
        users=True,
    )
