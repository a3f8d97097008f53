"""`sample` and `sweep`: from arguments to a setup, and from the setup to draws."""

import dataclasses
from collections.abc import Sequence

from jaxtyping import Array, Key, PyTree

from isotherm.caller import check_caller
from isotherm.chains.ensemble import Length
from isotherm.chains.run import run
from isotherm.chains.setup import Setup
from isotherm.data.plans import MinibatchPlan
from isotherm.devices import Devices, using
from isotherm.draws import Draws
from isotherm.draws.record import Reason
from isotherm.errors import check_count, check_flag, must
from isotherm.gradients.minibatch import Gradient
from isotherm.keys import as_key
from isotherm.posterior import Posterior
from isotherm.preconditioner import Preconditioner
from isotherm.samplers.base import Sampler
from isotherm.sampling import checks
from isotherm.sampling.by_hand import Choices, setups
from isotherm.sampling.warmup import tuned


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
    """
    check_caller("iso.sample", data=data, init=init)
    key = as_key(seed)
    length = _checked_length(num_chains, num_draws)
    init_scale, progress = checks.check_init_scale(init_scale), check_flag("progress", progress)
    with using(devices), checks.callbacks_noted():
        if sampler is not None:
            if isinstance(init, Setup):
                rule = "a pytree of parameters if a sampler is given"
                raise must("init", rule, "a `Setup`", "Leave `sampler` out.")
            choices = Choices(
                batch_size=batch_size,
                thinning=1 if thinning is None else thinning,
                burn_in=0 if burn_in is None else burn_in,
                num_chains=num_chains,
                minibatch=minibatch,
                gradient=gradient,
                preconditioner=preconditioner,
                init_scale=init_scale,
                init_per_chain=init_per_chain,
            )
            (setup,) = setups(posterior, data, init, [sampler], choices)
        else:
            checks.check_open(
                minibatch=minibatch,
                gradient=gradient,
                preconditioner=preconditioner,
                init_per_chain=init_per_chain,
                init_scale=init_scale or None,
            )
            checks.check_posterior(posterior)
            given = _checked_lengths(burn_in=burn_in, thinning=thinning)
            if isinstance(init, Setup):
                setup = checks.checked_setup(init, posterior, data, batch_size)
            else:
                setup = tuned(
                    posterior, data, init, batch_size=batch_size, key=key, progress=progress, stacklevel=2
                )
            setup = _with_lengths(setup, given)
        checks.check_steps(setup.burn_in + length.num_draws * setup.thinning)
        return run([setup], length, key, progress=progress, stacklevel=2)[0]


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
    key = as_key(seed)
    length, progress = _checked_length(num_chains, num_draws), check_flag("progress", progress)
    choices = Choices(
        batch_size=batch_size,
        thinning=thinning,
        burn_in=burn_in,
        num_chains=num_chains,
        minibatch=minibatch,
        gradient=gradient,
        preconditioner=preconditioner,
        init_scale=init_scale,
        init_per_chain=init_per_chain,
    )
    with using(devices), checks.callbacks_noted():
        prepared = setups(posterior, data, init, list(samplers), choices)
        checks.check_steps(prepared[0].burn_in + length.num_draws * prepared[0].thinning)
        return run(prepared, length, key, progress=progress, stacklevel=2)


def _checked_length(num_chains: int, num_draws: int) -> Length:
    draws = check_count("num_draws", num_draws, minimum=1, below=2**31)
    return Length(check_count("num_chains", num_chains, minimum=1, below=2**31), draws)


def _checked_lengths(*, burn_in: int | None, thinning: int | None) -> dict[str, int]:
    """Return those that are given, by name. Raises if one cannot be, before a warm-up."""
    given = {} if burn_in is None else {"burn_in": check_count("burn_in", burn_in, minimum=0, below=2**31)}
    if thinning is None:
        return given
    return given | {"thinning": check_count("thinning", thinning, minimum=1, below=2**31)}


def _with_lengths(setup: Setup, given: dict[str, int]) -> Setup:
    """Return the setup with the given burn-in and thinning, if any, and with the reason that they were given."""
    reasons = tuple(
        Reason(reason.choice, str(given[reason.choice]), "given") if reason.choice in given else reason
        for reason in setup.reasons
    )
    return dataclasses.replace(
        setup,
        burn_in=given.get("burn_in", setup.burn_in),
        thinning=given.get("thinning", setup.thinning),
        reasons=reasons,
    )
