"""Everything that can be refused before the first step is refused here, by name, value and repair."""

import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.data.plans import MinibatchPlan
from isotherm.data.rows import as_rows
from isotherm.errors import IsothermWarning, check_count, must
from isotherm.gradients.control_variate import ControlVariate
from isotherm.gradients.minibatch import Gradient, Minibatch
from isotherm.posterior import Posterior
from isotherm.preconditioner import Preconditioner
from isotherm.samplers.base import Sampler
from isotherm.sums import passes
from isotherm.transforms import check_support
from isotherm.tuning.record import Warmup, fingerprint

_ROWS_TRIED = 4096


def check_kinds(
    posterior: Any, sampler: Any, minibatch: Any, gradient: Any, preconditioner: Any = None
) -> None:
    """Each argument is of the kind its name says."""
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
            raise must(name, f"an `iso.{kind.__name__}`", value, hint, error=TypeError)


def check_open(**arguments: Any) -> None:
    """Refuse what a warm-up would overrule."""
    for name, value in arguments.items():
        if value is not None:
            raise must(
                name, "None where no sampler is given", value, "Give a sampler as well.", error=TypeError
            )


def check_temperature(posterior: Posterior, sampler: Sampler) -> None:
    """With transforms the volume is counted at the temperature of the posterior, which must be that of the run."""
    T = sampler.temperature
    if posterior.transforms is None or T is None:
        return
    if callable(T) or float(T) != float(posterior.temperature):
        raise must(
            f"temperature` of `{type(sampler).__name__}",
            "left to the posterior where there are transforms",
            T,
            "Write `Posterior(..., temperature=T)`.",
        )


def check_warmup(found: Warmup, posterior: Posterior, data: PyTree, batch_size: int | None) -> None:
    """A warm-up serves the posterior, the rows and the batch that it was made for."""
    same = posterior is found.posterior or bool(eqx.tree_equal(posterior, found.posterior))
    if not same or fingerprint(as_rows(data, known=True)[0]) != found.fingerprint:
        what = "data" if same else "posterior"
        raise ValueError(
            f"`init` must be a warm-up of this very {what}; it was made for another. Call `iso.warmup` again."
        )
    if batch_size is not None and batch_size != found.batch_size:
        raise must(
            "batch_size",
            f"that of the warm-up, {found.batch_size}",
            batch_size,
            "Give it to `iso.warmup`, which fits the step to it.",
        )


def check_reserved(**arguments: Any) -> None:
    """Refuse what later versions will do, rather than ignore it."""
    for name, value in arguments.items():
        if value is not None:
            raise must(name, "None in this version", value, "Keep the draws with `draws.save(path)`.")


def check_batch_size(batch_size: Any, num_data: int, sampler: Sampler, gradient: Gradient) -> int:
    """1 <= n <= N, and n >= 2 where a covariance is estimated from the batch."""
    size = check_count("batch_size", batch_size, minimum=1)
    if size > num_data:
        raise must("batch_size", f"at most the number of rows, {num_data}", size)
    if size == 1 and sampler.covariance is not None and isinstance(gradient, Minibatch | ControlVariate):
        raise must(
            "batch_size",
            f"at least 2, since `{type(sampler).__name__}` estimates a covariance from each batch",
            size,
        )
    return size


def check_steps(steps: int) -> None:
    """Steps are counted in 32 bits, and random numbers are addressed by that count."""
    if steps >= 2**31:
        raise must("burn_in + num_draws * thinning", "below 2^31", steps)


def as_key(seed: Any) -> Key[Array, ""]:
    """A typed key from an integer or a key."""
    if isinstance(seed, jax.Array) and jnp.issubdtype(seed.dtype, jax.dtypes.prng_key):
        if seed.ndim:
            raise must("seed", "one key", seed, "Pass one of them; chains derive their own.")
        return seed
    if isinstance(seed, jax.Array | np.ndarray) and seed.dtype == np.uint32 and seed.shape == (2,):
        return jax.random.wrap_key_data(jnp.asarray(seed))
    number = check_count("seed", seed, minimum=0)
    # A key is seeded by 32 bits; the others are folded in, so that no two seeds below 2^64 share a chain.
    key = jax.random.key(number % 2**32)
    return key if number < 2**32 else jax.random.fold_in(key, (number >> 32) % 2**32)


def as_position(init: PyTree) -> PyTree[Array]:
    """`init` as arrays of floating dtype."""
    leaves = tree.named_leaves(init)
    if not leaves:
        raise ValueError("`init` must hold at least one array of parameters; got an empty pytree.")
    for name, leaf in leaves:
        label = f"init.{name}" if name else "init"
        if not isinstance(leaf, int | float) and not hasattr(leaf, "dtype"):
            raise TypeError(
                f"`{label}` must be an array of parameters; got {type(leaf).__name__}. Of a module keep the arrays "
                "alone: `params, rest = eqx.partition(model, eqx.is_inexact_array)`."
            )
        dtype = leaf.dtype if hasattr(leaf, "dtype") else jnp.asarray(leaf).dtype
        if not jnp.issubdtype(dtype, jnp.floating):
            raise TypeError(
                f"`{label}` must have a floating dtype, since gradients move it; got {dtype}. "
                "Write 0.0 instead of 0, or convert with `.astype(float)`."
            )
    # An explicit dtype: a weakly typed leaf would change its type, and compile again, after the first chunk.
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.asarray(x).dtype), init)


def freed(init: PyTree, posterior: Posterior) -> PyTree[Array]:
    """`init` as arrays of free parameters; refused where it is outside the support."""
    position, constraint = as_position(init), posterior.constraint
    if constraint is None:
        return position
    try:
        check_support(constraint, position)
    except (ValueError, TypeError) as error:
        if "inside the support" not in str(error):
            error.add_note("`transforms` must have the structure of `init`, or be a prefix of it.")
        raise
    return constraint.free(position)


def in_32_bits(init: PyTree, posterior: Posterior) -> tuple[PyTree, Posterior]:
    """Parameters of 16 bits are moved in 32, where a small step is not lost, and rounded where they are used."""
    position = as_position(init)
    dtypes = tuple(x.dtype for x in jax.tree.leaves(position))
    if all(dtype.itemsize > 2 for dtype in dtypes):
        return position, posterior
    wide = jax.tree.map(lambda x: x.astype(jnp.promote_types(x.dtype, jnp.float32)), position)
    prior = None if posterior.log_prior is None else Rounded(posterior.log_prior, dtypes)
    functions = (Rounded(posterior.log_likelihood, dtypes), prior)
    return wide, eqx.tree_at(
        lambda p: (p.log_likelihood, p.log_prior), posterior, functions, is_leaf=lambda x: x is None
    )


class Rounded(eqx.Module):
    """A function of parameters that sees them in the dtypes it was written for, and answers in 32 bits."""

    function: Callable[..., Array]
    dtypes: tuple[Any, ...] = eqx.field(static=True)

    def __call__(self, position: PyTree, *rest: PyTree) -> Array:
        """The function at the rounded position."""
        leaves, structure = jax.tree.flatten(position)
        rounded = [x.astype(dtype) for x, dtype in zip(leaves, self.dtypes, strict=True)]
        value = self.function(structure.unflatten(rounded), *rest)
        return value.astype(jnp.promote_types(value.dtype, jnp.float32))


def per_chain(
    init: PyTree,
    posterior: Posterior,
    data: PyTree,
    *,
    num_chains: int,
    init_scale: float,
    init_per_chain: bool | None,
    key: Key[Array, ""],
) -> PyTree[Array]:
    """One start per chain: `init` jittered, or `init` itself where it has a leading chain axis."""
    if not np.isfinite(init_scale) or init_scale < 0:
        raise must("init_scale", "a finite number not below 0", init_scale)
    position = as_position(init)
    shared = _log_density_shapes(posterior, position, data)
    if init_per_chain is None and not shared.fits and _has_chain_axis(position, num_chains):
        # Where neither reading fits, the error is that of the plain one.
        first = jax.tree.map(lambda x: x[0], position)
        init_per_chain = _log_density_shapes(posterior, first, data).fits
    if init_per_chain:
        _check_chain_axis(position, num_chains)
        shared = _log_density_shapes(posterior, jax.tree.map(lambda x: x[0], position), data)
        positions = position
    else:
        positions = jax.tree.map(lambda x: jnp.broadcast_to(x, (num_chains, *x.shape)), position)
    shared.raise_if_unfit(position, num_chains)
    if init_scale > 0:
        positions = tree.add_scaled(positions, (init_scale, tree.normal_like(positions, key=key)))
    _check_finite(posterior, positions, data)
    return positions


def warn_if_not_white(sampler: Sampler, minibatch: MinibatchPlan) -> None:
    """Covariance control takes the noise of a step to be independent of the last."""
    if sampler.assumes_white_noise and not minibatch.white:
        warnings.warn(
            f"`{type(sampler).__name__}` corrects for gradient noise that is independent from step to step, "
            f"and `{type(minibatch).__name__}` batches are not: the samples will be too narrow although the "
            "kinetic temperature looks right. Use `iso.WithReplacement()` or `iso.WithoutReplacement()`.",
            IsothermWarning,
            stacklevel=5,
        )


class _Shapes(eqx.Module):
    """What the log-likelihood and the log-prior return for one start, or the error they raise."""

    batched: bool
    rows: int
    likelihood: Any = None
    prior: Any = None
    error: Exception | None = None

    @property
    def fits(self) -> bool:
        return self.error is None and self._complaint() is None

    def _complaint(self) -> tuple[str, str, Any] | None:
        wanted = (self.rows,) if self.batched else ()
        rule = f"one value per row, shape {wanted}" if self.batched else "a scalar"
        for name, got, shape, what in (
            ("log_likelihood", self.likelihood, wanted, rule),
            ("log_prior", self.prior, (), "a scalar"),
        ):
            if not hasattr(got, "shape") or got.shape != shape:
                return name, what, got
            if not jnp.issubdtype(got.dtype, jnp.floating):
                return name, "a value of floating dtype", got
        return None

    def raise_if_unfit(self, position: PyTree, num_chains: int) -> None:
        if self.error is not None:
            shapes = ", ".join(f"{n or 'init'}: {x.shape}" for n, x in tree.named_leaves(position))
            self.error.add_note(
                "This was raised by `log_likelihood` or `log_prior` when called with the shapes of `init` "
                f"({shapes}) and of one row of `data`. For a start per chain give every leaf a leading axis of "
                f"{num_chains}."
            )
            raise self.error
        if (complaint := self._complaint()) is not None:
            name, rule, got = complaint
            shown = f"shape {got.shape}, dtype {got.dtype}" if hasattr(got, "shape") else repr(got)
            repair = "For a function of a whole batch pass `batched=True`." if not self.batched else ""
            raise TypeError(f"`{name}` must return {rule}; got {shown}. {repair}".rstrip())


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


def _has_chain_axis(position: PyTree, num_chains: int) -> bool:
    return all(x.ndim > 0 and x.shape[0] == num_chains for x in jax.tree.leaves(position))


def _check_chain_axis(position: PyTree, num_chains: int) -> None:
    for name, x in tree.named_leaves(position):
        if x.ndim == 0 or x.shape[0] != num_chains:
            label = f"init.{name}" if name else "init"
            raise must(label, f"an array with a leading axis of {num_chains} chains", x)


@compile_quickly
def _log_densities(
    posterior: Posterior, positions: PyTree, data: PyTree, index: Int[Array, " n"]
) -> tuple[Array, Array]:
    rows = passes.picked(data, index)
    likelihoods = jax.vmap(posterior.row_log_likelihoods, in_axes=(0, None))(positions, rows)
    return likelihoods, jax.vmap(posterior.prior_log_density)(positions)


def _check_finite(posterior: Posterior, positions: PyTree, data: PyTree) -> None:
    for name, x in tree.named_leaves(positions):
        if not np.all(np.isfinite(np.asarray(x))):  # without a program for it
            raise ValueError(f"`init{'.' + name if name else ''}` must be finite; it holds NaN or infinity.")
    num_data = jax.tree.leaves(data)[0].shape[0]
    index = np.unique(np.linspace(0, num_data - 1, min(num_data, _ROWS_TRIED)).astype(int))
    found = _log_densities(posterior, positions, data, jnp.asarray(index, jnp.int32))
    likelihoods, priors = (np.asarray(x) for x in found)
    bad_chain, bad_row = np.nonzero(~np.isfinite(likelihoods))
    if len(bad_chain):
        value = likelihoods[bad_chain[0], bad_row[0]]
        raise ValueError(
            f"`init` must have a finite log-density; the log-likelihood of row {index[bad_row[0]]} is {value} "
            f"at the start of chain {bad_chain[0]}. Start inside the support of the posterior."
        )
    if not np.isfinite(priors).all():
        chain = int(np.argmax(~np.isfinite(priors)))
        raise ValueError(
            f"`init` must have a finite log-density; the log-prior is {priors[chain]} at the start of chain "
            f"{chain}. Start inside the support of the prior."
        )
