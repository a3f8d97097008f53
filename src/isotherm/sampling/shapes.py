"""Checks that the log-density accepts the shapes of `init` and of the rows, with or without a chain axis."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from isotherm import tree
from isotherm.errors import must
from isotherm.posterior import Posterior


def has_chain_axis(
    position: PyTree[Array], posterior: Posterior, data: PyTree, *, num_chains: int, declared: bool | None
) -> bool:
    """Return whether `init` holds a start for each chain, judging by the shapes that the log-likelihood accepts.

    `declared` is the user's statement, if any. Raises if the parameters do not fit.
    """
    shared = _log_density_shapes(posterior, position, data)
    if declared is None and not shared.fits and _may_have_chain_axis(position, num_chains):
        # If neither interpretation fits, report the error without a chain axis.
        first = jax.tree.map(lambda x: x[0], position)
        declared = _log_density_shapes(posterior, first, data).fits
    if declared:
        _check_chain_axis(position, num_chains)
        shared = _log_density_shapes(posterior, jax.tree.map(lambda x: x[0], position), data)
    shared.raise_if_unfit(position, num_chains)
    one = jax.tree.map(lambda x: x[0], position) if declared else position
    _check_gradient(posterior, one, data)
    return bool(declared)


def _check_gradient(posterior: Posterior, position: PyTree, data: PyTree) -> None:
    """Trace the gradient as chains compute it, for two of them and two rows. Errors get a note, and nothing is run.

    Loops of unknown length and callbacks have a value and no gradient, and some functions cannot be batched.
    """
    rows = jax.tree.map(lambda x: jax.ShapeDtypeStruct((2, *x.shape[1:]), x.dtype), data)
    chains = jax.tree.map(lambda x: jax.ShapeDtypeStruct((2, *x.shape), x.dtype), position)
    for name, f in (
        ("log_likelihood", lambda x, rows: jnp.sum(posterior.row_log_likelihoods(x, rows))),
        ("log_prior", lambda x, rows: posterior.prior_log_density(x)),
    ):
        try:
            jax.eval_shape(jax.vmap(jax.grad(f), in_axes=(0, None)), chains, rows)
        except Exception as error:  # the user's functions may raise anything
            error.add_note(
                f"This was raised by the gradient of `{name}`, for several chains and rows at once (`jax.vmap` of "
                "`jax.grad`). Loops need a fixed length (`jax.lax.scan`), and callbacks a `vmap_method` and a "
                "derivative (`jax.custom_jvp`)."
            )
            raise


class _Shapes(eqx.Module):
    """What the log-likelihood and the log-prior return for one start, or the error they raise."""

    batched: bool
    rows: int
    likelihood: Any = None
    prior: Any = None
    error: Exception | None = None

    @property
    def _rows(self) -> str:
        return f"a batch of {self.rows} rows" if self.batched else "one row"

    @property
    def fits(self) -> bool:
        return self.error is None and self._complaint() is None

    def _complaint(self) -> tuple[str, str, Any] | None:
        wanted = (self.rows,) if self.batched else ()
        rule = "one value per row" if self.batched else "a scalar"
        for name, got, shape, what in (
            ("log_likelihood", self.likelihood, wanted, rule),
            ("log_prior", self.prior, (), "a scalar"),
        ):
            if isinstance(got, float):
                return name, f"{what}, computed from the parameters", got
            if isinstance(got, int) or not jnp.issubdtype(getattr(got, "dtype", float), jnp.floating):
                return name, f"{what}, of floating dtype so that it has a gradient", got
            if not hasattr(got, "shape") or got.shape != shape:
                return name, what, got
        return None

    def raise_if_unfit(self, position: PyTree, num_chains: int) -> None:
        if self.error is not None:
            self.error.add_note(
                "This was raised by `log_likelihood` or `log_prior` when called with the shapes of `init` "
                f"({tree.shapes(position, 'init')}) and of {self._rows} of `data`. For one start per chain, give "
                f"every leaf a leading axis of {num_chains}."
            )
            for repair in _repairs(self.error, position):
                self.error.add_note(repair)
            raise self.error
        if (complaint := self._complaint()) is not None:
            name, rule, got = complaint
            shown = f"shape {got.shape}, dtype {got.dtype}" if hasattr(got, "shape") else repr(got)
            if self.batched and name == "log_likelihood":
                returned = f"called with {self._rows}, it returned {shown} instead of shape ({self.rows},)"
                raise TypeError(f"`{name}` must return {rule}; {returned}.")
            # Only a value per row suggests that the function takes a batch.
            per_row = name == "log_likelihood" and not self.batched and getattr(got, "shape", ()) != ()
            repair = "For a function of a whole batch, pass `batched=True`." if per_row else ""
            raise TypeError(f"`{name}` must return {rule}; got {shown}. {repair}".rstrip())


_NOT_TRACED = (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError)


def _repairs(error: Exception, position: PyTree) -> Iterator[str]:
    """Yield what to change, if the error or `init` shows a common cause."""
    if isinstance(error, _NOT_TRACED):
        yield (
            "Both functions are compiled: use `jax.numpy` and `jax.scipy` in place of NumPy and SciPy, and "
            "`jnp.where` in place of `if`."
        )
    for name, x in tree.named_leaves(position, is_leaf=_is_list_of_numbers):
        if _is_list_of_numbers(x):
            label = f"init.{name}" if name else "init"
            yield (
                f"`{label}` is a list of {len(x)} numbers, which are {len(x)} parameters. For one array, write "
                "`jnp.array([...])`."
            )


def _is_list_of_numbers(x: Any) -> bool:
    return type(x) in (list, tuple) and len(x) > 0 and all(hasattr(y, "ndim") and y.ndim == 0 for y in x)


def _log_density_shapes(posterior: Posterior, position: PyTree, data: PyTree) -> _Shapes:
    rows = 2  # any batch will do for shapes
    sample = jax.tree.map(lambda x: jax.ShapeDtypeStruct((rows, *x.shape[1:]), x.dtype), data)
    if not posterior.batched:
        sample = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), sample)
    try:
        likelihood = eqx.filter_eval_shape(posterior.log_likelihood, position, sample)
        prior = eqx.filter_eval_shape(posterior.prior_log_density, position)
    except Exception as error:
        return _Shapes(posterior.batched, rows, error=error)
    return _Shapes(posterior.batched, rows, likelihood, prior)


def _may_have_chain_axis(position: PyTree, num_chains: int) -> bool:
    return all(x.ndim > 0 and x.shape[0] == num_chains for x in jax.tree.leaves(position))


def _check_chain_axis(position: PyTree, num_chains: int) -> None:
    for name, x in tree.named_leaves(position):
        if x.ndim == 0 or x.shape[0] != num_chains:
            label = f"init.{name}" if name else "init"
            raise must(label, f"an array with a leading axis of {num_chains} chains", x)
