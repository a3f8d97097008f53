"""A NumPyro model as a posterior over minibatches of its rows."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm.compilation import compile_fully
from isotherm.errors import missing_extra, must
from isotherm.groups import Group
from isotherm.posterior import Posterior
from isotherm.readable import Readable
from isotherm.samplers.base import Sampler

try:
    import numpyro  # noqa: F401
except ImportError as error:
    raise missing_extra("iso.interop.numpyro", "numpyro") from error

from isotherm.interop.numpyro import checks
from isotherm.interop.numpyro.groups import effects_of
from isotherm.interop.numpyro.run import DryRun, RowIndependent, RowLikelihood, as_shapes, trial_of

if TYPE_CHECKING:
    from isotherm.draws import Draws

_AT_ONCE = 128  # draws at which deterministic sites are computed at once


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Model(Readable):
    """A posterior, its data and an initial position, for `iso.sample(*model)`; and the model's deterministic sites.

    - `posterior`: over a dict of the latent sites, in their constrained space. `posterior.groups` are the effects of
      groups among them.
    - `data`: the arrays of rows among the arguments, by name.
    - `init`: the middle of each support, where the unconstrained parameters are zero.
    - `deterministic`: the deterministic sites that do not depend on the rows, as a function of the parameters.
    - `groups_declared`: whether the groups were declared, and not recognised.
    """

    posterior: Posterior
    data: dict[str, Any]
    init: dict[str, Array]
    deterministic: RowIndependent
    groups_declared: bool = False

    def __iter__(self) -> Iterator[Any]:
        return iter((self.posterior, self.data, self.init))

    def draws(self, draws: "Draws") -> "Draws":
        """The draws with the deterministic sites added as `derived`."""
        if not isinstance(draws.posterior, dict) or set(draws.posterior) != set(self.init):
            raise must("draws", f"draws of the sites {sorted(self.init)}", draws)
        shape = (draws.num_chains, draws.num_draws)
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), draws.posterior)
        values = _at_each(self.deterministic, flat) if self.deterministic.sites else {}
        derived = {name: np.asarray(x).reshape(*shape, *x.shape[1:]) for name, x in values.items()}
        return dataclasses.replace(draws, derived=derived)

    def sample(
        self,
        *,
        sampler: Sampler | None = None,
        batch_size: int | None = None,
        num_draws: int = 1000,
        thinning: int | None = None,
        burn_in: int | None = None,
        num_chains: int = 4,
        seed: int | Key[Array, ""] = 0,
        progress: bool = True,
    ) -> "Draws":
        """`self.draws(iso.sample(*self, ...))`. Call the two directly to pass other arguments of `iso.sample`.

        With a `batch_size`, groups that were recognised are ignored, since chains that use them need all rows.
        """
        from isotherm.sampling.sample import sample

        plain = batch_size is not None and not self.groups_declared
        draws = sample(
            dataclasses.replace(self.posterior, groups=()) if plain else self.posterior,
            self.data,
            self.init,
            sampler=sampler,
            batch_size=batch_size,
            num_draws=num_draws,
            thinning=thinning,
            burn_in=burn_in,
            num_chains=num_chains,
            seed=seed,
            progress=progress,
        )
        return self.draws(draws)


def posterior(
    model: Callable[..., Any],
    args: tuple[Any, ...],
    *,
    data_plate: str | None = None,
    rows: Sequence[str] | None = None,
    groups: Mapping[str, str | Group] | bool | None = None,
) -> Model:
    """The posterior of a NumPyro model given `args`, over minibatches of the rows in its data plate.

    Observed sites and factors in the data plate form the log-likelihood of its rows; all other sites form the prior.
    For a minibatch the model is run on fewer rows, so the size of the plate must follow them:
    `numpyro.plate("data", x.shape[0])`. Raises if the model cannot be sampled from minibatches, for example because
    it has a latent variable for each row.

    **Arguments:**

    - `model`, `args`: `model(*args)` runs the model. Arguments may be pytrees; frames of pandas become arrays.
    - `data_plate`: the name of the plate of rows. `None` takes the only plate with observed sites.
    - `rows`: names of the arguments that hold rows. `None` takes every array whose leading axis is as long as the
      plate; other arguments are constants.
    - `groups`: latent sites with a leading axis of levels, and the argument that holds the level of each row, such as
      `{"intercept": "region"}`. `None` recognises them; `False` makes no use of them.
    """
    checks.check_call(model, args)
    args = checks.as_arrays(model, tuple(args))
    whole = DryRun(model, as_shapes(tuple(args)))
    checks.check_run(whole)
    plate, size = checks.data_plate_of(whole, data_plate)
    arguments, data = checks.split(model, tuple(args), plate, size, rows)
    few, more = (DryRun(model, arguments.shapes(data, n)) for n in (2, 3))
    checks.check_rows(few, more, plate, size)

    sites, ends = few.sites, checks.some_rows(data, backwards=True)
    latents = tuple(name for name, site in sites.items() if site.latent)
    of_rows = {name: s.plates[plate] for name, s in sites.items() if s.observed and plate in s.plates}
    others = tuple(name for name, s in sites.items() if s.type == "sample" and name not in of_rows)
    likelihood = RowLikelihood(model, arguments, tuple(of_rows.items()))
    prior = RowIndependent(model, arguments, ends, others)
    deterministic = tuple(name for name, s in sites.items() if s.type == "deterministic")
    trial = trial_of(
        likelihood,
        prior,
        RowIndependent(model, arguments, ends, deterministic),
        latents,
        checks.some_rows(data),
    )
    checks.check_trial(trial)
    transforms = {name: None if sites[name].real else t for name, t in trial.transforms[0].items()}
    effects = effects_of(likelihood, prior, transforms, trial.init, data, groups)
    init = trial.init | {name: t(jnp.zeros_like(trial.init[name])) for name, t in effects.transforms.items()}
    transforms |= effects.transforms
    constrained = any(t is not None for t in transforms.values())
    return Model(
        Posterior(
            likelihood,
            prior,
            batched=True,
            transforms=transforms if constrained else None,
            groups=effects.groups,
        ),
        data,
        init,
        RowIndependent(model, arguments, ends, checks.row_independent_sites(trial)),
        groups_declared=isinstance(groups, Mapping),
    )


@compile_fully
def _at_each(sites: RowIndependent, params: PyTree[Array]) -> dict[str, Array]:
    return jax.lax.map(sites.values, params, batch_size=_AT_ONCE)
