r"""Priors of networks: independent normals, with a scale for each parameter tensor.

By default a weight has the scale $1/\sqrt{\text{fan-in}}$, so that a layer of any width preserves the size of its
inputs. All other parameters (biases, gains of norms, embeddings, parameters of the likelihood) have the scale 1.
"""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from isotherm.errors import must

Params = dict[str, Any]
Prior = float | int | Mapping[str, float | int] | Callable[[Params], Array]


class NormalPrior(eqx.Module):
    """The log-density of independent normals with mean zero and a scale for each name."""

    scales: Mapping[str, float | Array]

    def __call__(self, params: Params) -> Float[Array, ""]:
        """The log-density of the parameters."""
        terms = [_log_normal(params[name], scale) for name, scale in self.scales.items()]
        return sum(terms[1:], start=terms[0])


def prior_of(prior: Prior, fans: Mapping[str, int | None]) -> Callable[[Params], Array]:
    """The log-prior given by a number, a mapping from prefixes of names to scales, or a function.

    `fans` gives the fan-in of every weight by name, and `None` for other parameters.
    """
    if callable(prior):
        return prior
    if isinstance(prior, Mapping):
        return NormalPrior(_default(1.0, fans) | _chosen(prior, fans))
    return NormalPrior(_default(_positive("prior", prior), fans))


def _default(factor: float, fans: Mapping[str, int | None]) -> dict[str, float]:
    return {name: 1.0 if fan is None else factor / fan**0.5 for name, fan in fans.items()}


def _chosen(prior: Mapping[str, float | int], fans: Mapping[str, int | None]) -> dict[str, float]:
    """The scale of each name that has a prefix in `prior`. The longest prefix wins."""
    scales = {}
    for prefix in sorted(prior, key=len):
        matches = [name for name in fans if name == prefix or name.startswith(f"{prefix}.")]
        if not matches:
            raise must("prior", f"a mapping from prefixes of the names {', '.join(fans)}", prefix)
        scales |= dict.fromkeys(matches, _positive(f'prior["{prefix}"]', prior[prefix]))
    return scales


def _positive(name: str, scale: Any) -> float:
    is_number = isinstance(scale, int | float | np.number) and not isinstance(scale, bool)
    if not is_number or not 0 < scale < np.inf:
        rule = "a positive number, a mapping from names to positive numbers, or a function of the parameters"
        raise must(name, "a positive number" if name != "prior" else rule, scale)
    return float(scale)


def _log_normal(x: Array, scale: float | Array) -> Float[Array, ""]:
    return -0.5 * jnp.sum((x / scale) ** 2) - x.size * (jnp.log(scale) + 0.5 * np.log(2 * np.pi))
