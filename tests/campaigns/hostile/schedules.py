"""Hostile schedules of hyper-parameters."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso

from .case import Case, Function, raises
from .models import run


def _constant(step: Any) -> float:
    return 0.01


_SEEN: list[Any] = []


def _appends(step: Any) -> Any:
    _SEEN.append(step)
    return 0.01


class _Callable:
    def __call__(self, step: Any) -> Any:
        return jnp.asarray(0.01)


SCHEDULES = {
    "constant": Function(_constant, _constant),
    "no argument": Function(lambda: 0.01),
    "two arguments": Function(lambda a, b: 0.01),
    "keyword only": Function(lambda *, step: 0.01),
    "raises": Function(raises),
    "None": Function(lambda step: None),
    "array": Function(lambda step: jnp.ones(3) * 0.01),
    "one element": Function(lambda step: jnp.ones(1) * 0.01),
    "text": Function(lambda step: "0.01"),
    "complex": Function(lambda step: 0.01 + 1j),
    "bool": Function(lambda step: step == 0),
    "nan": Function(lambda step: jnp.nan),
    "negative": Function(lambda step: -0.01),
    "zero": Function(lambda step: 0.0 * step),
    "branch": Function(lambda step: 0.01 if step < 5 else 0.005),
    "float of the step": Function(lambda step: 0.01 + 0 * float(step)),
    "NumPy of the step": Function(lambda step: 0.01 + 0 * np.asarray(step)),
    "index of a list": Function(lambda step: ([0.01] * 9)[step]),
    "side effect": Function(_appends, _constant),
    "NumPy": Function(lambda step: np.float64(0.01), _constant),
    "longdouble": Function(lambda step: np.longdouble(0.01), _constant),
    "big-endian": Function(lambda step: np.array(0.01, ">f8"), _constant),
    "integer": Function(lambda step: 1, lambda step: 1.0),
    "object": Function(_Callable(), _constant),
    "generator": Function(lambda step: (x for x in (0.01,))),
    "dictionary": Function(lambda step: {"h": 0.01}),
    "partial": Function(jax.tree_util.Partial(lambda h, step: h, 0.01), _constant),
    "jit": Function(jax.jit(_constant), _constant),
    "class": Function(iso.SGLD),
    "builtin": Function(len),
}

_OWNERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "SGLD": ("step_size", iso.SGLD),
    "ModifiedSGLD": ("step_size", iso.ModifiedSGLD),
    "SGHMC": ("friction", lambda f: iso.SGHMC(0.01, f)),
    "SGNHT": ("temperature", lambda f: iso.SGNHT(0.01, 1.0, temperature=f)),
    "CCAdL": ("step_size", lambda f: iso.CCAdL(f, 1.0)),
    "ModifiedCCAdL": ("friction", lambda f: iso.ModifiedCCAdL(0.01, f)),
    "Dense": ("averaging", lambda f: iso.CCAdL(0.01, 1.0, iso.Dense(averaging=f))),
    "MatrixFree": ("averaging", lambda f: iso.CCAdL(0.01, 1.0, iso.MatrixFree(averaging=f))),
    "thermal mass": ("thermal_mass", lambda f: iso.SGNHT(0.01, 1.0, thermal_mass=f)),
    "xi": ("initial_xi", lambda f: iso.SGNHT(0.01, 1.0, initial_xi=f)),
    "mass": ("mass", lambda f: iso.SGNHT(0.01, 1.0, mass=f)),
}
_NO_SCHEDULES = {"thermal_mass", "initial_xi", "mass"}


def schedule(rng: np.random.Generator) -> Case:
    """Return a call with a hostile schedule."""
    name, owner = (str(rng.choice(list(x))) for x in (SCHEDULES, _OWNERS))
    argument, make = _OWNERS[owner]
    chosen = SCHEDULES[name]
    if argument == "averaging" and name == "zero":  # a weight that stops the average
        chosen = Function(chosen.function, lambda t: jnp.zeros(()))
    known = chosen.plain is not None and argument not in _NO_SCHEDULES
    return Case(
        "schedule",
        f"{argument} of {owner}: {name}",
        lambda: run(sampler=make(chosen.function)),
        (lambda: run(sampler=make(chosen.plain))) if known else None,
        (argument,),
        users=True,
    )
