"""A network as a posterior over its trainable parameters: the part common to `interop.equinox` and `interop.flax`."""

import abc
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
from jaxtyping import Array, PyTree

from isotherm.errors import must
from isotherm.interop.likelihoods import Likelihood, likelihood_of
from isotherm.interop.priors import Prior, prior_of
from isotherm.posterior import Posterior

if TYPE_CHECKING:
    from isotherm.draws import Draws

Params = dict[str, Any]


class Parts(eqx.Module):
    """A module split into parameters and the rest, and how to rebuild it. Ignores parameters of the likelihood."""

    @abc.abstractmethod
    def module(self, params: Params) -> Any:
        """The module with these trainable parameters."""

    @abc.abstractmethod
    def outputs(self, params: Params, x: PyTree) -> Array:
        """The outputs of the module for a batch of rows."""


class RowLikelihood(eqx.Module):
    """The log-likelihood of each row of `{"x": ..., "y": ...}`."""

    parts: Parts
    likelihood: Likelihood

    def __call__(self, params: Params, rows: dict[str, PyTree]) -> Array:
        """One value per row."""
        extra = {name: params[name] for name in self.likelihood.extra}
        return self.likelihood.density(self.parts.outputs(params, rows["x"]), rows["y"], extra)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Network:
    """A network to sample: `iso.sample(net.posterior, {"x": x, "y": y}, net.init)`.

    - `posterior`: the `iso.Posterior` over rows `{"x": ..., "y": ...}`; x may be a pytree.
    - `init`: the trainable parameters by name, such as `layers.0.weight`, and the parameters of the likelihood.
    - `fans`: the fan-in of every weight by name, and `None` for other parameters.
    """

    posterior: Posterior
    init: Params
    parts: Parts
    likelihood: Likelihood
    fans: Mapping[str, int | None]

    def apply(self, params: Params, x: PyTree) -> Array:
        """The outputs of the network for a batch of rows."""
        return self.parts.outputs(params, x)

    def mean(self, params: Params, x: PyTree) -> Array:
        """The mean of y for a batch of rows: for classes, their probabilities."""
        if self.likelihood.mean is None:
            raise must(
                "likelihood", "one of the named ones, whose mean is known", "a function", "Use `apply`."
            )
        return self.likelihood.mean(self.apply(params, x))

    def module(self, params: Params) -> Any:
        """The module with these parameters, in inference mode."""
        missing = [name for name in self.init if name not in params and name not in self.likelihood.extra]
        if missing:
            raise must("params", f"a mapping with {', '.join(missing)} as in `init`", sorted(params))
        return self.parts.module(params)

    def modules(self, draws: "Draws") -> Iterator[Any]:
        """A module for every draw, chain by chain."""
        for chain, length in enumerate(draws.lengths):
            for draw in range(int(length)):
                yield self.module({name: leaf[chain, draw] for name, leaf in draws.posterior.items()})

    def __repr__(self) -> str:
        size = sum(x.size for x in self.init.values())
        shapes = ", ".join(f"{name}: {x.shape}" for name, x in self.init.items())
        return f"Network({size:,} parameters; {shapes})"


def network(
    parts: Parts,
    trainable: Params,
    fans: Mapping[str, int | None],
    likelihood: str | Callable[..., Array],
    *,
    prior: Prior,
    scale: float | int | None,
    extra: Mapping[str, Any] | None,
) -> Network:
    """The `Network` of a split module. `fans` has the fan-in of every weight, and `None` for other parameters."""
    if not trainable:
        raise must("module", "one with trainable parameters", "none", "Check the filter `trainable`.")
    kind = likelihood_of(likelihood, scale=scale, extra=extra)
    if shared := sorted(trainable.keys() & kind.extra.keys()):
        raise must(
            "likelihood",
            "one without parameters that the module also has",
            shared,
            "Rename them in the module or in `extra`.",
        )
    init = trainable | kind.extra
    fans = {name: fans.get(name) for name in init}
    posterior = Posterior(RowLikelihood(parts, kind), prior_of(prior, fans), batched=True)
    return Network(posterior, init, parts, kind, fans)


def fan_in(name: str, inputs: tuple[int, ...], *, axes: int) -> int | None:
    """The product of the lengths `inputs` of the axes that a weight sums over; `None` for other parameters."""
    return None if axes < 2 or name.rsplit(".", 1)[-1] == "bias" else math.prod(inputs)


def call(module: Any, x: PyTree) -> Array:
    """The default `forward`."""
    return module(x)
