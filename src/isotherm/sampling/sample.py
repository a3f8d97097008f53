"""`sample` and `sweep`: from arguments to a setup, and from the setup to draws."""

import os
from collections.abc import Sequence

from jaxtyping import Array, Key, PyTree

from isotherm.caller import check_caller
from isotherm.chains.run import run
from isotherm.chains.setup import Setup
from isotherm.data.plans import MinibatchPlan
from isotherm.devices import Devices, using
from isotherm.draws import Draws
from isotherm.errors import check_flag, must
from isotherm.gradients.minibatch import Gradient
from isotherm.keys import as_key
from isotherm.posterior import Posterior
from isotherm.preconditioner import Preconditioner
from isotherm.samplers.base import Sampler
from isotherm.sampling import checks
from isotherm.sampling.by_hand import setups
from isotherm.sampling.call import Call
from isotherm.sampling.resume import started
from isotherm.sampling.sampled import sampled
from isotherm.signals import deferred


def sample(
    posterior: Posterior,
    data: PyTree,
    init: PyTree,
    *,
    sampler: Sampler | None = None,
    batch_size: int | None = None,
    num_draws: int = 1000,
    thinning: int | None = None,
    burn_in: int | None = None,
    num_chains: int = 4,
    seed: int | Key[Array, ""] = 0,
    minibatch: MinibatchPlan | None = None,
    gradient: Gradient | None = None,
    preconditioner: Preconditioner | None = None,
    init_scale: float = 0.0,
    init_per_chain: bool | None = None,
    progress: bool = True,
    devices: Devices = None,
    store: str | os.PathLike[str] | None = None,
) -> Draws:
    """Draw from `posterior` given `data`.

    Each chain takes `burn_in + num_draws * thinning` steps with separate keys and minibatches. Every
    `thinning`-th step after burn-in is kept; moments are taken over all steps after burn-in. Bad input is refused
    before anything is computed. If a chain becomes non-finite it stops and the others continue. Ctrl-C returns the
    draws made so far.

    **Arguments:**

    - `data`: pytree of arrays with one leading axis, the rows; or a source, such as `iso.data.parquet(path)`.
    - `init`: pytree of parameters where all chains start, moved apart by normal noise of sd `init_scale`; or one
      with a leading axis of `num_chains`. Which of the two it is follows from the shapes that the log-likelihood
      accepts; `init_per_chain` decides if both fit. Or a setup: that of `iso.warmup`, of `iso.setup`, or
      `draws.setup` of an earlier run.
    - `sampler`: such as `iso.CCAdL(step_size=1e-4, friction=10.0, covariance=iso.Dense())`. If `None`, `iso.warmup`
      chooses it, and everything else that is not given.
    - `batch_size`: rows in a minibatch, n.
    - `num_draws`, `num_chains`: draws per chain, and chains.
    - `seed`: an integer or a JAX key. The same seed gives the same draws.
    - `minibatch`: how batches are drawn; `iso.WithReplacement()` if `None`.
    - `gradient`: how the force is estimated; `iso.Minibatch()` if `None`.
    - `preconditioner`: coordinates in which the chains move; those of the parameters if `None`.
    - `progress`: show a bar, on a terminal or in a notebook.
    - `devices`: those of this process to use, or their number; all if `None`. Sums over all rows are split over them,
      and then the chains.
    - `store`: a folder that does not exist yet. Draws are stored there while chains run, about once a second, with
      all that `iso.resume` needs to go on if the process ends. `iso.load(store)` reads them at any time, and so does
      `xarray.open_datatree` of `draws.zarr` in it. SIGTERM ends the process after everything is stored.
    """
    check_caller("iso.sample", data=data, init=init)
    progress = check_flag("progress", progress)
    call = Call(
        init=init,
        key=as_key(seed),
        sampler=sampler,
        batch_size=batch_size,
        num_draws=num_draws,
        thinning=thinning,
        burn_in=burn_in,
        num_chains=num_chains,
        minibatch=minibatch,
        gradient=gradient,
        preconditioner=preconditioner,
        init_scale=init_scale,
        init_per_chain=init_per_chain,
    ).checked()
    with deferred(), using(devices), checks.callbacks_noted():
        if store is None:
            return sampled(posterior, data, call, progress=progress, stacklevel=2)
        checks.check_posterior(posterior)
        with started(store, call) as folder:
            return sampled(posterior, data, call, progress=progress, stacklevel=3, folder=folder)


def sweep(
    posterior: Posterior,
    data: PyTree,
    init: PyTree,
    samplers: Sequence[Sampler],
    *,
    batch_size: int,
    num_draws: int = 1000,
    thinning: int = 1,
    burn_in: int = 0,
    num_chains: int = 4,
    seed: int | Key[Array, ""] = 0,
    minibatch: MinibatchPlan | None = None,
    gradient: Gradient | None = None,
    preconditioner: Preconditioner | None = None,
    init_scale: float = 0.0,
    init_per_chain: bool | None = None,
    progress: bool = True,
    devices: Devices = None,
) -> list[Draws]:
    """Run `sample` for many samplers at once.

    Samplers that differ only in numbers share one compilation and run side by side. Returns one `Draws` per
    sampler, in order. Chain c has the same random numbers under every setting, which sharpens comparisons
    between settings, and chains differ within a setting. Other arguments as for `sample`.
    """
    if not isinstance(samplers, Sequence) or not samplers:
        raise must(
            "samplers",
            "a sequence of at least one sampler",
            samplers,
            "For a single sampler, use `iso.sample`.",
        )
    if isinstance(init, Setup):
        raise must("init", "a pytree of parameters if samplers are given", "a `Setup`")
    check_caller("iso.sweep", data=data, init=init)
    progress = check_flag("progress", progress)
    call = Call(
        init=init,
        key=as_key(seed),
        batch_size=batch_size,
        num_draws=num_draws,
        thinning=thinning,
        burn_in=burn_in,
        num_chains=num_chains,
        minibatch=minibatch,
        gradient=gradient,
        preconditioner=preconditioner,
        init_scale=init_scale,
        init_per_chain=init_per_chain,
    )
    length = call.length
    with deferred(), using(devices), checks.callbacks_noted():
        prepared = setups(posterior, data, init, list(samplers), call.choices)
        checks.check_steps(prepared[0].burn_in + length.num_draws * prepared[0].thinning)
        return run(prepared, length, call.key, progress=progress, stacklevel=2)
