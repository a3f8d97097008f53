"""Checks of arguments, made before anything is computed. Errors name the argument, its value and a repair."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from isotherm import tree
from isotherm.chains.setup import Setup
from isotherm.data.fingerprint import fingerprint, of_source
from isotherm.data.opening import Opened, as_source, brought
from isotherm.data.plans import MinibatchPlan
from isotherm.data.rows import as_rows
from isotherm.data.sources.arrays import arrays
from isotherm.data.sources.base import Source
from isotherm.data.stream import Stream, rows_in_memory
from isotherm.errors import check_count, describe, must
from isotherm.gradients.control_variate import ControlVariate
from isotherm.gradients.minibatch import Gradient, Minibatch
from isotherm.numeric import real_scalar
from isotherm.posterior import Posterior
from isotherm.preconditioner import Preconditioner
from isotherm.samplers.base import Sampler
from isotherm.sums import precision

_COMPARED = 4096  # rows of a source, by which it is compared with that of a setup


@contextlib.contextmanager
def callbacks_noted() -> Iterator[None]:
    """Add a note to an error of a callback, which JAX raises without the name of the function that called it."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "callback" in str(error).lower():
            error.add_note(
                "This was raised by a callback that `log_likelihood`, `log_prior` or a schedule calls."
            )
        raise


def check_kinds(
    posterior: Any, sampler: Any, minibatch: Any, gradient: Any, preconditioner: Any = None
) -> None:
    """Raise unless each argument has the type that its name says."""
    for name, value, kind in (
        ("posterior", posterior, Posterior),
        ("sampler", sampler, Sampler),
        ("minibatch", minibatch, MinibatchPlan),
        ("gradient", gradient, Gradient),
        ("preconditioner", preconditioner, Preconditioner),
    ):
        if name == "preconditioner" and value is None:
            continue
        if not isinstance(value, kind):
            hint = f"Write `{value.__name__}(...)`." if isinstance(value, type) else ""
            where = "iso" if kind is Posterior else "iso.extend"
            raise must(name, f"an `{where}.{kind.__name__}`", value, hint, error=TypeError)


def check_posterior(posterior: Any) -> None:
    """Raise if `posterior` is not an `iso.Posterior`."""
    if not isinstance(posterior, Posterior):
        raise must("posterior", "an `iso.Posterior`", posterior, error=TypeError)


def check_open(**arguments: Any) -> None:
    """Raise if an argument is given that a warm-up would override."""
    for name, value in arguments.items():
        if value is not None:
            raise TypeError(
                f"`{name}` can only be set together with `sampler`; got {describe(value)} and no sampler."
            )


def check_temperature(posterior: Posterior, sampler: Sampler) -> None:
    """Raise if the sampler sets another temperature than a posterior with transforms.

    The volume of the transforms is counted at the temperature of the posterior.
    """
    T = sampler.temperature
    if posterior.transforms is None or T is None:
        return
    if callable(T) or float(T) != float(posterior.temperature):
        raise must(
            f"temperature` of `{type(sampler).__name__}",
            "left to the posterior if there are transforms",
            T,
            "Write `Posterior(..., temperature=T)`.",
        )


def check_forward_mode(posterior: Posterior, data: PyTree, position: PyTree[Array]) -> None:
    """Raise if a warm-up could not differentiate the log-density. Nothing is computed.

    Hessians and control variates need forward-mode derivatives, which functions with a `jax.custom_vjp` do not have.
    """
    rows = jax.tree.map(lambda x: jax.ShapeDtypeStruct((2, *x.shape[1:]), x.dtype), rows_in_memory(data))
    total = lambda x, rows: jnp.sum(posterior.row_log_likelihoods(x, rows))
    prior = lambda x, rows: posterior.prior_log_density(x)
    try:
        text = str(jax.make_jaxpr(lambda x, rows: (total(x, rows), prior(x, rows)))(position, rows))
    except Exception:  # the user's functions may raise anything, which they do again in the warm-up
        return
    if "custom_vjp" not in text:
        return
    # Control variates need derivatives of first order, of the likelihood alone. Hessians are those of gradients.
    for name, f in (
        ("log_likelihood", total),
        ("log_likelihood", jax.value_and_grad(total)),
        ("log_prior", jax.value_and_grad(prior)),
    ):
        forward = lambda x, rows, f=f: jax.jvp(lambda y: f(y, rows), (x,), (x,))
        try:
            jax.jit(forward).lower(position, rows)  # tracing alone does not find it
        except Exception as error:  # the user's functions may raise anything
            if isinstance(error, TypeError) and "custom_vjp" in str(error):
                raise TypeError(
                    f"`{name}` must have forward-mode derivatives, which the Hessians of a warm-up need; it calls a "
                    "function with a `jax.custom_vjp`, which has none. Define the derivative by `jax.custom_jvp`, or "
                    "give a `sampler` and a `batch_size`: plain minibatches need no such derivatives."
                ) from error


def checked_setup(setup: Setup, posterior: Posterior, data: PyTree, batch_size: int | None) -> Setup:
    """Return the setup, to read rows from `data`. Raises unless it was made for them, posterior and batch size."""
    problem = setup.problem
    same = posterior is problem.posterior or bool(eqx.tree_equal(posterior, problem.posterior))
    # Rows with the fingerprint of the setup's are those rows, which were checked for NaN when it was made.
    if isinstance(problem.data, Stream):
        source = as_source(data) or arrays(data)
        known = same and of_source(source) == problem.fingerprint and _same_rows(source, problem.data)
        stream = dataclasses.replace(problem.data, source=source, state=source.state())
        setup = dataclasses.replace(setup, problem=dataclasses.replace(problem, data=stream))
    else:
        wide = any(x.dtype == np.float64 for x in jax.tree.leaves(problem.data))
        with precision.float64(wide):
            known = same and fingerprint(as_rows(_held(data), known=True)[0]) == problem.fingerprint
    if not known:
        what, other = ("data", "other data") if same else ("posterior", "another posterior")
        raise ValueError(
            f"`init` must be a setup for this {what}; it was made for {other}. Make a new one with `iso.warmup` or "
            "`iso.setup`."
        )
    if batch_size is not None and batch_size != setup.batch_size:
        raise must(
            "batch_size",
            f"left out or {setup.batch_size}, the batch size of the setup that is passed as `init`",
            batch_size,
            f"To use {batch_size}, call `iso.warmup(..., batch_size={batch_size})`, which chooses a step size to "
            "match.",
        )
    return setup


def _same_rows(source: Source, data: Stream) -> bool:
    """Return whether a source has the rows of a stream, by the times of its files or by some thousand of its rows."""
    if data.state and source.state() == data.state:
        return True
    some = np.argsort(data.sample_index[:_COMPARED])
    rows = data.narrowed(source.take(data.sample_index[some]))
    pairs = zip(jax.tree.leaves(rows), jax.tree.leaves(data.sample), strict=True)
    return all(np.array_equal(np.asarray(x), np.asarray(y)[some]) for x, y in pairs)


def _held(data: PyTree) -> PyTree:
    """Return rows in memory. Those of an opened source are not the ones of a setup that has arrays."""
    rows = brought(data)
    return rows.sample if isinstance(rows, Opened) else rows


def check_batch_size(batch_size: Any, num_data: int, samplers: Sequence[Sampler], gradient: Gradient) -> int:
    """Return n. Raises unless 1 <= n <= N, and n >= 2 if a sampler estimates a covariance from each batch."""
    size = check_count("batch_size", batch_size, minimum=1)
    if size > num_data:
        raise must("batch_size", f"at most the number of rows, {num_data}", size)
    for sampler in samplers:
        if size == 1 and sampler.covariance is not None and isinstance(gradient, Minibatch | ControlVariate):
            raise must(
                "batch_size",
                f"at least 2, since `{type(sampler).__name__}` estimates a covariance from each batch",
                size,
            )
    return size


def check_steps(steps: int) -> None:
    """Raise if 32 bits cannot count the steps, by which random numbers are addressed."""
    if steps >= 2**31:
        raise must(
            "burn_in + num_draws * thinning",
            "below 2^31, since random numbers are addressed by a 32-bit step number",
            steps,
            "Take several runs with different seeds.",
        )


def check_init_scale(init_scale: Any) -> float:
    """Return `init_scale` as a float. Raises unless it is finite and not negative."""
    number = real_scalar(init_scale)
    if number is None:
        raise must("init_scale", "a finite number, 0 or more", init_scale, error=TypeError)
    if not 0 <= float(number) <= np.finfo(np.float32).max:
        raise must("init_scale", "a finite number, 0 or more", init_scale)
    return float(number)


_RECOVERED = 0.5  # part of v that may be lost by L^-1 L v: 0.5 is the rounding of L with a condition of 5e6


def check_coordinates(preconditioner: Preconditioner, start: PyTree[Array]) -> None:
    """Raise unless coordinates fit the parameters, are finite, and L^-1 undoes L."""
    label = f"preconditioner` (`{type(preconditioner).__name__}`)"
    shapes = jax.tree.map(jnp.shape, start)
    try:
        there = jax.eval_shape(lambda x: preconditioner.to_params(preconditioner.from_params(x)), start)
    except Exception as error:
        reason = str(error).partition("\n")[0][:200]
        raise ValueError(f"`{label} must fit the parameters, {shapes}; it does not: {reason}.") from error
    if jax.tree.map(jnp.shape, there) != shapes:
        got = jax.tree.map(jnp.shape, there)
        raise ValueError(f"`{label} must keep the shapes of the parameters, {shapes}; it returns {got}.")
    v = tree.normal_like(start, key=jax.random.key(0))
    back, moved = preconditioner.solve(preconditioner.multiply(v)), preconditioner.to_params(v)
    v, back, moved = (tree.flat(x) for x in (v, back, moved))
    if not np.isfinite(moved).all() or not np.linalg.norm(back - v) <= _RECOVERED * np.linalg.norm(v):
        raise ValueError(
            f"`{label} must be finite and invertible; multiplying by L and solving does not give a vector back. "
            "Check its scales, that an `inverse` belongs to its `root`, and that `vectors` are orthonormal."
        )
