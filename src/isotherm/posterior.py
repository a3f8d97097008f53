"""The target density: a log-likelihood per datum, a log-prior and a temperature."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from isotherm.deviations import Deviations, deviations
from isotherm.errors import check_flag, must
from isotherm.groups import Groups, as_groups
from isotherm.hyper import check_positive, hyper_parameter
from isotherm.readable import Readable
from isotherm.transforms import Constraint, check_transforms


class Posterior(Readable, eqx.Module):
    r"""A posterior density over any pytree of parameters, given rows of data.

    $$U(\theta) = -\sum_{i=1}^N \log\pi(x_i|\theta) - \log\pi(\theta), \qquad
      \rho(\theta) \propto e^{-U(\theta)/T}$$

    Both functions return *log-densities* (not losses: no minus sign) and neither is scaled: the factor N/n of
    a minibatch is applied by the library, once.

    **Arguments:**

    - `log_likelihood`: `(params, datum) -> scalar`, where `datum` is one row of the data pytree. With
      `batched=True`, `(params, batch) -> one value per row`.
    - `log_prior`: `params -> scalar`, which may be a constant. `None` is a flat prior.
    - `temperature`: T above; 1 gives the Bayesian posterior. Samplers use it unless they are given another one.
    - `transforms`: pytree like the parameters, or a prefix of it, with a transform for each constrained leaf and
      `None` for the others, such as `{"w": None, "sigma": iso.Positive()}`. Both functions, `init` and the draws
      use the constrained parameters. Chains move unconstrained ones, and the library adds the log-Jacobian.
    - `groups`: for parameters with a leading axis of levels, of which each row uses one: the name of the leaf of the
      data that holds the number of the level, or an `iso.Group` that says more, such as
      `{"effect": iso.Group("region", scale="tau")}`. The log-prior must treat levels as independent.
    """

    log_likelihood: Callable[[PyTree, PyTree], Array]
    log_prior: Callable[[PyTree], Array] | None = None
    batched: bool = eqx.field(default=False, static=True, kw_only=True)
    temperature: Float[Array, ""] | float = hyper_parameter(default=1.0, kw_only=True)
    transforms: PyTree = eqx.field(default=None, kw_only=True)
    groups: Groups = eqx.field(default=(), static=True, kw_only=True, converter=as_groups)

    def __check_init__(self) -> None:
        for name, f in (("log_likelihood", self.log_likelihood), ("log_prior", self.log_prior)):
            if not callable(f) and not (name == "log_prior" and f is None):
                raise must(f"{name}` of `Posterior", "a function", f, error=TypeError)
        check_positive(self, "temperature", schedule=False)
        check_flag("batched` of `Posterior", self.batched)
        check_transforms(self.transforms)

    @property
    def constraint(self) -> Constraint | Deviations | None:
        """The transforms as one map, and effects as deviations; `None` if chains move the parameters themselves."""
        transforms = None if self.transforms is None else Constraint(self.transforms)
        return deviations(transforms, self.groups)

    @property
    def unconstrained(self) -> "Posterior":
        """The posterior over the unconstrained parameters."""
        constraint = self.constraint
        if constraint is None:
            return self
        likelihood = Constrained(self.log_likelihood, constraint)
        return Posterior(
            likelihood, FreePrior(self, constraint), batched=self.batched, temperature=self.temperature
        )

    def row_log_likelihoods(self, position: PyTree, rows: PyTree) -> Float[Array, " n"]:
        """The log-likelihood of each row, whether or not `log_likelihood` is batched."""
        if self.batched:
            return self.log_likelihood(position, rows)
        return jax.vmap(self.log_likelihood, in_axes=(None, 0))(position, rows)

    def one_log_likelihood(self, position: PyTree, row: PyTree) -> Float[Array, ""]:
        """The log-likelihood of a single row, which has no leading axis."""
        if self.batched:
            return self.log_likelihood(position, jax.tree.map(lambda x: x[None], row))[0]
        return self.log_likelihood(position, row)

    def prior_log_density(self, position: PyTree) -> Float[Array, ""]:
        """The log-prior, zero if there is none. A constant may be a number of Python or an integer."""
        return _as_floating(0.0 if self.log_prior is None else self.log_prior(position))

    def log_density(self, position: PyTree, data: PyTree) -> Float[Array, ""]:
        """-U on all rows of `data`: the target of a full-data method at temperature 1."""
        return jnp.sum(self.row_log_likelihoods(position, data)) + self.prior_log_density(position)


def _as_floating(value: Any) -> Any:
    """Return a number or an array of integers in floating dtype, and anything else as it is.

    A boolean is not a log-density: it stays one, for the check of shapes to refuse.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number or (hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jnp.integer)):
        return jnp.asarray(value, float)
    return value


class Constrained(Readable, eqx.Module):
    """A function of constrained parameters as a function of unconstrained ones."""

    function: Callable[..., Array]
    constraint: Constraint | Deviations

    def __call__(self, free: PyTree, *rest: PyTree) -> Array:
        """The value of the function at the constrained parameters."""
        return self.function(self.constraint.constrained(free), *rest)


class FreePrior(Readable, eqx.Module):
    """log pi(theta) + T log |det d theta / d free|. The factor T keeps the power of the Jacobian in rho at 1."""

    posterior: Posterior
    constraint: Constraint | Deviations

    def __call__(self, free: PyTree) -> Float[Array, ""]:
        """The log-prior of the unconstrained parameters."""
        prior = self.posterior.prior_log_density(self.constraint.constrained(free))
        volume = self.constraint.log_volume(free)
        return prior + jnp.asarray(self.posterior.temperature, volume.dtype) * volume
