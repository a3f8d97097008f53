"""Reference draws from a full-data method to compare with: NUTS, by BlackJAX."""

import time
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm import keys, tree
from isotherm.chains.starts import GivenStarts
from isotherm.compilation import compile_fully
from isotherm.data.stream import Stream
from isotherm.draws import Draws, Moments
from isotherm.draws.record import RunRecord, SamplerRecord
from isotherm.errors import check_count, missing_extra, must
from isotherm.keys import as_key
from isotherm.posterior import Posterior
from isotherm.progress import StepProgress
from isotherm.samplers.traits import Traits
from isotherm.sampling import checks
from isotherm.sampling.prepare import prepare
from isotherm.signals import deferred
from isotherm.versions import versions


def reference_posterior(
    posterior: Posterior,
    data: PyTree,
    init: PyTree,
    *,
    num_draws: int = 1000,
    warmup: int = 500,
    num_chains: int = 4,
    seed: int | Key[Array, ""] = 0,
    init_scale: float = 0.0,
    dense_mass: bool = True,
    progress: bool = True,
) -> Draws:
    """Return draws from `posterior` by NUTS, with the gradient of all rows in every step.

    Exact up to Monte Carlo error, at tens of passes over the data per effective draw. Needs the extra `nuts`.

    **Arguments:**

    - `warmup`: steps of window adaptation for step size and mass matrix, not kept.
    - `dense_mass`: adapt a full mass matrix rather than a diagonal one.
    - others as for `iso.sample`.
    """
    try:
        import blackjax  # noqa: F401
    except ImportError as error:
        raise missing_extra("iso.reference_posterior", "nuts") from error
    num_draws = check_count("num_draws", num_draws, minimum=1)
    warmup = check_count("warmup", warmup, minimum=20)
    num_chains = check_count("num_chains", num_chains, minimum=1)
    key, scale = as_key(seed), checks.check_init_scale(init_scale)
    problem = prepare(posterior, data, init, num_chains=num_chains, init_per_chain=None, latents_allowed=True)
    if isinstance(problem.data, Stream):
        raise must(
            "data", "rows that fit into memory, since NUTS uses all of them in each step", problem.num_data
        )
    stream = jax.random.fold_in(key, keys.REFERENCE)
    split = jax.random.split(stream, num_chains)
    starts = GivenStarts(problem.init, problem.per_chain, scale)
    positions = starts.positions(num_chains, key=stream)
    problem.check_starts(positions)
    constraint, density = posterior.constraint, problem.density
    began, chains = time.perf_counter(), []
    with deferred(), StepProgress(num_chains * (warmup + num_draws), 1.0, show=progress, title="NUTS") as bar:
        for c in range(num_chains):
            start = jax.tree.map(lambda x, c=c: x[c], positions)
            chain = _nuts(density, problem.data, start, split[c], num_draws, warmup, dense_mass)
            chains.append(jax.tree.map(np.asarray, chain))
            bar.update((c + 1) * (warmup + num_draws), None)
    position, gradient, stats = jax.tree.map(lambda *x: np.stack(x), *chains)
    drawn = position if constraint is None else jax.tree.map(np.asarray, constraint.constrained(position))
    record = RunRecord(
        sampler=SamplerRecord("NUTS", None, problem.temperature, Traits(s_power=2, scheme="leapfrog"), {}),
        num_data=problem.num_data,
        batch_size=problem.num_data,
        num_parameters=tree.size(jax.tree.map(lambda a: a[0, 0], position)),
        num_chains=num_chains,
        burn_in=warmup,
        thinning=1,
        num_draws=num_draws,
        steps=warmup + num_draws,
        data_passes=float(stats["num_integration_steps"].sum(axis=1).mean()),
        seconds=round(time.perf_counter() - began, 3),
        key=np.asarray(jax.random.key_data(key)).tolist(),
        versions=versions(),
    )
    return _wrap(drawn, position, gradient, stats, record)


@compile_fully
def _nuts(
    posterior: Posterior,
    data: PyTree,
    start: PyTree,
    key: Key[Array, ""],
    num_draws: int,
    warmup: int,
    dense_mass: bool,
) -> tuple[PyTree, PyTree, dict[str, Array]]:
    import blackjax

    def log_density(position: PyTree) -> Array:
        return posterior.log_density(position, data) / posterior.temperature

    adapt_key, sample_key = jax.random.split(key)
    adaptation = blackjax.window_adaptation(
        blackjax.nuts, log_density, is_mass_matrix_diagonal=not dense_mass
    )
    adapt: Any = adaptation.run
    (state, parameters), _ = adapt(adapt_key, start, num_steps=warmup)
    step: Any = blackjax.nuts(log_density, **parameters).step

    def body(state: Any, key: Key[Array, ""]) -> tuple[Any, Any]:
        state, info = step(key, state)
        stats = {
            "acceptance_rate": info.acceptance_rate,
            "diverging": info.is_divergent,
            "num_integration_steps": info.num_integration_steps,
            "log_density": state.logdensity,
        }
        return state, (state.position, state.logdensity_grad, stats)

    _, out = jax.lax.scan(body, state, jax.random.split(sample_key, num_draws))
    return out


def _wrap(
    drawn: PyTree, position: PyTree, gradient: PyTree, stats: dict[str, np.ndarray], record: RunRecord
) -> Draws:
    num_chains, num_draws = stats["diverging"].shape
    T = record.temperature
    x = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(position)]
    wide = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), drawn)
    grad_u = [-T * np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(gradient)]
    unflatten = jax.tree.structure(position).unflatten
    virial = [np.mean((a - a.mean(1, keepdims=True)) * g, axis=1) for a, g in zip(x, grad_u, strict=True)]
    flat = [v.reshape(num_chains, -1) for v in virial]
    overall = np.concatenate(flat, axis=1).sum(axis=1) / record.num_parameters
    return Draws(
        posterior=drawn,
        stats={**stats, "configurational_temperature": overall},
        moments=Moments(
            count=np.full(num_chains, num_draws),
            mean=jax.tree.map(lambda a: a.mean(1), wide),
            variance=jax.tree.map(lambda a: a.var(1, ddof=1), wide),
            temperature=unflatten(virial),
        ),
        status=tuple(
            f"completed {num_draws} draws after {record.burn_in} of warm-up"
            + (f"; {int(d)} divergent transitions" if d else "")
            for d in stats["diverging"].sum(axis=1)
        ),
        lengths=np.full(num_chains, num_draws),
        complete=np.full(num_chains, True),
        record=record,
    )
