"""From a batch to a noisy force and its noise: the only place where N/n, N^2/n and the sign are applied."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.posterior import Posterior
from isotherm.records import Batch, GradientEstimate, Needs


class Gradient(eqx.Module):
    """Estimates the force -grad U at a position from a batch. Subclass it for a noise of your own."""

    all_rows: eqx.AbstractClassVar[bool]

    @abc.abstractmethod
    def __call__(
        self, position: PyTree, batch: Batch, *, needs: Needs, key: Key[Array, ""]
    ) -> GradientEstimate:
        """The force at `position` and, where `needs` asks for it, its noise."""


class Minibatch(Gradient):
    r"""The plain minibatch gradient.

    $$\tilde F = \frac{N}{n}\sum_{i\in B} g_i + \nabla\log\pi(\theta), \qquad
      \mathrm{Cov}\,\tilde F = C \approx \frac{N^2}{n}\,f\,V,$$

    with $g_i$ the gradient of the log-likelihood of row i, V their Bessel-corrected covariance in the batch
    and f the plan's finite-population factor. The prior is in the force and not in V.
    """

    posterior: Posterior | None = None  # `iso.sample` fills in its own

    all_rows = False

    def __call__(
        self, position: PyTree, batch: Batch, *, needs: Needs, key: Key[Array, ""]
    ) -> GradientEstimate:
        del key
        scale = batch.num_data / batch.size
        if needs is Needs.NOTHING:
            return GradientEstimate(contrasts=None, **_force(_bound(self), position, batch, scale))
        return _exact(_bound(self), position, batch, scale)


class FullData(Gradient):
    """The exact gradient on all rows in every step: no noise. For references and for convergence orders."""

    posterior: Posterior | None = None

    all_rows = True

    def __call__(
        self, position: PyTree, batch: Batch, *, needs: Needs, key: Key[Array, ""]
    ) -> GradientEstimate:
        del key
        contrasts = None
        if needs is not Needs.NOTHING:
            contrasts = jax.tree.map(lambda x: jnp.zeros((1, *x.shape), x.dtype), position)
        return GradientEstimate(contrasts=contrasts, **_force(_bound(self), position, batch, 1.0))


def _bound(gradient: Minibatch | FullData) -> Posterior:
    if gradient.posterior is None:
        name = type(gradient).__name__
        raise ValueError(f"`posterior` of `{name}` must be given outside `iso.sample`: {name}(posterior).")
    return gradient.posterior


def _force(posterior: Posterior, position: PyTree, batch: Batch, scale: float) -> dict[str, PyTree]:
    def log_density(theta: PyTree) -> Array:
        likelihood = jnp.sum(posterior.row_log_likelihoods(theta, batch.rows))
        return scale * likelihood + posterior.prior_log_density(theta)

    value, force = jax.value_and_grad(log_density)(position)
    return {"force": force, "log_density": value}


def _exact(posterior: Posterior, position: PyTree, batch: Batch, scale: float) -> GradientEstimate:
    # One gradient per row, n x d numbers: the paper's formula.
    value_and_grad = jax.value_and_grad(posterior.one_log_likelihood)
    values, rows = jax.vmap(value_and_grad, in_axes=(None, 0))(position, batch.rows)
    prior, prior_force = jax.value_and_grad(posterior.prior_log_density)(position)
    mean = jax.tree.map(lambda g: jnp.mean(g, axis=0), rows)
    # mean_i z_i z_i' = (N^2/n) f V: one n of the mean against the n - 1 of V.
    c = scale * (batch.noise_factor * batch.size / (batch.size - 1) * batch.size) ** 0.5
    return GradientEstimate(
        force=tree.add_scaled(prior_force, (batch.num_data, mean)),
        contrasts=jax.tree.map(lambda g, m: c * (g - m[None]), rows, mean),
        log_density=scale * jnp.sum(values) + prior,
    )
