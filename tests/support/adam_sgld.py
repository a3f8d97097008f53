"""A sampler in one file, as CONTRIBUTING.md asks for: SGLD preconditioned by Adam's second moment."""

import equinox as eqx
import jax
import jax.numpy as jnp

import isotherm as iso
from isotherm import tree
from isotherm.hyper import Hyper, at, hyper_parameter, required_hyper_parameter


class AdamSGLD(iso.extend.LangevinSampler):
    r"""SGLD with a diagonal preconditioner G from the running mean square v of the gradient.

    $$\theta \leftarrow \theta - hG\nabla\tilde U + \sqrt{2hG/\beta}R, \qquad G = \sqrt{\bar v/v},$$

    where $\bar v$ makes the largest entry of G one. v is averaged with weights 1/t, so that G settles and the
    stationary density tends to $e^{-\beta U}$ as h tends to 0.
    """

    step_size: Hyper = required_hyper_parameter()
    temperature: Hyper | None = hyper_parameter(kw_only=True)

    covariance: None = eqx.field(default=None, init=False)

    @property
    def traits(self):
        return iso.extend.Traits(s_power=1, scheme="Adam-Euler", s_limit=0.25, remedy="reduce step_size")

    def init(self, position, *, key):
        del key
        return iso.extend.State(
            position, None, None, None, jnp.zeros((), jnp.int32), extra=tree.zeros_like(position)
        )

    def kick(self, state, estimate, *, key):
        h, T = at(self.step_size, state.step), self.temperature_at(state.step)
        v = jax.tree.map(
            lambda v, f: v + (f * f - v) / (state.step + 1).astype(f.dtype), state.extra, estimate.force
        )
        root = tree.sqrt(v)
        smallest = jnp.min(tree.ravel(root))
        G = jax.tree.map(lambda r: smallest / jnp.maximum(r, 1e-30), root)
        R = tree.normal_like(state.position, key=key)
        position = tree.add_scaled(
            state.position,
            (h, tree.multiply(G, estimate.force)),
            (jnp.sqrt(2 * h * T), tree.multiply(tree.sqrt(G), R)),
        )
        status = iso.extend.status_of(tree.dot(position, position))
        state = eqx.tree_at(lambda x: (x.position, x.extra, x.step), state, (position, v, state.step + 1))
        return state, iso.extend.Info(kinetic_temperature=None, xi=None, clipped=None, status=status)


def make(scales):
    """For `isotherm validate --sampler`."""
    return AdamSGLD(scales.langevin_step)
