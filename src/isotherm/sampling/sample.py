"""`sample` and `sweep`: check, run, wrap."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from isotherm.chains.finish import to_draws
from isotherm.chains.preflight import preflight
from isotherm.chains.run import Job, run
from isotherm.data.plans import AllRows, MinibatchPlan, WithReplacement
from isotherm.data.rows import as_rows
from isotherm.draws import Draws
from isotherm.errors import check_count, must
from isotherm.gradients.control_variate import ControlVariate
from isotherm.gradients.minibatch import Gradient, Minibatch
from isotherm.kernel import Kernel
from isotherm.posterior import Posterior
from isotherm.preconditioner import Preconditioner
from isotherm.samplers import CCAdL
from isotherm.samplers.base import Sampler
from isotherm.sampling import checks
from isotherm.sampling.latents import refuse_row_latents
from isotherm.sampling.warmup import warmup
from isotherm.tuning.record import Warmup

_STARTS, _JITTER = 2**32 - 9, 2**32 - 4  # folds of the run's key apart from those of its chains


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
    checkpoint: None = None,
    store: None = None,
) -> Draws:
    """Draw from `posterior` given `data`.

    Each chain takes `burn_in + num_draws * thinning` steps with its own keys and its own minibatches; every
    `thinning`-th step after burn-in is kept, and moments are taken over all of them. Bad input is refused
    before anything is computed. A chain that turns non-finite stops, the others go on; Ctrl-C returns what was drawn.

    **Arguments:**

    - `data`: pytree of arrays with one leading axis, the rows.
    - `init`: pytree of parameters where all chains start, moved apart by normal noise of sd `init_scale`; or
      one with a leading axis of `num_chains`. Which of the two is told from the shapes that the log-likelihood
      takes; `init_per_chain` says it where both would do.
    - `sampler`: such as `iso.CCAdL(step_size=1e-4, friction=10.0, covariance=iso.Dense())`.
    - `batch_size`: rows in a minibatch, n.
    - `seed`: an integer or a JAX key. The same seed gives the same draws.
    - `minibatch`: plan by which batches are drawn; `iso.WithReplacement()` where `None`.
    - `gradient`: how the force is estimated; `iso.Minibatch()` where `None`.
    - `preconditioner`: coordinates in which the chains move; those of the parameters where `None`.
    - `progress`: show a bar, on a terminal or in a notebook.
    - `checkpoint`, `store`: reserved; this version keeps draws in memory and refuses anything but `None`.
    """
    checks.check_reserved(checkpoint=checkpoint, store=store)
    found = init if isinstance(init, Warmup) else None
    if sampler is None:
        checks.check_open(
            minibatch=minibatch,
            gradient=gradient,
            preconditioner=preconditioner,
            init_per_chain=init_per_chain,
            init_scale=init_scale or None,
        )
        checks.check_kinds(posterior, CCAdL(1.0, 1.0), WithReplacement(), Minibatch())
        if found is None:
            found = warmup(posterior, data, init, batch_size=batch_size, seed=seed, progress=progress)
        else:
            checks.check_warmup(found, posterior, data, batch_size)
        sampler, gradient = found.sampler, found.gradient
        minibatch, preconditioner = found.minibatch, found.preconditioner
        batch_size = found.batch_size if batch_size is None else batch_size
        thinning = found.thinning if thinning is None else thinning
        burn_in = found.burn_in if burn_in is None else burn_in
        init, init_per_chain = (
            found.starts(num_chains, key=jax.random.fold_in(checks.as_key(seed), _STARTS)),
            True,
        )
    elif found is not None:
        raise must(
            "init", "a pytree of parameters where a sampler is given", "a `Warmup`", "Leave `sampler` out."
        )
    if batch_size is None:
        raise must("batch_size", "a number of rows where a sampler is given", None)
    settings = _Settings(
        posterior=posterior,
        data=data,
        init=init,
        batch_size=batch_size,
        num_draws=num_draws,
        thinning=1 if thinning is None else thinning,
        burn_in=0 if burn_in is None else burn_in,
        num_chains=num_chains,
        seed=seed,
        minibatch=WithReplacement() if minibatch is None else minibatch,
        gradient=Minibatch() if gradient is None else gradient,
        preconditioner=preconditioner,
        init_scale=init_scale,
        init_per_chain=init_per_chain,
        free=found is not None,
    )
    draws = settings.run([sampler], progress=progress)[0]
    if found is not None:
        draws.settings["warmup"] = found.describe()
    return draws


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
) -> list[Draws]:
    """`sample` for many samplers at once.

    Samplers that differ only in numbers share one compilation and run side by side. Returns one `Draws` per
    sampler, in order. Chain c has the same random numbers under every setting, which sharpens comparisons
    between settings, and its own within a setting. Other arguments as for `sample`.
    """
    if not isinstance(samplers, Sequence) or not samplers:
        raise must("samplers", "a sequence of at least one sampler", samplers, "For one, use `iso.sample`.")
    settings = _Settings(
        posterior=posterior,
        data=data,
        init=init,
        batch_size=batch_size,
        num_draws=num_draws,
        thinning=thinning,
        burn_in=burn_in,
        num_chains=num_chains,
        seed=seed,
        minibatch=WithReplacement() if minibatch is None else minibatch,
        gradient=Minibatch() if gradient is None else gradient,
        preconditioner=preconditioner,
        init_scale=init_scale,
        init_per_chain=init_per_chain,
    )
    return settings.run(samplers, progress=progress)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Settings:
    """All arguments but the sampler."""

    posterior: Posterior
    data: PyTree
    init: PyTree
    batch_size: int
    num_draws: int
    thinning: int
    burn_in: int
    num_chains: int
    seed: int | Key[Array, ""]
    minibatch: MinibatchPlan
    gradient: Gradient
    preconditioner: Preconditioner | None
    init_scale: float
    init_per_chain: bool | None
    free: bool = False  # whether `init` is of free parameters, whatever the transforms

    def run(self, samplers: Sequence[Sampler], *, progress: bool) -> list[Draws]:
        """Check everything; then run samplers of one shape side by side, one shape after the other."""
        if isinstance(self.init, Warmup):
            raise must("init", "a pytree of parameters where a sampler is given", "a `Warmup`")
        for sampler in samplers:
            checks.check_kinds(self.posterior, sampler, self.minibatch, self.gradient, self.preconditioner)
            checks.check_temperature(self.posterior, sampler)
        check_count("num_draws", self.num_draws, minimum=1)
        check_count("thinning", self.thinning, minimum=1)
        check_count("burn_in", self.burn_in, minimum=0)
        check_count("num_chains", self.num_chains, minimum=1)
        checks.check_steps(self.burn_in + self.num_draws * self.thinning)
        key = checks.as_key(self.seed)
        data, num_data = as_rows(self.data, known=self.free)  # a warm-up has seen them
        init = self.init if self.free else checks.freed(self.init, self.posterior)
        if not self.free and not self.gradient.all_rows:  # a warm-up has looked at it, and no row is left out
            refuse_row_latents(
                self.posterior,
                init,
                data,
                num_chains=self.num_chains,
                init_per_chain=self.init_per_chain,
            )
        init, posterior = checks.in_32_bits(init, self.posterior.unconstrained)
        starts = checks.per_chain(
            init,
            posterior,
            data,
            num_chains=self.num_chains,
            init_scale=self.init_scale,
            init_per_chain=self.init_per_chain,
            key=jax.random.fold_in(key, _JITTER),
        )
        samplers = [_at_temperature_of(self.posterior, s) for s in samplers]
        groups: dict[Any, list[int]] = {}
        for i, sampler in enumerate(samplers):
            groups.setdefault(_shape_of(sampler), []).append(i)
        members = [[samplers[i] for i in group] for group in groups.values()]
        gradient = _bound(self.gradient, self.posterior, posterior)
        if isinstance(gradient, ControlVariate):
            if gradient.anchor is not None and gradient.sums is None and not self.free:
                anchor = checks.freed(gradient.anchor, self.posterior)
                gradient = eqx.tree_at(lambda g: g.anchor, gradient, anchor)
            gradient = gradient.bound(posterior, data, jax.tree.map(lambda x: jnp.mean(x, axis=0), starts))
        if self.preconditioner is not None:
            starts = jax.vmap(self.preconditioner.from_params)(starts)
        jobs = [self._job(group, gradient, data, num_data, starts, key) for group in members]
        for job, own in zip(jobs, members, strict=True):
            preflight(job, own, stacklevel=4)
        results: dict[int, Draws] = {}
        interrupted = False
        for job, own, group in zip(jobs, members, groups.values(), strict=True):
            name = type(own[0]).__name__
            title = name if len(own) == 1 else f"{name} x {len(own)}"
            outcome = run(job, progress=progress, title=title, cancelled=interrupted)
            interrupted = outcome.interrupted
            results |= dict(zip(group, to_draws(job, outcome, own, self.num_chains), strict=True))
        return [results[i] for i in range(len(samplers))]

    def _job(
        self,
        samplers: list[Sampler],
        gradient: Gradient,
        data: PyTree,
        num_data: int,
        starts: PyTree,
        key: Key[Array, ""],
    ) -> Job:
        """Lanes for samplers of one shape: setting by setting, chain by chain."""
        minibatch, batch_size = self.minibatch, self.batch_size
        if self.gradient.all_rows:
            minibatch, batch_size = AllRows(), num_data
        batch_size = checks.check_batch_size(batch_size, num_data, samplers[0], self.gradient)
        minibatch.check(num_data)
        checks.warn_if_not_white(samplers[0], minibatch)
        start = jax.tree.map(lambda x: x[0], starts)
        for sampler in samplers:  # refuses a mass that does not fit
            jax.eval_shape(lambda x, s=sampler: s.init(x, key=key), start)
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(self.num_chains))
        sampler, axis = samplers[0], None
        if len(samplers) > 1:
            sampler, axis = _stack(samplers, self.num_chains), 0
            starts = jax.tree.map(lambda x: jnp.concatenate([x] * len(samplers)), starts)
            keys = jnp.concatenate([keys] * len(samplers))
        return Job(
            sampler=sampler,
            axis=axis,
            kernel=Kernel(
                samplers[0],
                gradient,
                num_data,
                batch_size,
                minibatch,
                self.preconditioner,
                self.posterior.constraint,
            ),
            data=data,
            positions=starts,
            key=key,
            lane_keys=keys,
            burn_in=self.burn_in,
            num_draws=self.num_draws,
            thinning=self.thinning,
        )


def _at_temperature_of(posterior: Posterior, sampler: Sampler) -> Sampler:
    if sampler.temperature is not None:
        return sampler
    return eqx.tree_at(lambda s: s.temperature, sampler, posterior.temperature, is_leaf=lambda x: x is None)


def _bound(gradient: Gradient, given: Posterior, posterior: Posterior) -> Gradient:
    """The gradient of `posterior`, where it was left open or is that of the posterior as `given`."""
    own = getattr(gradient, "posterior", posterior)
    if not hasattr(gradient, "posterior") or not (own is None or own is given):
        return gradient
    return eqx.tree_at(lambda g: g.posterior, gradient, posterior, is_leaf=lambda x: x is None)


def _shape_of(sampler: Sampler) -> Any:
    arrays, static = eqx.partition(sampler, eqx.is_array)
    shapes = tuple((x.shape, x.dtype) for x in jax.tree.leaves(arrays))
    return shapes, jax.tree.structure(arrays), tuple(jax.tree.leaves(static))


def _stack(samplers: Sequence[Sampler], num_chains: int) -> Sampler:
    """One sampler whose array leaves have a lane axis: setting by setting, chain by chain."""

    def stack(*leaves: Any) -> Any:
        if not eqx.is_array(leaves[0]):
            return leaves[0]
        return jnp.repeat(jnp.stack(leaves), num_chains, axis=0)

    return jax.tree.map(stack, *samplers)
