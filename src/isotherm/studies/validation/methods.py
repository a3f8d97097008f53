"""The samplers of the validation table, by the names of its rows."""

import dataclasses
import functools
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Literal

from jaxtyping import PyTree

from isotherm.covariance import Covariance, Dense, Diagonal, DiagonalLowRank, MatrixFree
from isotherm.errors import must
from isotherm.loading import load_function
from isotherm.samplers import SGHMC, SGLD, SGNHT, CCAdL, ModifiedCCAdL, ModifiedSGLD, Sampler
from isotherm.samplers.momentum import Scheme

GROUP = "isotherm.samplers"  # of entry points of packages
Form = Literal["exact", "first-order"]


@dataclasses.dataclass(frozen=True)
class Scales:
    """Hyper-parameters for one target: step sizes with and without momentum, friction and mass."""

    step: float
    langevin_step: float
    friction: float
    mass: PyTree


def _ccadl(covariance: Covariance, scheme: Scheme = "euler") -> Callable[[Scales], Sampler]:
    return lambda k: CCAdL(k.step, k.friction, covariance=covariance, scheme=scheme, mass=k.mass)


def _sghmc(covariance: Covariance | None, scheme: Scheme = "euler") -> Callable[[Scales], Sampler]:
    return lambda k: SGHMC(k.step, k.friction, covariance=covariance, scheme=scheme, mass=k.mass)


def _sgnht(scheme: Scheme = "euler") -> Callable[[Scales], Sampler]:
    return lambda k: SGNHT(k.step, k.friction, scheme=scheme, mass=k.mass)


def _modified_sgld(covariance: Covariance, form: Form = "exact") -> Callable[[Scales], Sampler]:
    return lambda k: ModifiedSGLD(k.langevin_step, covariance=covariance, form=form)


METHODS: dict[str, Callable[[Scales], Sampler]] = {
    "SGLD": lambda k: SGLD(k.langevin_step),
    "ModifiedSGLD diagonal": _modified_sgld(Diagonal()),
    "ModifiedSGLD dense": _modified_sgld(Dense()),
    "ModifiedSGLD first-order": _modified_sgld(Dense(), "first-order"),
    "SGHMC": _sghmc(None),
    "SGHMC diagonal": _sghmc(Diagonal()),
    "SGHMC dense": _sghmc(Dense()),
    "SGNHT": _sgnht(),
    "CCAdL diagonal": _ccadl(Diagonal()),
    "CCAdL dense": _ccadl(Dense()),
    "CCAdL symmetric": _ccadl(Dense(), "symmetric"),
}

# Run on fewer targets.
VARIANTS: dict[str, Callable[[Scales], Sampler]] = {
    "ModifiedSGLD low rank": _modified_sgld(DiagonalLowRank(rank=2)),
    "ModifiedSGLD matrix-free": _modified_sgld(MatrixFree(), "first-order"),
    "SGHMC low rank": _sghmc(DiagonalLowRank(rank=2)),
    "SGHMC symmetric": _sghmc(None, "symmetric"),
    "SGHMC diagonal symmetric": _sghmc(Diagonal(), "symmetric"),
    "SGHMC dense symmetric": _sghmc(Dense(), "symmetric"),
    "SGHMC low rank symmetric": _sghmc(DiagonalLowRank(rank=2), "symmetric"),
    "SGNHT midpoint": _sgnht("euler-midpoint"),
    "SGNHT symmetric": _sgnht("symmetric"),
    "CCAdL dense exact": _ccadl(Dense("exact")),
    "CCAdL four contrasts": _ccadl(Dense(contrasts=4)),
    "CCAdL low rank": _ccadl(DiagonalLowRank(rank=2)),
    "CCAdL matrix-free": _ccadl(MatrixFree()),
    "CCAdL midpoint": _ccadl(Dense(), "euler-midpoint"),
    "CCAdL diagonal symmetric": _ccadl(Diagonal(), "symmetric"),
    "CCAdL low rank symmetric": _ccadl(DiagonalLowRank(rank=2), "symmetric"),
    "CCAdL matrix-free symmetric": _ccadl(MatrixFree(), "symmetric"),
    "ModifiedCCAdL": lambda k: ModifiedCCAdL(k.step, k.friction, mass=k.mass),
}


def method(name: str) -> Callable[[Scales], Sampler]:
    """Return the method of this name.

    One of the table, a user's `file.py:function` or `package:Class`, or one that an installed package offers.
    """
    known = METHODS | VARIANTS
    if name in known:
        return known[name]
    if ":" in name:
        return of_user(load_function(name, Path.cwd()))
    offered = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in offered:
        names = ", ".join(sorted(offered)) or "none"
        repair = f"Installed packages offer {names} in the group {GROUP}."
        raise must(
            "sampler", "`file.py:function`, `package:Class` or a name that a package offers", name, repair
        )
    return of_user(offered[name].load())


def of_user(make: Callable[..., Sampler]) -> Callable[[Scales], Sampler]:
    """Return a user's function of the scales, or one that calls a class with those scales that it has a field for."""
    is_class = isinstance(make, type) and dataclasses.is_dataclass(make)
    fields = {field.name for field in dataclasses.fields(make)} if is_class else set()

    def sampler(scales: Scales) -> Sampler:
        step = scales.step if "friction" in fields else scales.langevin_step
        given = {"step_size": step, "friction": scales.friction, "mass": scales.mass}
        made = make(**{k: v for k, v in given.items() if k in fields}) if is_class else make(scales)
        if not isinstance(made, Sampler):
            raise must(
                "sampler", "a class of samplers, or a function that returns one", made, error=TypeError
            )
        return made

    return sampler


@functools.cache
def usual_s(name: str) -> float:
    """The default s of a method. Samplers without momentum are slower at the same s, and tolerate a larger one."""
    return 0.4 if method(name)(Scales(1.0, 1.0, 1.0, 1.0)).traits.s_power == 1 else 0.05
