"""SGNHT of other libraries as programs to be timed, called as their documentation does."""

import functools
import math
import timeit
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.errors import missing_extra
from isotherm.studies.bench.problems import Problem
from isotherm.studies.bench.programs import all_finite
from isotherm.studies.bench.turns import Program
from isotherm.studies.validation.peers.calls import import_blackjax
from isotherm.studies.validation.peers.torch_calls import import_torch

BLACKJAX_SCAN = "BlackJAX SGNHT, scan"
BLACKJAX_LOOP = "BlackJAX SGNHT, loop"
POSTERIORS = "posteriors SGNHT, torch on CPU"
_TRIAL_STEPS = 32  # to choose the number of threads


def blackjax_scan(problem: Problem, *, steps: int, chains: int) -> Program:
    """Return `blackjax.sgnht` inside a `lax.scan` that draws rows with replacement."""
    sampler = _blackjax(problem)

    def step(carry: Any, _: None, data: Any) -> tuple[Any, None]:
        state, key = carry
        key, batch_key, step_key = jax.random.split(key, 3)
        index = jax.random.randint(batch_key, (problem.batch_size,), 0, problem.num_data)
        batch = jax.tree.map(lambda x: x[index], data)
        return (sampler.step(step_key, state, batch, problem.step_size), key), None

    def chain(carry: Any, data: Any) -> Any:
        return jax.lax.scan(lambda c, x: step(c, x, data), carry, None, length=steps)[0]

    run = chain if chains == 1 else jax.vmap(chain, in_axes=(0, None))
    advance = jax.jit(run, donate_argnums=0)
    keys = jax.random.split(jax.random.key(2), (chains, 2))
    carries = [(_start(sampler, problem, keys[i, 0]), jnp.copy(keys[i, 1])) for i in range(chains)]
    held = [carries[0] if chains == 1 else jax.tree.map(lambda *x: jnp.stack(x), *carries)]

    def call() -> Any:
        held[0] = advance(held[0], problem.data)
        return held[0]

    return Program(BLACKJAX_SCAN, steps, call, finite=lambda: all_finite(held[0][0]))


def blackjax_loop(problem: Problem, *, steps: int) -> Program:
    """Return a Python loop over `jax.jit(sgnht.step)`, with an iterator that yields batches."""
    sampler = _blackjax(problem)
    step, batches = jax.jit(sampler.step), _batches(problem)
    init_key, key = jax.random.split(jax.random.key(3))
    held = [_start(sampler, problem, init_key), key]

    def call() -> Any:
        state, key = held
        for _ in range(steps):
            key, step_key = jax.random.split(key)
            state = step(step_key, state, next(batches), problem.step_size)
        held[:] = state, key
        return state

    return Program(BLACKJAX_LOOP, steps, call, finite=lambda: all_finite(held[0]))


def posteriors(problem: Problem, *, steps: int) -> Program:
    """Return `posteriors.sgmcmc.sgnht` with a log-posterior in torch, divided by N, at temperature 1/N.

    It runs with one thread or with torch's default number, whichever is faster.
    """
    try:
        torch, library = import_torch()
    except ImportError as error:
        raise missing_extra("posteriors", "bench") from error
    N, n = problem.num_data, problem.batch_size
    x, y = (torch.from_numpy(np.array(leaf)) for leaf in problem.data)

    def log_posterior(w: Any, batch: Any) -> tuple[Any, Any]:
        features, labels = batch
        likelihood = torch.nn.functional.logsigmoid(labels * (features @ w)).mean()
        return likelihood - 0.5 * (w**2).sum() / N, torch.zeros(())

    transform = library.sgmcmc.sgnht.build(
        log_posterior,
        lr=math.sqrt(N) * problem.step_size,
        alpha=problem.friction / math.sqrt(N),
        temperature=1 / N,
        momenta=0.0,
    )
    held = [transform.init(torch.from_numpy(np.array(problem.start)))]

    def advance(count: int, threads: int) -> None:
        state, before = held[0], torch.get_num_threads()
        torch.set_num_threads(threads)
        for _ in range(count):
            index = torch.randint(N, (n,))
            state, _ = transform.update(state, (x[index], y[index]))
        torch.set_num_threads(before)
        held[0] = state

    # For work this small, threads that wait for each other can make it many times slower: take the faster choice.
    advance(_TRIAL_STEPS, 1)
    choices = (1, torch.get_num_threads())
    seconds = {
        threads: timeit.timeit(lambda t=threads: advance(_TRIAL_STEPS, t), number=1) for threads in choices
    }
    threads = min(choices, key=lambda t: seconds[t])
    call = functools.partial(advance, steps, threads)
    return Program(POSTERIORS, steps, call, finite=lambda: bool(torch.isfinite(held[0].params).all()))


def _blackjax(problem: Problem) -> Any:
    try:
        blackjax = import_blackjax()
    except ImportError as error:
        raise missing_extra("BlackJAX", "bench") from error
    posterior = problem.posterior
    gradient = blackjax.sgmcmc.gradients.grad_estimator(
        posterior.prior_log_density, posterior.one_log_likelihood, problem.num_data
    )
    return blackjax.sgnht(gradient, alpha=problem.friction)


def _start(sampler: Any, problem: Problem, key: Any) -> Any:
    # xi starts as a Python float; a compiled loop needs an array. The position is copied because programs donate it.
    return jax.tree.map(lambda x: jnp.array(x, float, copy=True), sampler.init(problem.start, key))


def _batches(problem: Problem) -> Iterator[Any]:
    rng, rows = np.random.default_rng(4), jax.tree.map(np.asarray, problem.data)
    while True:
        index = rng.integers(0, problem.num_data, problem.batch_size)
        yield jax.tree.map(lambda x, index=index: x[index], rows)
