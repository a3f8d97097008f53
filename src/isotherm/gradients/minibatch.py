"""The noisy force from a batch, and its noise: the only place in a step where N/n, N^2/n and the sign are applied.

The noise is estimated without a gradient per row. Two halves of a batch give the force as their sum and a contrast
as their difference, at the cost of the force alone; see `docs/mathematics.md`.
"""

import abc
import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from isotherm import tree
from isotherm.data.plans import take_rows
from isotherm.errors import check_flag
from isotherm.gradients.fused import available, fuse
from isotherm.gradients.row_sums import RowSums
from isotherm.posterior import Posterior
from isotherm.readable import Readable
from isotherm.records import Batch, GradientEstimate, LinearOperator, Needs
from isotherm.sums.precision import exact


class Gradient(Readable, eqx.Module):
    """Estimates the force -grad U at a position from a batch. Subclass it for another estimator."""

    all_rows: eqx.AbstractClassVar[bool]

    @abc.abstractmethod
    def __call__(
        self, position: PyTree, batch: Batch, *, needs: Needs, key: Key[Array, ""]
    ) -> GradientEstimate:
        """Return the force at `position` and, if `needs` asks for it, its noise."""


class Minibatch(Gradient):
    r"""The plain minibatch gradient.

    $$\tilde F = \frac{N}{n}\sum_{i\in B} g_i + \nabla\log\pi(\theta), \qquad
      \mathrm{Cov}\,\tilde F = C \approx \frac{N^2}{n}\,f\,V,$$

    with $g_i$ the gradient of the log-likelihood of row i, V their Bessel-corrected covariance in the batch
    and f the plan's finite-population factor. The prior is in the force and not in V. A single contrast is
    the difference of the two halves, several are sums with random signs, and each has $E[zz^T] = (N^2/n) f V$.

    **Arguments:**

    - `fused`: whether to gather rows and take their gradients in one kernel where that is possible: at least 64
      chains on an NVIDIA GPU, and a log-likelihood of one row that is a function of `x @ w` and scalars, in float32,
      where x has 32 to 1,024 numbers. The result differs by rounding.
    """

    posterior: Posterior | None = None  # filled in by `iso.sample`
    fused: bool = eqx.field(default=True, static=True, kw_only=True)

    all_rows = False

    def __check_init__(self) -> None:
        check_flag("fused", self.fused)

    def __call__(
        self, position: PyTree, batch: Batch, *, needs: Needs, key: Key[Array, ""]
    ) -> GradientEstimate:
        posterior = _bound(self)
        if self.fused and needs.contrasts in (0, 1) and batch.source is not None and available(batch.source):
            estimate = _fused(posterior, position, batch, halved=needs.contrasts == 1)
        elif needs.contrasts == "exact":
            estimate = _exact(posterior, position, batch)
        elif needs.contrasts == 1:
            estimate = _halves(posterior, position, batch)
        elif needs.contrasts:
            estimate = _signs(posterior, position, batch, needs.contrasts, key)
        else:
            estimate = _force(posterior, position, batch, batch.num_data / batch.size)
        if not needs.operator:
            return estimate
        halved = needs.contrasts == 1 and not _cheap_backward(position, batch)
        batch = dataclasses.replace(batch, source=None)
        operator: LinearOperator = BatchNoise(posterior, position, batch, halved=halved)
        return eqx.tree_at(lambda x: x.operator, estimate, operator, is_leaf=lambda x: x is None)


class FullData(Gradient):
    """The exact gradient on all rows in every step, without noise. For reference runs and convergence orders."""

    posterior: Posterior | None = None

    all_rows = True

    def __call__(
        self, position: PyTree, batch: Batch, *, needs: Needs, key: Key[Array, ""]
    ) -> GradientEstimate:
        del key
        estimate = exact(_force)(_bound(self), position, batch, 1.0)
        rows = 1 if needs.contrasts == "exact" else needs.contrasts
        contrasts = jax.tree.map(lambda x: jnp.zeros((rows, *x.shape), x.dtype), position) if rows else None
        operator: LinearOperator | None = NoNoise() if needs.operator else None
        return GradientEstimate(estimate.force, contrasts, estimate.log_density, operator)


class BatchNoise(Readable, eqx.Module):
    """C of one batch as a linear operator, without a matrix and without a gradient per row.

    A product is a forward pass, centring over the rows, and a backward pass.
    """

    posterior: Posterior
    position: PyTree[Array]
    batch: Batch
    halved: bool = eqx.field(static=True)  # evaluate as the force was, so that the compiler shares the work

    def mv(self, x: PyTree) -> PyTree:
        """C x."""
        parts = _split(self.batch) if self.halved else [(self.batch.rows, self.batch.weights)]
        functions = [lambda theta, part=part: _values(self.posterior, theta, *part) for part in parts]
        changes = [jax.jvp(f, (self.position,), (x,))[1] for f in functions]
        mean = sum(jnp.sum(c) for c in changes) / self.batch.size
        scale = _scale(self.batch) ** 2 / (self.batch.size - 1)
        back = [
            jax.vjp(f, self.position)[1](scale * (c - mean))[0]
            for f, c in zip(functions, changes, strict=True)
        ]
        return jax.tree.map(lambda *leaves: sum(leaves[1:], start=leaves[0]), *back)


class NoNoise(Readable, eqx.Module):
    """C = 0."""

    def mv(self, x: PyTree) -> PyTree:
        """C x."""
        return tree.zeros_like(x)


def _bound(gradient: Minibatch | FullData) -> Posterior:
    if gradient.posterior is None:
        name = type(gradient).__name__
        raise ValueError(
            f"`posterior` of `{name}` must be given outside `iso.sample`. Write `{name}(posterior)`."
        )
    return gradient.posterior


def _scale(batch: Batch, factor: float | None = None) -> float:
    """Return c in C = c^2 V."""
    factor = batch.noise_factor if factor is None else factor
    return batch.num_data * (factor / batch.size) ** 0.5


def _split(batch: Batch) -> list[tuple[PyTree, Array | None]]:
    """Return rows and weights in two halves. The order of the rows in a batch carries no information."""
    first, both = batch.size // 2, (batch.rows, batch.weights)
    return [jax.tree.map(lambda x: x[:first], both), jax.tree.map(lambda x: x[first:], both)]


def _cheap_backward(position: PyTree, batch: Batch) -> bool:
    """Whether a second backward pass costs less than a copy of the rows in two halves.

    So it is for regressions, which have about as many parameters as a row has numbers. For networks it is not.
    """
    numbers = sum(x.size for x in jax.tree.leaves(batch.rows)) / batch.size
    return tree.size(position) <= 2 * numbers


def _values(posterior: Posterior, theta: PyTree, rows: PyTree, weights: Array | None) -> Float[Array, " n"]:
    """Return the weighted log-likelihood of each row."""
    values = posterior.row_log_likelihoods(theta, rows)
    return values if weights is None else values * weights.astype(values.dtype)


def _force(posterior: Posterior, position: PyTree, batch: Batch, scale: float) -> GradientEstimate:
    def log_density(theta: PyTree) -> Array:
        likelihood = jnp.sum(_values(posterior, theta, batch.rows, batch.weights))
        return scale * likelihood + posterior.prior_log_density(theta)

    value, force = jax.value_and_grad(log_density)(position)
    return GradientEstimate(force, None, value)


def _halves(posterior: Posterior, position: PyTree, batch: Batch) -> GradientEstimate:
    a = batch.size // 2
    if _cheap_backward(position, batch):
        values, pull = jax.vjp(lambda theta: _values(posterior, theta, batch.rows, batch.weights), position)
        first = (jnp.arange(batch.size) < a).astype(values.dtype)
        sums = jax.vmap(lambda weights: pull(weights)[0])(jnp.stack([first, 1 - first]))
        sum_a, sum_b = (jax.tree.map(lambda x, i=i: x[i], sums) for i in (0, 1))
        value = jnp.sum(values)
    else:
        # Two calls and not a vmapped one: a batched matrix product is several times slower on a CPU.
        total = lambda theta, *part: jnp.sum(_values(posterior, theta, *part))
        (value_a, sum_a), (value_b, sum_b) = (
            jax.value_and_grad(total)(position, *part) for part in _split(batch)
        )
        value = value_a + value_b
    return _from_halves(posterior, position, batch, sum_a, sum_b, value)


def _from_halves(
    posterior: Posterior,
    position: PyTree,
    batch: Batch,
    sum_a: PyTree,
    sum_b: PyTree,
    value: Float[Array, ""],
) -> GradientEstimate:
    """Return the estimate from the summed gradients of both halves and the log-likelihood of the batch."""
    a = batch.size // 2
    b = batch.size - a
    # (s_A/a - s_B/b) / sqrt(1/a + 1/b) has covariance V, up to `half_factor`.
    c = _scale(batch, batch.half_factor) / (1 / a + 1 / b) ** 0.5
    contrast = jax.tree.map(lambda x, y: (c / a * x - c / b * y)[None], sum_a, sum_b)
    total_sum = jax.tree.map(jnp.add, sum_a, sum_b)
    return _with_prior(posterior, position, batch, total_sum, value, contrast)


def _fused(posterior: Posterior, position: PyTree, batch: Batch, *, halved: bool) -> GradientEstimate:
    """Return the result of `_halves` or `_force`, from one kernel where that is possible."""

    def plain(posterior: Posterior, theta: PyTree, source: PyTree, index: Array) -> GradientEstimate:
        own = dataclasses.replace(batch, rows=take_rows(source, index), index=index, source=None)
        if halved:
            return _halves(posterior, theta, own)
        return _force(posterior, theta, own, batch.num_data / batch.size)

    def from_sums(posterior: Posterior, theta: PyTree, sums: RowSums) -> GradientEstimate:
        value, parts = jnp.sum(sums.values), sums.gradients
        if halved:
            sum_a, sum_b = (jax.tree.map(lambda x, i=i: x[i], parts) for i in (0, 1))
            return _from_halves(posterior, theta, batch, sum_a, sum_b, value)
        total = jax.tree.map(lambda x: jnp.sum(x, axis=0), parts)
        return _with_prior(posterior, theta, batch, total, value, None)

    return fuse(plain, from_sums, parts=2 if halved else 1)(posterior, position, batch.source, batch.index)


def _signs(
    posterior: Posterior, position: PyTree, batch: Batch, count: int, key: Key[Array, ""]
) -> GradientEstimate:
    values, pull = jax.vjp(lambda theta: _values(posterior, theta, batch.rows, batch.weights), position)
    signs = jax.random.rademacher(key, (count, batch.size), values.dtype)
    weights = _scale(batch) / (batch.size - 1) ** 0.5 * (signs - jnp.mean(signs, axis=1, keepdims=True))
    sums = jax.vmap(lambda w: pull(w)[0])(jnp.concatenate([jnp.ones_like(values)[None], weights]))
    force, contrasts = jax.tree.map(lambda x: x[0], sums), jax.tree.map(lambda x: x[1:], sums)
    return _with_prior(posterior, position, batch, force, jnp.sum(values), contrasts)


def _exact(posterior: Posterior, position: PyTree, batch: Batch) -> GradientEstimate:
    # One gradient per row, n x d numbers: the paper's formula.
    weights = jnp.ones(batch.size) if batch.weights is None else batch.weights

    def one(theta: PyTree, row: PyTree, weight: Array) -> Array:
        value = posterior.one_log_likelihood(theta, row)
        return value if batch.weights is None else value * weight.astype(value.dtype)

    values, rows = jax.vmap(jax.value_and_grad(one), in_axes=(None, 0, 0))(position, batch.rows, weights)
    mean = jax.tree.map(lambda g: jnp.mean(g, axis=0), rows)
    # The mean of z_i z_i' is C = c^2 V: one n of the mean against the n - 1 of V.
    c = _scale(batch) * (batch.size / (batch.size - 1)) ** 0.5
    contrasts = jax.tree.map(lambda g, m: c * (g - m[None]), rows, mean)
    total = jax.tree.map(lambda m: batch.size * m, mean)
    return _with_prior(posterior, position, batch, total, jnp.sum(values), contrasts)


def _with_prior(
    posterior: Posterior,
    position: PyTree,
    batch: Batch,
    total: PyTree,
    log_likelihood: Float[Array, ""],
    contrasts: PyTree | None,
) -> GradientEstimate:
    """Return the estimate from summed gradients and log-likelihoods of the batch."""
    scale = batch.num_data / batch.size
    prior, prior_force = jax.value_and_grad(posterior.prior_log_density)(position)
    force = tree.add_scaled(prior_force, (scale, total))
    return GradientEstimate(force, contrasts, scale * log_likelihood + prior)
