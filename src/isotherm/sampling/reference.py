"""The posterior by a full-data method, to compare with: NUTS, through BlackJAX."""

import time
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.chains.finish import versions
from isotherm.chains.progress import Progress
from isotherm.data.rows import as_rows
from isotherm.draws import Draws, Moments
from isotherm.errors import check_count, missing_extra
from isotherm.posterior import Posterior
from isotherm.sampling import checks

_STREAM = 2**32 - 5  # a fold of the seed's key apart from those of `iso.sample` with the same seed


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
    """Draws from `posterior` by NUTS with the gradient of all rows in every step.

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
    rows, num_data = as_rows(data)
    key = checks.as_key(seed)
    keys = jax.random.split(jax.random.fold_in(key, _STREAM), num_chains + 1)
    constraint, init, posterior = posterior.constraint, checks.freed(init, posterior), posterior.unconstrained
    positions = checks.per_chain(
        init,
        posterior,
        rows,
        num_chains=num_chains,
        init_scale=init_scale,
        init_per_chain=None,
        key=keys[-1],
    )
    began, chains = time.perf_counter(), []
    with Progress(num_chains * (warmup + num_draws), 1.0, show=progress, title="NUTS") as bar:
        for c in range(num_chains):
            start = jax.tree.map(lambda x, c=c: x[c], positions)
            chain = _nuts(posterior, rows, start, keys[c], num_draws, warmup, dense_mass)
            chains.append(jax.tree.map(np.asarray, chain))
            bar.update((c + 1) * (warmup + num_draws), None)
    position, gradient, stats = jax.tree.map(lambda *x: np.stack(x), *chains)
    drawn = position if constraint is None else jax.tree.map(np.asarray, constraint.constrained(position))
    seconds = time.perf_counter() - began
    return _wrap(posterior, drawn, position, gradient, stats, num_data, warmup, key, seconds)


@eqx.filter_jit
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
    posterior: Posterior,
    drawn: PyTree,
    position: PyTree,
    gradient: PyTree,
    stats: dict[str, np.ndarray],
    num_data: int,
    warmup: int,
    key: Key[Array, ""],
    seconds: float,
) -> Draws:
    num_chains, num_draws = stats["diverging"].shape
    T = float(posterior.temperature)
    x = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(position)]
    own = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), drawn)
    grad_u = [-T * np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(gradient)]
    unflatten = jax.tree.structure(position).unflatten
    virial = [np.mean((a - a.mean(1, keepdims=True)) * g, axis=1) for a, g in zip(x, grad_u, strict=True)]
    flat = [v.reshape(num_chains, -1) for v in virial]
    size = tree.size(jax.tree.map(lambda a: a[0, 0], position))
    steps = int(stats["num_integration_steps"].sum(axis=1).mean())
    return Draws(
        posterior=drawn,
        stats={
            **stats,
            "configurational_temperature": np.concatenate(flat, axis=1).sum(axis=1) / size,
        },
        moments=Moments(
            count=np.full(num_chains, num_draws),
            mean=jax.tree.map(lambda a: a.mean(1), own),
            variance=jax.tree.map(lambda a: a.var(1, ddof=1), own),
            temperature=unflatten(virial),
        ),
        status=tuple(
            f"completed {num_draws} draws after {warmup} of warm-up"
            + (f"; {int(d)} divergent transitions" if d else "")
            for d in stats["diverging"].sum(axis=1)
        ),
        lengths=np.full(num_chains, num_draws),
        complete=np.full(num_chains, True),
        settings={
            "sampler": {"name": "NUTS", "temperature": T},
            "num_data": num_data,
            "batch_size": num_data,
            "num_parameters": size,
            "num_chains": num_chains,
            "burn_in": warmup,
            "thinning": 1,
            "num_draws": num_draws,
            "data_passes": steps,
            "seconds": round(seconds, 3),
            "key": np.asarray(jax.random.key_data(key)).tolist(),
            "versions": versions(),
        },
    )
