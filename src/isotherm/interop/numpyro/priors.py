"""What the prior of a site is: normal around which location, with which scale, read off a run of the model."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree
from numpyro import distributions as dist

from isotherm.compilation import compile_quickly
from isotherm.interop.numpyro.run import Arguments, sites_at

_CLOSE = 1e-4  # relative: far above rounding in 32 bits, and far below the difference of two random numbers


class Normal(NamedTuple):
    """Location and scale, or Cholesky factor, of each level at two positions: arrays (position, level, effect...)."""

    location: np.ndarray
    factor: np.ndarray

    @property
    def shared(self) -> bool:
        """Whether all levels have the same prior."""
        return all(_close(x, x[:, :1]) for x in self)

    @property
    def fixed(self) -> bool:
        """Whether the prior does not depend on other sites."""
        return all(_close(x[0], x[1]) for x in self)

    @property
    def standard(self) -> bool:
        """Whether the prior is standard normal."""
        eye = np.eye(self.factor.shape[-1]) if self.factor.ndim == self.location.ndim + 1 else 1.0
        return _close(self.location, 0.0) and _close(self.factor, eye)


class Named(NamedTuple):
    """The sites that a prior consists of. `location` is `None` if it is neither a site nor a number."""

    scale: str | None
    correlations: str | None
    location: str | float | None


def normal_priors(
    model: Callable[..., Any],
    arguments: Arguments,
    rows: dict[str, Array],
    names: tuple[str, ...],
    positions: PyTree[Array],
) -> tuple[dict[str, Normal], dict[str, float]]:
    """Return the priors of those sites that are normal, and the medians of half-normal and similar ones.

    Leaves of `positions` have a leading axis of two random positions.
    """
    read = _Read(model, arguments, rows, names)
    found = [_at(read, {name: x[i] for name, x in positions.items()}) for i in range(2)]
    normal = {
        name: Normal(*(np.stack([np.asarray(f[0][name][j]) for f in found]) for j in range(2)))
        for name in found[0][0]
    }
    return normal, {name: float(np.median(x)) for name, x in found[0][1].items()}


class _Read(eqx.Module):
    model: Callable[..., Any]
    arguments: Arguments
    rows: dict[str, Array]
    names: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, params: PyTree) -> tuple[dict[str, tuple[Array, Array]], dict[str, Array]]:
        trace = sites_at(self.model, self.arguments.filled(self.rows), params)
        normal, medians = {}, {}
        for name in self.names:
            site = trace[name]
            prior, shape = _innermost(site["fn"]), jnp.shape(site["value"])
            if site["scale"] is not None or prior is None:
                continue
            if isinstance(prior, dist.Normal) and shape:
                whole = lambda x, shape=shape: jnp.broadcast_to(x, shape).reshape(shape[0], -1)
                normal[name] = whole(prior.loc), whole(prior.scale)
            if isinstance(prior, dist.MultivariateNormal) and len(shape) == 2:
                tril = jnp.broadcast_to(jnp.asarray(prior.scale_tril), (*shape, shape[1]))
                normal[name] = jnp.broadcast_to(jnp.asarray(prior.loc), shape), tril
            median = _median(prior)
            if median is not None:
                medians[name] = jnp.asarray(median)
        return normal, medians


@compile_quickly
def _at(read: _Read, params: PyTree) -> tuple[dict[str, tuple[Array, Array]], dict[str, Array]]:
    return read(params)


def _innermost(prior: Any) -> Any:
    """Return a distribution without the wrappers that give it its shape; `None` if it has others."""
    while isinstance(prior, dist.Independent | dist.ExpandedDistribution):
        prior = prior.base_dist
    return None if isinstance(prior, dist.MaskedDistribution) else prior


def _median(prior: Any) -> Any:
    """Return the median of a prior whose density is positive at zero and falls from there."""
    if isinstance(prior, dist.HalfNormal):
        return 0.6745 * prior.scale
    if isinstance(prior, dist.HalfCauchy):
        return prior.scale
    if isinstance(prior, dist.Exponential):
        return np.log(2) / prior.rate
    return None


def named_parts(prior: Normal, positions: dict[str, np.ndarray], positive: tuple[str, ...]) -> Named:
    """Return the sites whose values are the location and the scale of a prior, at both positions."""
    location, factor = prior.location[:, 0], prior.factor[:, 0]
    for scale, correlations in scales_of(positions, positive, location.shape[1]):
        if _close(factors(positions, scale, correlations, factor), factor):
            return Named(scale, correlations, _location(location, positions))
    return Named(None, None, None)


def scales_of(
    positions: dict[str, np.ndarray], positive: tuple[str, ...], width: int
) -> list[tuple[str, str | None]]:
    """Return the sites, and pairs of sites, that may be scale, and scale and Cholesky factor, of `width` effects."""
    scales = [name for name in positive if positions[name].shape[1:] in ((), (1,), (width,))]
    roots = [
        name for name, x in positions.items() if width > 1 and x.shape[1:] == (width, width) and _is_root(x)
    ]
    return [(scale, None) for scale in scales] + [(scale, root) for scale in scales for root in roots]


def factors(
    positions: dict[str, np.ndarray], scale: str, correlations: str | None, like: np.ndarray
) -> np.ndarray:
    """Return the Cholesky factor that the sites make, at each position, or the scales if `like` has no matrices."""
    width = like.shape[1]
    sd = np.broadcast_to(positions[scale].reshape(len(like), -1), (len(like), width))
    if correlations is not None:
        matrix = sd[:, :, None] * positions[correlations]
        return matrix if like.ndim == 3 else np.full_like(like, np.nan)
    return sd if like.ndim == 2 else sd[:, :, None] * np.eye(width)


def _is_root(x: np.ndarray) -> bool:
    """Return whether these are Cholesky factors of matrices of correlations."""
    return _close(np.triu(x, 1), 0.0) and _close(np.sum(x**2, axis=2), 1.0)


def _location(location: np.ndarray, positions: dict[str, np.ndarray]) -> str | float | None:
    if _close(location, float(location[0, 0])):
        return float(location[0, 0])
    width = location.shape[1]
    for name, x in positions.items():
        if x.shape[1:] in ((), (1,), (width,)) and _close(location, x.reshape(2, -1)):
            return name
    return None


def _close(a: np.ndarray, b: np.ndarray | float) -> bool:
    return bool(np.allclose(a, b, rtol=_CLOSE, atol=_CLOSE * 1e-2))
