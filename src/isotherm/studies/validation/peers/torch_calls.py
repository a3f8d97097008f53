"""Runs SGHMC and SGNHT of `posteriors` on torch, with the signatures and records of `peers.calls`."""

import functools
import importlib
import math
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from isotherm.errors import missing_extra
from isotherm.studies.validation.peers.calls import Problem, first_starts, scalar_noise
from isotherm.studies.validation.record import Length, Record


def posteriors_sghmc(
    problem: Problem,
    *,
    step_size: float,
    friction: float,
    length: Length,
    seed: int,
    noise_estimate: bool = False,
    momenta: float | None = 0.0,
) -> Record:
    r"""`posteriors.sgmcmc.sghmc.build(log_posterior, lr, alpha, beta, temperature=1/N)`.

    As its page on log-posteriors advises, `log_posterior` is divided by N and the temperature is T = 1/N:

    $$\theta' = \theta + \epsilon m, \qquad
      m' = (1 - \epsilon\alpha)m - \tfrac\epsilon N\nabla\tilde U(\theta)
      + \sqrt{\epsilon T(2\alpha - \epsilon\beta T)}\,R.$$

    With $p = \sqrt N m$ this is isotherm's SDE in steps of h for $\epsilon = \sqrt N h$, $\alpha = A/\sqrt N$ and
    beta = tr(C)/d of the *unscaled* gradient, since the peer multiplies it by T^2; without
    `noise_estimate` beta is 0, its default.

    `momenta` is the initial momentum: 0, as in the library's examples at this temperature. `None` is the library's
    default, a draw from N(0, 1), where N(0, T) would be correct: N times too much kinetic energy.
    """
    beta = scalar_noise(problem, step_size, friction) if noise_estimate else 0.0
    position, momentum, _ = loop(
        problem,
        "sghmc",
        step_size=step_size,
        friction=friction,
        beta=beta,
        length=length,
        seed=seed,
        momenta=momenta,
    )
    return Record(position, math.sqrt(problem.num_data) * momentum, None)


def posteriors_sgnht(
    problem: Problem,
    *,
    step_size: float,
    friction: float,
    length: Length,
    seed: int,
    momenta: float | None = 0.0,
) -> Record:
    r"""`posteriors.sgmcmc.sgnht.build(log_posterior, lr, alpha, temperature=1/N)`.

    Scaled as in `posteriors_sghmc`, with xi_m for alpha in the friction and

    $$\xi_m' = \xi_m + \epsilon(|m|^2/d - T),$$

    where m is the momentum before the step. With $\xi = \sqrt N\xi_m$ it is isotherm's thermostat of mass d.
    With `momenta=None` the initial kinetic energy is N times too large and drives xi up to about sqrt(N). After that
    xi falls by at most one per unit of time, so the burn-in must exceed sqrt(N)/h steps.
    """
    root = math.sqrt(problem.num_data)
    position, momentum, xi = loop(
        problem,
        "sgnht",
        step_size=step_size,
        friction=friction,
        beta=0.0,
        length=length,
        seed=seed,
        momenta=momenta,
    )
    return Record(position, root * momentum, root * xi)


def loop(
    problem: Problem,
    algorithm: str,
    *,
    step_size: float,
    friction: float,
    beta: float,
    length: Length,
    seed: int,
    momenta: float | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return positions, momenta and xi of all chains, (chain, draw, ...), from the library's `update`."""
    torch, posteriors = import_torch()
    N, n = problem.num_data, problem.batch_size
    starts = first_starts(problem, length.chains)
    flat = np.array(jax.vmap(lambda x: ravel_pytree(x)[0])(starts))
    transform = getattr(posteriors.sgmcmc, algorithm).build(
        _log_posterior(torch, problem),
        lr=math.sqrt(N) * step_size,
        alpha=friction / math.sqrt(N),
        beta=beta,
        temperature=1 / N,
        momenta=momenta,
    )
    # The library draws from torch's global generator: seed a copy, so that the caller's is unchanged.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        update = torch.func.vmap(
            lambda state, rows: transform.update(state, rows, inplace=False)[0], randomness="different"
        )
        state = torch.func.vmap(transform.init, randomness="different")(torch.from_numpy(flat))
        every_row = torch.arange(N).expand(length.chains, N)
        draws = []
        for step in range(length.steps):
            rows = every_row if n == N else torch.randint(N, (length.chains, n))
            state = update(state, rows)
            if step >= length.burn_in and (step - length.burn_in + 1) % length.thinning == 0:
                draws.append((state.params, state.momenta, getattr(state, "xi", torch.zeros(length.chains))))
    position, momentum, xi = (torch.stack(x, dim=1).double().numpy() for x in zip(*draws, strict=True))
    return position, momentum, xi


def import_torch() -> tuple[Any, Any]:
    """Return `torch` and `posteriors`, or raise an error that names the extra to install."""
    try:
        torch = importlib.import_module("torch")
        with warnings.catch_warnings():
            # tensordict warns of a future change for each state class of `posteriors`.
            warnings.simplefilter("ignore", FutureWarning)
            posteriors = importlib.import_module("posteriors")
    except ImportError as error:
        raise missing_extra("posteriors", "bench") from error
    return torch, posteriors


def _log_posterior(torch: Any, problem: Problem) -> Any:
    # The library calls log_posterior(params, rows) -> (value, aux), where `rows` are row indices. Value and
    # gradient come from JAX, so that both libraries use the same definition of the target.
    unravel = ravel_pytree(jax.tree.map(lambda x: jnp.asarray(x)[0], problem.starts))[1]
    data = jax.tree.map(jnp.asarray, problem.data)

    def mean_log_posterior(theta: Array, rows: Array, data: Any) -> Array:
        position, batch = unravel(theta), jax.tree.map(lambda x: x[rows], data)
        likelihood = jnp.mean(problem.posterior.row_log_likelihoods(position, batch))
        return likelihood + problem.posterior.prior_log_density(position) / problem.num_data

    by_chain = jax.jit(jax.vmap(jax.value_and_grad(mean_log_posterior), in_axes=(0, 0, None)))
    evaluate = functools.partial(_through_numpy, torch, lambda theta, rows: by_chain(theta, rows, data))

    class MeanLogPosterior(torch.autograd.Function):
        @staticmethod
        def forward(theta: Any, rows: Any) -> Any:
            value, gradient = evaluate(theta[None], rows[None])
            return value[0], gradient[0]

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.mark_non_differentiable(output[1])
            ctx.save_for_backward(output[1])

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            return cotangents[0] * ctx.saved_tensors[0], None

        @staticmethod
        def vmap(info: Any, in_dims: Any, theta: Any, rows: Any) -> Any:
            return evaluate(theta.movedim(in_dims[0], 0), rows.movedim(in_dims[1], 0)), (0, 0)

    return lambda theta, rows: (MeanLogPosterior.apply(theta, rows)[0], torch.zeros(()))


def _through_numpy(torch: Any, function: Any, *tensors: Any) -> tuple[Any, ...]:
    outputs = function(*(x.detach().numpy() for x in tensors))
    return tuple(torch.from_numpy(np.array(x)) for x in outputs)
