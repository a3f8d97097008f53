"""Runs of a NumPyro model: its arguments, its sites, and functions of the parameters built from them."""

import copy
import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from numpyro import handlers
from numpyro.distributions import Distribution, biject_to, constraints
from numpyro.infer import init_to_uniform
from numpyro.primitives import Messenger

from isotherm import tree
from isotherm.compilation import compile_quickly


class Arguments(eqx.Module):
    """The arguments of a model, without the arrays of rows."""

    constants: tuple[Any, ...]  # leaves; `None` in place of rows
    names: tuple[str | None, ...] = eqx.field(static=True)  # of the rows; `None` for constants
    structure: Any = eqx.field(static=True)

    def filled(self, rows: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments with these rows."""
        pairs = zip(self.constants, self.names, strict=True)
        return self.structure.unflatten([x if name is None else rows[name] for x, name in pairs])

    def shapes(self, data: dict[str, Any], num_rows: int) -> tuple[Any, ...]:
        """The arguments as shapes, with this many rows."""
        return as_shapes(self.filled({name: _shape(x, num_rows) for name, x in data.items()}))


def is_array(x: Any) -> bool:
    """Whether `x` is an array of JAX or NumPy with at least one axis."""
    return isinstance(x, jax.Array | np.ndarray) and x.ndim > 0


def as_shapes(args: PyTree) -> PyTree:
    """The arguments with arrays replaced by their shapes and dtypes."""
    return jax.tree.map(lambda x: _shape(x, len(x)) if is_array(x) else x, args)


def _shape(x: Any, num_rows: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((num_rows, *x.shape[1:]), jnp.asarray(x[:0]).dtype)


def labels(model: Callable[..., Any], count: int) -> list[str]:
    """The names of the first `count` arguments in the signature of the model."""
    try:
        parameters = inspect.signature(model).parameters.values()
    except (TypeError, ValueError):
        parameters = ()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [names[i] if i < len(names) else f"args.{i}" for i in range(count)]


def trace_near_zero(model: Callable[..., Any], args: tuple[Any, ...], *, radius: float) -> dict:
    """The sites of a run whose unconstrained latent values are uniform in ±radius."""
    start = init_to_uniform(radius=radius)
    run = handlers.substitute(handlers.seed(model, jax.random.key(0)), substitute_fn=start)
    return handlers.trace(run).get_trace(*args)


def sites_at(model: Callable[..., Any], args: tuple[Any, ...], params: PyTree) -> dict:
    """The sites of a run in which the latent sites have these values."""
    return handlers.trace(handlers.substitute(model, data=params)).get_trace(*args)


@dataclasses.dataclass(frozen=True)
class Site:
    """A site as known from shapes alone. `plates` maps the name of each plate to its axis."""

    type: str
    observed: bool
    discrete: bool
    real: bool
    plates: dict[str, int]
    shape: tuple[int, ...]
    fits: bool  # whether an observed value has the shape of its distribution

    @property
    def latent(self) -> bool:
        """Whether it is a parameter."""
        return self.type == "sample" and not self.observed


class DryRun(Messenger):
    """The sites and plates of a run on shapes, which computes no values.

    `plates` maps names to size and subsample size. `error` is the exception that the model raised, if any.
    """

    def __init__(self, model: Callable[..., Any], shapes: tuple[Any, ...]) -> None:
        super().__init__()
        self.sites: dict[str, Site] = {}
        self.plates: dict[str, tuple[int, int | None]] = {}
        self.draws_numbers = False
        self.error: Exception | None = None

        def run(args: tuple[Any, ...]) -> None:
            with self:
                trace = trace_near_zero(model, args, radius=0.0)
            self.sites = {name: _site(site) for name, site in trace.items() if site["type"] != "plate"}

        try:
            eqx.filter_eval_shape(run, shapes)
        except Exception as error:
            self.error = error

    def process_message(self, msg: Any) -> None:
        """Record plates, and whether the model draws random numbers outside its sites."""
        if msg["type"] == "plate":
            self.plates[msg["name"]] = msg["args"]
        self.draws_numbers |= msg["type"] == "prng_key"


def _site(site: dict[str, Any]) -> Site:
    observed, shape = bool(site.get("is_observed")), jnp.shape(site["value"])
    wanted = tuple(site["fn"].shape()) if site["type"] == "sample" else shape
    support = site["fn"].support if site["type"] == "sample" and not observed else None
    return Site(
        type=site["type"],
        observed=observed,
        discrete=support is not None and support.is_discrete,
        real=_is_real(support),
        plates={frame.name: frame.dim for frame in site.get("cond_indep_stack", ())},
        shape=shape,
        fits=not observed or _broadcasts(shape, wanted),
    )


def _is_real(support: Any) -> bool:
    if isinstance(support, constraints.independent):
        return _is_real(support.base_constraint)
    return isinstance(support, type(constraints.real))


def _broadcasts(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        return False


def log_prob(site: dict[str, Any]) -> Array:
    """The log-probability of a site, with its mask and scale, for each element of its batch."""
    value = _smooth(site["fn"]).log_prob(site["value"])
    return value if site["scale"] is None else site["scale"] * value


def _smooth(distribution: Any) -> Any:
    """Return the distribution with logits that are never exactly zero, also of distributions inside it.

    At zero, NumPyro's `max(x, 0) + log1p(exp(-|x|))` has a derivative of 0 instead of 1/2. Single precision hits zero
    once in some 10^7 rows, and a row that is drawn as one of very many then gives a chain an enormous kick.
    """
    changed = {}
    for name, value in vars(distribution).items():
        if isinstance(value, Distribution):
            changed[name] = _smooth(value)
        elif name == "logits":
            x = jnp.asarray(value)
            changed[name] = x + jnp.where(x == 0, jnp.finfo(x.dtype).tiny, 0)
    if not changed:
        return distribution
    smooth = copy.copy(distribution)
    vars(smooth).update(changed)
    return smooth


class RowLikelihood(eqx.Module):
    """The log-likelihood of each row: that of the observed sites in the data plate, summed over all other axes."""

    model: Callable[..., Any]
    arguments: Arguments
    sites: tuple[tuple[str, int], ...] = eqx.field(
        static=True
    )  # name, and the axis of the plate counted from the right

    def __call__(self, params: PyTree, rows: PyTree) -> Float[Array, " n"]:
        """One value per row."""
        trace = sites_at(self.model, self.arguments.filled(rows), params)
        terms = [_along(log_prob(trace[name]), axis) for name, axis in self.sites]
        return sum(terms[1:], start=terms[0])


def _along(x: Array, axis: int) -> Float[Array, " n"]:
    return jnp.sum(x, axis=tuple(i for i in range(x.ndim) if i != x.ndim + axis))


class RowIndependent(eqx.Module):
    """Sites that do not depend on the rows, from a run on two rows: those of the prior, or deterministic ones."""

    model: Callable[..., Any]
    arguments: Arguments
    rows: dict[str, Array]
    sites: tuple[str, ...] = eqx.field(static=True)

    def values(self, params: PyTree) -> dict[str, Array]:
        """The values of the sites."""
        trace = sites_at(self.model, self.arguments.filled(self.rows), params)
        return {name: jnp.asarray(trace[name]["value"]) for name in self.sites}

    def log_probs(self, params: PyTree) -> dict[str, Float[Array, ""]]:
        """The log-probabilities of the sites."""
        trace = sites_at(self.model, self.arguments.filled(self.rows), params)
        return {name: jnp.sum(log_prob(trace[name])) for name in self.sites}

    def __call__(self, params: PyTree) -> Float[Array, ""]:
        """The log-prior."""
        return sum(self.log_probs(params).values(), start=jnp.zeros(()))


class Trial(eqx.Module):
    """Values of a model that the checks compare, at `init` and at a second, random position.

    - `init`: the latent sites, with unconstrained values zero.
    - `transforms`: of the latent sites, at `init` and at the second position.
    - `beside`: the log-likelihoods of a few rows, and of the last and first of them alone.
    - `log_probs`, `values`: of sites that should not depend on the rows, with two rows and with a few.
    """

    init: dict[str, Array]
    transforms: tuple[dict[str, Any], dict[str, Any]]
    beside: tuple[Array, Array]
    log_probs: tuple[dict[str, Array], dict[str, Array]]
    values: tuple[dict[str, Array], dict[str, Array]]


@compile_quickly
def trial_of(
    likelihood: RowLikelihood,
    prior: RowIndependent,
    deterministic: RowIndependent,
    latents: tuple[str, ...],
    rows: dict[str, Array],
) -> Trial:
    """The trial of a model, compiled as one program."""
    ends, model, arguments = prior.rows, likelihood.model, likelihood.arguments
    middle, random = (trace_near_zero(model, arguments.filled(ends), radius=radius) for radius in (0.0, 1.0))
    params = {name: random[name]["value"] for name in latents}
    bijections = lambda trace: {name: biject_to(trace[name]["fn"].support) for name in latents}
    on_rows = lambda sites: eqx.tree_at(lambda s: s.rows, sites, rows)
    return Trial(
        {name: middle[name]["value"] for name in latents},
        (bijections(middle), bijections(random)),
        (likelihood(params, rows), likelihood(params, ends)),
        (prior.log_probs(params), on_rows(prior).log_probs(params)),
        (deterministic.values(params), on_rows(deterministic).values(params)),
    )


def row_leaves(model: Callable[..., Any], args: tuple[Any, ...]) -> list[tuple[str, str, Any]]:
    """Argument name, leaf name and leaf, such as ("table", "table.x", array), in flattening order."""
    return [
        (label, f"{label}.{name}" if name else label, leaf)
        for label, arg in zip(labels(model, len(args)), args, strict=True)
        for name, leaf in tree.named_leaves(arg)
    ]
