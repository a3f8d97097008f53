"""Runs SGHMC and SGNHT of BlackJAX as its documentation does, and records plain arrays.

A peer gets the step size h and friction A of isotherm and is set so that it discretises the same SDE,
$d\\theta = p\\,dt$, $dp = -\\nabla U\\,dt - A p\\,dt + \\sqrt{2A}\\,dW$ (with xi for A in the friction of SGNHT),
with the same time step. A `Length` counts gradients.

Batches are drawn uniformly with replacement, one for each call of the peer's `step` or `update`. A batch as large
as the data is all rows in order, which gives the exact gradient.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Key, PyTree

from isotherm.errors import missing_extra, must
from isotherm.posterior import Posterior
from isotherm.studies.validation.record import Length, Record

_INTEGRATION_STEPS = 10  # the default of `blackjax.sghmc`, also used in its documentation


@dataclasses.dataclass(frozen=True)
class Problem:
    """A posterior at temperature 1, its rows, and the start of each chain (leading axis of `starts`)."""

    posterior: Posterior
    data: PyTree
    starts: PyTree
    num_data: int
    batch_size: int
    dimension: int


def blackjax_sghmc(
    problem: Problem,
    *,
    step_size: float,
    friction: float,
    length: Length,
    seed: int,
    noise_estimate: bool = False,
) -> Record:
    r"""`blackjax.sghmc(grad_estimator, num_integration_steps=10, alpha, beta)`.

    A step draws $p \sim N(0, I)$ and then takes ten times, with one minibatch for all ten,

    $$\theta' = \theta + \epsilon p, \qquad
      p' = (1 - \epsilon\alpha)p - \epsilon\nabla\tilde U(\theta)
      + \sqrt{\epsilon(2\alpha - \epsilon\beta)}\,R.$$

    The map is epsilon = h, alpha = A, and beta = tr(C)/d with `noise_estimate`, otherwise 0, its
    default. The peer returns only the position. Burn-in and thinning are rounded up to multiples of ten.
    """
    blackjax = import_blackjax()
    beta = scalar_noise(problem, step_size, friction) if noise_estimate else 0.0
    sampler = blackjax.sghmc(
        blackjax_gradient(blackjax, problem),
        num_integration_steps=_INTEGRATION_STEPS,
        alpha=friction,
        beta=beta,
    )

    def calls(gradients: int) -> int:
        return -(-gradients // _INTEGRATION_STEPS)

    position = scan(
        problem,
        lambda position, key: sampler.init(position),
        lambda key, state, batch: sampler.step(key, state, batch, step_size),
        length=dataclasses.replace(length, burn_in=calls(length.burn_in), thinning=calls(length.thinning)),
        seed=seed,
    )
    return Record(_flat(position), None, None)


def blackjax_sgnht(
    problem: Problem,
    *,
    step_size: float,
    friction: float,
    length: Length,
    seed: int,
) -> Record:
    r"""`blackjax.sgnht(grad_estimator, alpha)`.

    $$\theta' = \theta + \epsilon p, \quad
      p' = (1 - \epsilon\xi)p - \epsilon\nabla\tilde U(\theta) + \sqrt{2\epsilon\alpha}\,R, \quad
      \xi' = \xi + \epsilon(|p'|^2/d - 1).$$

    The map is epsilon = h and alpha = A; xi starts at alpha, and `beta` keeps its default of 0: the thermostat
    absorbs the noise.
    """
    blackjax = import_blackjax()
    sampler = blackjax.sgnht(blackjax_gradient(blackjax, problem), alpha=friction)
    state = scan(
        problem,
        # xi starts as a Python float, alpha; the scan needs an array.
        lambda position, key: jax.tree.map(lambda x: jnp.asarray(x, float), sampler.init(position, key)),
        lambda key, state, batch: sampler.step(key, state, batch, step_size),
        length=length,
        seed=seed,
    )
    return Record(_flat(state.position), _flat(state.momentum), np.asarray(state.xi, np.float64))


def scalar_noise(problem: Problem, step_size: float, friction: float) -> float:
    r"""Return tr(C)/d, the mean variance of the minibatch gradient over directions, at the mean of the starts.

    It is capped at 2A/h, the largest value for which the added noise $h(2A - h\beta)$ of a peer is real.
    """
    if problem.batch_size == problem.num_data:
        return 0.0
    mean = jax.tree.map(lambda x: jnp.mean(jnp.asarray(x), axis=0), problem.starts)
    data = jax.tree.map(jnp.asarray, problem.data)
    gradient = jax.vmap(jax.grad(problem.posterior.one_log_likelihood), in_axes=(None, 0))
    rows = jax.vmap(lambda x: ravel_pytree(x)[0])(gradient(mean, data))
    trace = float(np.asarray(rows, np.float64).var(axis=0).sum())
    beta = problem.num_data**2 / problem.batch_size * trace / problem.dimension
    return min(beta, 2 * friction / step_size)


def first_starts(problem: Problem, num_chains: int) -> PyTree[Array]:
    """Return the starts of the first `num_chains` chains."""
    if float(problem.posterior.temperature) != 1.0:
        raise must("temperature", "1 for a comparison with other libraries", problem.posterior.temperature)
    num_starts = jax.tree.leaves(problem.starts)[0].shape[0]
    if num_starts < num_chains:
        raise must("num_chains", f"at most the number of starts, {num_starts}", num_chains)
    return jax.tree.map(lambda x: jnp.asarray(x)[:num_chains], problem.starts)


def import_blackjax() -> Any:
    """Return the package `blackjax`, or raise an error that names the extra to install."""
    try:
        import blackjax
    except ImportError as error:
        raise missing_extra("BlackJAX", "bench") from error
    return blackjax


def blackjax_gradient(blackjax: Any, problem: Problem) -> Callable[[PyTree, PyTree], PyTree]:
    """Return the minibatch gradient of the problem, built by BlackJAX."""
    posterior = problem.posterior
    return blackjax.sgmcmc.gradients.grad_estimator(
        posterior.prior_log_density, posterior.one_log_likelihood, problem.num_data
    )


def scan(
    problem: Problem,
    init: Callable[[PyTree, Key[Array, ""]], Any],
    step: Callable[[Key[Array, ""], Any, PyTree], Any],
    *,
    length: Length,
    seed: int,
) -> Any:
    """Return states with leading axes (chain, draw), from a scan over the library's `step`."""
    all_rows = problem.batch_size == problem.num_data

    def advance(carry: Any, _: None, data: PyTree) -> tuple[Any, None]:
        state, key = carry
        key, batch_key, step_key = jax.random.split(key, 3)
        batch = data
        if not all_rows:
            index = jax.random.randint(batch_key, (problem.batch_size,), 0, problem.num_data)
            batch = jax.tree.map(lambda x: x[index], data)
        return (step(step_key, state, batch), key), None

    def draw(carry: Any, _: None, data: PyTree) -> tuple[Any, Any]:
        carry, _ = jax.lax.scan(functools.partial(advance, data=data), carry, None, length=length.thinning)
        return carry, carry[0]

    def chain(start: PyTree, key: Key[Array, ""], data: PyTree) -> Any:
        key, init_key = jax.random.split(key)
        carry = (init(start, init_key), key)
        carry, _ = jax.lax.scan(functools.partial(advance, data=data), carry, None, length=length.burn_in)
        return jax.lax.scan(functools.partial(draw, data=data), carry, None, length=length.draws)[1]

    starts = first_starts(problem, length.chains)
    keys = jax.random.split(jax.random.key(seed), length.chains)
    data = jax.tree.map(jnp.asarray, problem.data)
    return jax.jit(jax.vmap(chain, in_axes=(0, 0, None)))(starts, keys, data)


def _flat(position: PyTree[Array]) -> np.ndarray:
    # (chain, draw, d), with the coordinates in the order of `ravel_pytree`
    leaves = [np.asarray(x, np.float64) for x in jax.tree.leaves(position)]
    return np.concatenate([x.reshape(*x.shape[:2], -1) for x in leaves], axis=2)
