"""Hostile log-likelihoods and log-priors."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

import isotherm as iso

from .case import Case, Function, raises
from .models import BARE, NUMBERS, prior, run, squares

_SEEN: list[Any] = []


def _python_loop(t, d):
    total = 0.0
    for i in range(2):
        total = total - 0.5 * (d[i] - t[i]) ** 2
    return total


def _scan(t, d):
    return jax.lax.scan(lambda s, x: (s - 0.5 * (x[0] - x[1]) ** 2, None), 0.0, (d, t))[0]


def _fori(t, d):
    return jax.lax.fori_loop(0, 2, lambda i, s: s - 0.5 * (d[i] - t[i]) ** 2, 0.0)


def _while(t, d):
    return jax.lax.while_loop(
        lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1] - (d[s[0]] - t[s[0]]) ** 2), (0, 0.0)
    )[1]


def _callback(t, d):
    return jax.pure_callback(
        lambda t, d: np.float32(-0.5 * np.sum((d - t) ** 2)), jax.ShapeDtypeStruct((), np.float32), t, d
    )


def _constant_callback(t, d):
    io_callback(lambda x: None, None, d)
    return squares(t, d)


def _raising_callback(t, d):
    shape = jax.ShapeDtypeStruct((), np.float32)
    offset = jax.pure_callback(raises, shape, d, vmap_method="sequential")
    return squares(t, d) + jax.lax.stop_gradient(offset)


@jax.custom_vjp
def _backward_only(x):
    return -0.5 * x**2


_backward_only.defvjp(lambda x: (_backward_only(x), x), lambda x, g: (-g * x,))


@jax.custom_vjp
def _broken_vjp(x):
    return -0.5 * x**2


_broken_vjp.defvjp(lambda x: (-0.5 * x**2, x), lambda x, g: (jnp.ones(7),))


class _Stateful:
    calls = 0

    def __call__(self, t, d):
        self.calls += 1
        return squares(t, d)


LIKELIHOODS = {
    "Python loop": Function(_python_loop, squares),
    "scan": Function(_scan, squares),
    "fori": Function(_fori, squares),
    "while": Function(_while),
    "vmap inside": Function(lambda t, d: jnp.sum(jax.vmap(lambda a, b: -0.5 * (a - b) ** 2)(d, t)), squares),
    "jit inside": Function(jax.jit(squares), squares),
    "checkpoint": Function(jax.checkpoint(squares), squares),
    "callback": Function(_callback),
    "callback without a result": Function(_constant_callback, squares),
    "callback that raises": Function(_raising_callback),
    "print": Function(lambda t, d: (jax.debug.callback(lambda x: None, d), squares(t, d))[1], squares),
    "side effect": Function(lambda t, d: (_SEEN.append(t), squares(t, d))[1], squares),
    "state": Function(_Stateful(), squares),
    "raises": Function(raises),
    "asserts": Function(lambda t, d: (_ for _ in ()).throw(AssertionError("mine"))),
    "None": Function(lambda t, d: None),
    "no return": Function(lambda t, d: print(end="")),
    "vector": Function(lambda t, d: -0.5 * (d - t) ** 2),
    "one element": Function(lambda t, d: squares(t, d)[None]),
    "tuple": Function(lambda t, d: (squares(t, d), 0.0)),
    "dictionary": Function(lambda t, d: {"value": squares(t, d)}),
    "text": Function(lambda t, d: "low"),
    "integer": Function(lambda t, d: jnp.sum(d).astype(int)),
    "bool": Function(lambda t, d: jnp.all(d < t)),
    "complex": Function(lambda t, d: squares(t, d) + 0j),
    "constant": Function(lambda t, d: 1.0),
    "NumPy constant": Function(lambda t, d: np.float32(1.0), lambda t, d: 0.0 * t[0]),
    "NumPy": Function(lambda t, d: -0.5 * np.sum((np.asarray(d) - np.asarray(t)) ** 2)),
    "NumPy functions": Function(lambda t, d: -0.5 * np.sum((d - t) ** 2), squares),
    "float": Function(lambda t, d: float(squares(t, d))),
    "item": Function(lambda t, d: squares(t, d).item()),
    "branch": Function(lambda t, d: squares(t, d) if d[0] > 0 else 2 * squares(t, d)),
    "where": Function(lambda t, d: jnp.where(d[0] >= 0, squares(t, d), jnp.nan), squares),
    "cond": Function(lambda t, d: jax.lax.cond(d[0] >= 0, squares, lambda t, d: 0.0, t, d), squares),
    "nan at some rows": Function(lambda t, d: jnp.where(d[0] > 2, jnp.nan, squares(t, d))),
    "-inf at some rows": Function(lambda t, d: jnp.where(d[0] > 2, -jnp.inf, squares(t, d))),
    "nan gradient": Function(lambda t, d: squares(t, d) + jnp.sqrt(jnp.sum((t * 0) ** 2)) * 0),
    "no arguments": Function(lambda: 0.0),
    "one argument": Function(lambda t: -0.5 * jnp.sum(t**2)),
    "three arguments": Function(lambda t, d, key: squares(t, d)),
    "arguments swapped": Function(lambda d, t: squares(t, d), squares),
    "wrong keys": Function(lambda t, d: squares(t["w"], d["x"])),
    "wrong shape": Function(lambda t, d: squares(jnp.ones((3, 4)) @ t, d)),
    "custom_vjp": Function(lambda t, d: jnp.sum(_backward_only(d - t)), squares),
    "broken custom_vjp": Function(lambda t, d: jnp.sum(_broken_vjp(d - t))),
    "half": Function(lambda t, d: squares(t.astype(jnp.float16), d.astype(jnp.float16)), squares),
    "endless": Function(lambda t, d: LIKELIHOODS["endless"].function(t, d)),
    "generator": Function(lambda t, d: (x for x in (0.0,))),
    "coroutine": Function(type("Later", (), {"__call__": lambda self, t, d: iter(())})()),
}  # fmt: skip

_POSTERIORS: dict[tuple[str, bool], Any] = {}


def _posterior(name: str, as_prior: bool) -> Any:
    """Return a posterior with a hostile function, made once so that it is compiled once."""
    if (name, as_prior) not in _POSTERIORS:
        f = LIKELIHOODS[name].function
        parts = (squares, lambda t: f(t, jnp.ones(2))) if as_prior else (f, prior)
        _POSTERIORS[name, as_prior] = iso.Posterior(*parts)
    return _POSTERIORS[name, as_prior]


# Functions that are fine as a prior: of a constant row, or constant.
_FINE_PRIORS = {"nan at some rows", "-inf at some rows", "branch"}
_CONSTANT_PRIORS = {"constant", "NumPy constant", "integer"}
_WITH_ONES = iso.Posterior(squares, lambda t: squares(t, jnp.ones(2)))
_FLAT = iso.Posterior(squares)
_CONSTANT = iso.Posterior(LIKELIHOODS["NumPy constant"].plain, prior)


def likelihood(rng: np.random.Generator) -> Case:
    """Return a call with a hostile log-likelihood or log-prior."""
    name, as_prior, by_default = str(rng.choice(list(LIKELIHOODS))), rng.random() < 0.2, rng.random() < 0.2
    rows = rng.permutation(NUMBERS)
    options = {"sampler": None, "batch_size": None} if by_default else {}
    call = lambda posterior: run(posterior, rows, **options)
    wanted = None
    if as_prior and name in _CONSTANT_PRIORS:
        wanted = _FLAT
    elif LIKELIHOODS[name].plain is not None or (as_prior and name in _FINE_PRIORS):
        wanted = _WITH_ONES if as_prior else _CONSTANT if name == "NumPy constant" else BARE
    return Case(
        "likelihood",
        f"{name}{' as prior' if as_prior else ''}{' by default' if by_default else ''}",
        lambda: call(_posterior(name, as_prior)),
        None if wanted is None else lambda: call(wanted),
        ("log_likelihood", "log_prior", "init"),
        users=True,
    )
