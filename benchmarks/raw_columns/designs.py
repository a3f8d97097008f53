"""Regressions on raw columns: the named cases, and a generator of designs from a seed."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from exact import orthogonalise

import isotherm as iso

_LARGEST_ENTRY = 1e15  # beyond it, sums of squares overflow in float32
_LEAST_REMAINDER = 1e-13  # of a column after projection on the others, relative to its norm
_LARGEST_LEVERAGE = 0.05  # so that about twenty rows or more decide on every coefficient
_LARGEST_PREDICTOR = 4.0  # distance from its mean
_CASE_ROWS = 20_000


@dataclasses.dataclass(frozen=True)
class Design:
    """A regression: `x` has a column of ones; `prior_scale` is the sd of the prior, `None` if it is flat."""

    name: str
    x: np.ndarray
    y: np.ndarray
    likelihood: str
    prior_scale: np.ndarray | None
    seed: int

    def problem(self) -> tuple[iso.Posterior, dict[str, np.ndarray], dict[str, jax.Array]]:
        """Return the arguments of `iso.sample`, as a user would write them."""
        init, scale = {"w": jnp.zeros(self.x.shape[1])}, self.prior_scale
        if self.likelihood == "normal, log sigma":
            init["log_sigma"] = jnp.zeros(())
        prior = None if scale is None else lambda params: -0.5 * jnp.sum((params["w"] / scale) ** 2)
        posterior = iso.Posterior(_LOG_LIKELIHOODS[self.likelihood], prior)
        return posterior, {"x": self.x, "y": self.y}, init


def _normal(params: dict, row: dict) -> jax.Array:
    return -0.5 * (row["y"] - row["x"] @ params["w"]) ** 2


def _normal_log_sigma(params: dict, row: dict) -> jax.Array:
    z = (row["y"] - row["x"] @ params["w"]) * jnp.exp(-params["log_sigma"])
    return -0.5 * z**2 - params["log_sigma"]


def _logistic(params: dict, row: dict) -> jax.Array:
    eta = row["x"] @ params["w"]
    return row["y"] * eta - jax.nn.softplus(eta)


def _poisson(params: dict, row: dict) -> jax.Array:
    eta = row["x"] @ params["w"]
    return row["y"] * eta - jnp.exp(eta)


_LOG_LIKELIHOODS: dict[str, Callable] = {
    "normal": _normal,
    "normal, log sigma": _normal_log_sigma,
    "logistic": _logistic,
    "poisson": _poisson,
}
_MEAN_PREDICTOR = {"normal": (-2.0, 2.0), "logistic": (-1.5, 1.5), "poisson": (-0.5, 1.5)}


def _location(rng: np.random.Generator) -> list[np.ndarray]:
    lat, lon = rng.normal(45, 2, _CASE_ROWS), rng.normal(-100, 5, _CASE_ROWS)
    return [lat, lon, lat * lon]


def _column(mean: float, sd: float) -> Callable[[np.random.Generator], list[np.ndarray]]:
    return lambda rng: [rng.normal(mean, sd, _CASE_ROWS)]


_COLUMNS: dict[str, Callable[[np.random.Generator], list[np.ndarray]]] = {
    "lat, lon, lat x lon": _location,
    "2000 ± 10": _column(2000, 10),
    "1000 ± 10": _column(1000, 10),
    "1.6e9 ± 1e7": _column(1.6e9, 1e7),
    "1e5 ± 10": _column(1e5, 10),
    "1e6 ± 1": _column(1e6, 1),
}
CASES = [(name, kind) for name in _COLUMNS for kind in ("normal", "normal, log sigma", "logistic")]


def case(name: str, likelihood: str, seed: int) -> Design:
    """Return a named case with a flat prior."""
    rng, dtype = np.random.default_rng(seed), _dtype(seed)
    x = np.stack([np.ones(_CASE_ROWS), *_COLUMNS[name](rng)], axis=1).astype(dtype)
    y = _outcomes(rng, x, likelihood.split(",")[0])
    return Design(name, x, y.astype(dtype), likelihood, None, seed)


def generated(seed: int) -> Design:
    """Return a design of up to eight columns, made from `seed` alone."""
    rng, dtype = np.random.default_rng(seed), _dtype(seed)
    rows = round(10 ** rng.uniform(np.log10(2_000), np.log10(50_000)))
    num_columns = int(rng.integers(2, 9))
    likelihood = str(rng.choice(list(_MEAN_PREDICTOR)))
    x, bases, kinds = np.ones((rows, 1), dtype), [], []
    while x.shape[1] < num_columns:
        kind = str(rng.choice(["base", "product", "power", "copy"])) if bases else "base"
        column, text = _MAKERS[kind](rng, bases, x)
        wider = np.concatenate([x, _in_units(rng, column).astype(dtype)[:, None]], axis=1)
        if not _determined(wider):
            continue
        x = wider
        kinds.append(text)
        if kind == "base":
            bases.append(column)
    y = _outcomes(rng, x, likelihood).astype(dtype)
    scale = _natural_scale(x) * 100 if rng.random() < 0.5 else None
    return Design(f"{seed}: {' '.join(kinds)}", x, y, likelihood, scale, seed)


def _base(rng: np.random.Generator, bases: list[np.ndarray], x: np.ndarray) -> tuple[np.ndarray, str]:
    """Return a column of sd 1 with an offset of up to a million, of one of three shapes."""
    offset = rng.choice([-1, 1]) * 10 ** rng.uniform(-1, 6)
    shape = rng.integers(3)
    if shape == 0:
        spread = rng.normal(size=len(x))
    elif shape == 1:
        spread = rng.uniform(-(3**0.5), 3**0.5, len(x))
    else:
        spread = rng.gamma(4, 0.5, len(x)) - 2
    return offset + spread, f"{offset:.0e}"


def _product(rng: np.random.Generator, bases: list[np.ndarray], x: np.ndarray) -> tuple[np.ndarray, str]:
    i, j = rng.integers(len(bases), size=2)
    return bases[i] * bases[j], "product"


def _power(rng: np.random.Generator, bases: list[np.ndarray], x: np.ndarray) -> tuple[np.ndarray, str]:
    power = int(rng.integers(2, 4))
    return bases[rng.integers(len(bases))] ** power, "square" if power == 2 else "cube"


def _copy(rng: np.random.Generator, bases: list[np.ndarray], x: np.ndarray) -> tuple[np.ndarray, str]:
    column = x[:, rng.integers(1, x.shape[1])].astype(np.float64)
    noise = 10 ** rng.uniform(-3, -1)
    return column + noise * column.std() * rng.normal(size=len(x)), f"copy{noise:.0e}"


_MAKERS = {"base": _base, "product": _product, "power": _power, "copy": _copy}


def _in_units(rng: np.random.Generator, column: np.ndarray) -> np.ndarray:
    return column * min(10 ** rng.uniform(-6, 9), _LARGEST_ENTRY / np.abs(column).max())


def _determined(x: np.ndarray) -> bool:
    """Return whether the rows, as rounded, determine every coefficient, and no row decides on one alone."""
    norms = np.sqrt(np.sum(np.square(x, dtype=np.longdouble), axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        q, r = orthogonalise(x)
    leverage = np.max(np.sum(np.square(q), axis=1))
    return bool(r[-1, -1] > _LEAST_REMAINDER * norms[-1]) and bool(leverage < _LARGEST_LEVERAGE)


def _natural_scale(x: np.ndarray) -> np.ndarray:
    """Return 1/sd of every column; for the intercept, the size that the offsets in sd give it."""
    wide = x[:, 1:].astype(np.float64)
    mean, sd = wide.mean(axis=0), wide.std(axis=0)
    return np.append(np.sqrt(1 + np.sum((mean / sd) ** 2)), 1 / sd)


def _outcomes(rng: np.random.Generator, x: np.ndarray, likelihood: str) -> np.ndarray:
    """Draw outcomes whose linear predictor has an sd of 1, or less if some rows would be far from the others."""
    columns = x[:, 1:].astype(np.float64)
    eta = (columns - columns.mean(axis=0)) / columns.std(axis=0) @ rng.normal(size=columns.shape[1])
    eta /= max(eta.std(), np.abs(eta).max() / _LARGEST_PREDICTOR)
    eta += rng.uniform(*_MEAN_PREDICTOR[likelihood])
    if likelihood == "normal":
        return rng.normal(eta)
    if likelihood == "logistic":
        return (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(np.float64)
    return rng.poisson(np.exp(eta)).astype(np.float64)


def _dtype(seed: int) -> type[np.floating]:
    """Return float32 for even seeds and float64 for odd ones."""
    return np.float64 if seed % 2 else np.float32
