"""Wider and narrower priors of a network, to choose one by held-out rows."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp

from isotherm.interop.networks import Network
from isotherm.interop.priors import NormalPrior


def is_adjustable(net: Network) -> bool:
    """Whether the prior is one of independent normals and the network has weights, whose scales can be multiplied."""
    return isinstance(net.posterior.log_prior, NormalPrior) and any(
        fan is not None for fan in net.fans.values()
    )


def widened(net: Network, factor: float) -> Network:
    """Return the network with the prior's scales of weights multiplied by a factor.

    Scales are arrays, so that one compiled program serves all factors.
    """
    prior = net.posterior.log_prior
    if not isinstance(prior, NormalPrior):
        raise TypeError("only the scales of a `NormalPrior` can be multiplied")
    scales = {
        name: jnp.asarray(scale * (1.0 if net.fans[name] is None else factor), float)
        for name, scale in prior.scales.items()
    }
    posterior = eqx.tree_at(lambda p: p.log_prior, net.posterior, NormalPrior(scales))
    return dataclasses.replace(net, posterior=posterior)
