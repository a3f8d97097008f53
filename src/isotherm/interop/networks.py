"""A network as a posterior over its trainable parameters: what `interop.equinox` and `interop.flax` share."""

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
    """A module taken apart, and how to put it together again. Parameters that are not its own are passed over."""

    @abc.abstractmethod
    def module(self, params: Params) -> Any:
        """The module with these trainable parameters."""

    @abc.abstractmethod
    def outputs(self, params: Params, x: PyTree) -> Array:
        """Its outputs for a batch of rows."""


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
    """A network as `iso.sample` takes it: `iso.sample(net.posterior, {"x": x, "y": y}, net.init)`.

    - `posterior`: the `iso.Posterior` of rows `{"x": ..., "y": ...}`; x may be a pytree.
    - `init`: the trainable parameters by name, such as `layers.0.weight`, and those of the likelihood.
    """

    posterior: Posterior
    init: Params
    parts: Parts
    likelihood: Likelihood

    def apply(self, params: Params, x: PyTree) -> Array:
        """The outputs of the network for a batch of rows."""
        return self.parts.outputs(params, x)

    def mean(self, params: Params, x: PyTree) -> Array:
        """The mean of y for a batch of rows: probabilities where y is a class."""
        if self.likelihood.mean is None:
            raise must(
                "likelihood", "one of those with a name, to know the mean of y", "a function", "Use `apply`."
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
    """The record of a module taken apart. `fans` has the fan-in of every weight, and `None` for all else."""
    if not trainable:
        raise must("module", "one with trainable parameters", "none", "Is `trainable` too narrow?")
    kind = likelihood_of(likelihood, scale=scale, extra=extra)
    if both := sorted(trainable.keys() & kind.extra.keys()):
        raise must(
            "likelihood",
            "one whose parameters the module does not have",
            both,
            "Rename them in one of the two.",
        )
    init = trainable | kind.extra
    log_prior = prior_of(prior, {name: fans.get(name) for name in init})
    return Network(Posterior(RowLikelihood(parts, kind), log_prior, batched=True), init, parts, kind)


def fan_in(name: str, inputs: tuple[int, ...], *, axes: int) -> int | None:
    """The product of the axes over which a weight of `axes` axes sums; `None` for what is no weight."""
    return None if axes < 2 or name.rsplit(".", 1)[-1] == "bias" else math.prod(inputs)


def call(module: Any, x: PyTree) -> Array:
    """What a module is for, where nothing else is said."""
    return module(x)
