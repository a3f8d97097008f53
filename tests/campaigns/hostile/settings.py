"""Hostile hyper-parameters of samplers, covariances, gradients, plans and coordinates, and counts, flags and kinds."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import isotherm as iso

from .case import Case
from .models import N, prior, run, squares
from .values import drawn

COVARIANCES = {
    "Dense": iso.Dense,
    "Diagonal": iso.Diagonal,
    "DiagonalLowRank": lambda **o: iso.DiagonalLowRank(1, **o),
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """An argument: how a value gets into a call, which numbers it accepts, and which of them to try."""

    name: str
    options: Callable[[Any], dict[str, Any]]
    accepts: Callable[[float], bool]
    plausible: tuple[float, ...]
    plain: Callable[[float], Any] = float
    also: tuple[str, ...] = ()


def _positive(x: float) -> bool:
    return 1e-45 < x < 3e38


def _finite(x: float) -> bool:
    return -3e38 < x < 3e38


def _count(least: int, most: int = 2**31 - 1) -> Callable[[float], bool]:
    return lambda x: np.isfinite(x) and x == int(x) and least <= x <= most


def _sampler(
    name: str, make: Callable[[Any], Any], accepts: Any = _positive, plausible: Any = (0.01, 0.125, 1.0)
):
    return Setting(name, lambda v: {"sampler": make(v)}, accepts, plausible)


def _momentum(kind: Any, **fixed: Any) -> list[Setting]:
    return [
        _sampler("step_size", lambda v: kind(v, 1.0, **fixed)),
        _sampler("friction", lambda v: kind(0.01, v, **fixed)),
        _sampler("temperature", lambda v: kind(0.01, 1.0, temperature=v, **fixed)),
        _sampler("mass", lambda v: kind(0.01, 1.0, mass=v, **fixed)),
    ]


def _thermostat(kind: Any, **fixed: Any) -> list[Setting]:
    return [
        *_momentum(kind, **fixed),
        _sampler("thermal_mass", lambda v: kind(0.01, 1.0, thermal_mass=v, **fixed), lambda x: x > 1e-45),
        _sampler("initial_xi", lambda v: kind(0.01, 1.0, initial_xi=v, **fixed), _finite),
    ]


def _covariances() -> list[Setting]:
    floor = lambda x: 0 <= x <= 1
    made = [
        _sampler("averaging", lambda v, k=k: iso.CCAdL(0.01, 1.0, k(averaging=v)), floor)
        for k in (*COVARIANCES.values(), iso.MatrixFree)
    ]
    made += [
        Setting(
            "contrasts",
            lambda v, k=k: {"sampler": iso.CCAdL(0.01, 1.0, k(contrasts=v))},
            _count(1),
            (1, 2),
            int,
        )
        for k in COVARIANCES.values()
    ]
    rank = lambda v: {"sampler": iso.CCAdL(0.01, 1.0, iso.DiagonalLowRank(v))}
    return [*made, Setting("rank", rank, _count(1, 2), (1, 2), int)]


def _counts() -> list[Setting]:
    plain = {
        "batch_size": (1, N),
        "num_draws": (1, 9),
        "thinning": (1, 9),
        "burn_in": (0, 9),
        "num_chains": (1, 9),
    }
    also = {"num_draws": ("burn_in + num_draws * thinning",), "thinning": ("burn_in + num_draws * thinning",)}
    also["burn_in"] = also["thinning"]
    return [
        Setting(name, lambda v, name=name: {name: v}, _count(*ends), (1, 2, 3, 4), int, also.get(name, ()))
        for name, ends in plain.items()
    ]


def _others() -> list[Setting]:
    scale = {"center": np.zeros(2, np.float32), "scale": np.ones(2, np.float32)}
    diagonal = lambda **o: {"preconditioner": iso.DiagonalPreconditioner(**(scale | o))}
    eye = np.eye(2, dtype=np.float32)
    dense = lambda **o: {"preconditioner": iso.DensePreconditioner(
        **({"center": scale["center"], "root": eye, "inverse": eye} | o))}  # fmt: skip
    full = lambda x: np.full(2, x, np.float32)
    never = lambda x: False
    control = lambda **o: {"gradient": iso.ControlVariate(**o)}
    bounded = lambda low, high: iso.Posterior(squares, prior, transforms=iso.Bounded(low, high))
    return [
        Setting("init_scale", lambda v: {"init_scale": v}, lambda x: 0 <= x < 1e38, (0.125, 1.0), float, ("init",)),
        Setting("temperature", lambda v: {"posterior": iso.Posterior(squares, prior, temperature=v)}, _positive, (1.0, 0.5)),
        Setting("scale", lambda v: diagonal(scale=v), lambda x: _finite(x) and x != 0, (1.0, 0.5), full, ("preconditioner",)),
        Setting("center", lambda v: diagonal(center=v), _finite, (0.0, 0.5), full, ("preconditioner",)),
        Setting("root", lambda v: dense(root=v), never, (1.0,), full, ("preconditioner",)),
        Setting("inverse", lambda v: dense(inverse=v), never, (1.0,), full, ("preconditioner",)),
        Setting("factors", lambda v: {"preconditioner": iso.LowRankPreconditioner(
            scale["center"], scale["scale"], np.eye(2, dtype=np.float32)[:1], v)}, lambda x: _finite(x) and x != 0, (1.0,), lambda x: np.full(1, x, np.float32), ("preconditioner",)),
        Setting("order", lambda v: control(order=v), lambda x: x in (1, 2), (1, 2), int),
        Setting("refresh", lambda v: control(refresh=v), _count(1), (1, 2), int),
        Setting("anchor", lambda v: control(anchor=v), never, (0.5,), full),
        Setting("rows_per_run", lambda v: {"minibatch": iso.RandomBlocks(v)}, _count(1, N), (1, 2, 3), int),
        Setting("reshuffle_every", lambda v: {"minibatch": iso.RandomBlocks(2, v)}, _count(1), (1, 2), int),
        Setting("tickets", lambda v: {"minibatch": iso.data.Weighted(v)}, never, (1.0, 2.0)),
        Setting("low", lambda v: {"posterior": bounded(v, 9.0)}, lambda x: _finite(x) and x < 0, (-1.0, -2.0), float, ("init", "high")),
        Setting("high", lambda v: {"posterior": bounded(-1.0, v)}, lambda x: _finite(x) and x > 0, (1.0, 9.0), float, ("init",)),
        Setting("devices", lambda v: {"devices": v}, lambda x: x == 1, (1,), int),
        Setting("sampler", lambda v: {"sampler": v}, never, (1.0,)),
        Setting("posterior", lambda v: {"posterior": v}, never, (1.0,)),
        Setting("minibatch", lambda v: {"minibatch": v}, never, (1.0,)),
        Setting("gradient", lambda v: {"gradient": v}, never, (1.0,)),
        Setting("preconditioner", lambda v: {"preconditioner": v}, never, (1.0,)),
        Setting("init_per_chain", lambda v: {"init_per_chain": v}, never, (0, 1)),
        Setting("progress", lambda v: {"progress": v}, never, (0, 1)),
        Setting("covariance", lambda v: {"sampler": iso.CCAdL(0.01, 1.0, v)}, never, (1.0,)),
        Setting("covariance", lambda v: {"sampler": iso.ModifiedSGLD(0.01, v)}, never, (1.0,)),
        Setting("covariance", lambda v: {"sampler": iso.SGHMC(0.01, 1.0, v)}, never, (1.0,)),
        Setting("scheme", lambda v: {"sampler": iso.CCAdL(0.01, 1.0, scheme=v)}, never, (1.0,)),
        Setting("form", lambda v: {"sampler": iso.ModifiedSGLD(0.01, form=v)}, never, (1.0,)),
        Setting("estimate", lambda v: {"sampler": iso.CCAdL(0.01, 1.0, iso.Dense(estimate=v))}, never, (1.0,)),
        Setting("transforms", lambda v: {"posterior": iso.Posterior(squares, prior, transforms=v)}, never, (1.0,)),
        Setting("batched", lambda v: {"posterior": iso.Posterior(squares, prior, batched=v)}, never, (1.0,)),
        Setting("fused", lambda v: {"gradient": iso.Minibatch(fused=v)}, never, (1.0,)),
        Setting("log_likelihood", lambda v: {"posterior": iso.Posterior(v)}, never, (1.0,)),
        Setting("log_prior", lambda v: {"posterior": iso.Posterior(squares, v)}, never, (1.0,)),
    ]  # fmt: skip


SETTINGS = [
    _sampler("step_size", iso.SGLD),
    _sampler("temperature", lambda v: iso.SGLD(0.01, temperature=v)),
    _sampler("step_size", iso.ModifiedSGLD),
    _sampler("temperature", lambda v: iso.ModifiedSGLD(0.01, temperature=v)),
    *_momentum(iso.SGHMC),
    *_thermostat(iso.SGNHT),
    *_thermostat(iso.CCAdL),
    *_thermostat(iso.CCAdL, scheme="symmetric"),
    *_thermostat(iso.ModifiedCCAdL),
    *_covariances(),
    *_others(),
]
COUNTS = _counts()

# Values that mean something to arguments which take no number; `None` is the default of some of them.
_MEANINGFUL = {
    "init_per_chain": {"False", "np.True_", "True"},
    "progress": {"True", "False", "np.True_"},
    "batched": {"False", "True", "np.True_"},
    "fused": {"True", "False", "np.True_"},
    "transforms": {"empty list"},
    "mass": {"two elements"},
    "center": {"two elements"},
    "anchor": {"two elements"},
    "scale": {"two elements"},
}


def setting(rng: np.random.Generator) -> Case:
    """Return a call with a hostile setting."""
    return _of("setting", SETTINGS[rng.integers(len(SETTINGS))], rng)


def count(rng: np.random.Generator) -> Case:
    """Return a call with a hostile count."""
    return _of("count", COUNTS[rng.integers(len(COUNTS))], rng)


def _of(kind: str, chosen: Setting, rng: np.random.Generator) -> Case:
    label, value, number = drawn(rng, chosen.plausible)
    while label in _MEANINGFUL.get(chosen.name, ()):
        label, value, number = drawn(rng, chosen.plausible)
    plain = None
    if number is not None and chosen.accepts(number):
        plain = lambda: run(**chosen.options(chosen.plain(number)))
    names = (chosen.name, *chosen.also)
    call = lambda: run(**chosen.options(value))
    return Case(kind, f"{chosen.name}={label}", call, plain, names, users=callable(value))
