"""Kernels as programs to be timed: steps in a compiled loop that updates its state in place."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm.gradients.minibatch import Minibatch
from isotherm.kernel import Kernel
from isotherm.records import State
from isotherm.studies.bench.methods import Method, Settings
from isotherm.studies.bench.problems import Problem
from isotherm.studies.bench.turns import Program


def kernel_of(method: Method, problem: Problem) -> Kernel:
    """Return the kernel of a method on a problem."""
    h = problem.step_size
    sampler = method.build(Settings(h, h * h / 2, problem.friction))
    gradient = Minibatch(problem.posterior)
    return Kernel(sampler, gradient, problem.num_data, problem.batch_size, method.plan)


class Chains:
    """Running chains, which advance by `steps` when called: one chain, or `chains` of them in parallel."""

    def __init__(
        self, kernel: Kernel, problem: Problem, *, steps: int, chains: int | None = None, seed: int = 1
    ) -> None:
        """Start the chains. The steps are compiled by the first call."""
        key = jax.random.key(seed)
        self.keys = key if chains is None else jax.random.split(key, chains)
        self.data = kernel.minibatch.arrange(problem.data, key=jax.random.fold_in(key, 1))
        self.advance = jax.jit(loop(kernel, steps, chains), donate_argnums=0)
        start = jax.jit(starter(kernel, chains))(problem.start, self.data, self.keys)
        # The state is donated; the start is shared with other programs.
        self.state = jax.tree.map(jnp.copy, start)

    def __call__(self) -> State:
        """Advance all chains and return their state."""
        self.state = self.advance(self.state, self.data, self.keys)
        return self.state

    def finite(self) -> bool:
        """Return whether all chains are finite."""
        return all_finite(self.state)


def program(
    name: str,
    method: Method,
    problem: Problem,
    *,
    steps: int,
    chains: int | None = None,
) -> Program:
    """Return a method on a problem as a program to be timed."""
    running = Chains(kernel_of(method, problem), problem, steps=steps, chains=chains)
    return Program(name, steps, running, cycle=max(1, method.cycle // steps), finite=running.finite)


def starter(kernel: Kernel, chains: int | None) -> Any:
    """Return a function (position, data, keys) -> state."""

    def start(position: PyTree, data: PyTree, keys: Key[Array, "..."]) -> State:
        one = lambda key: kernel.init(position, data, key=key)
        return one(keys) if chains is None else jax.vmap(one)(keys)

    return start


def loop(kernel: Kernel, steps: int, chains: int | None) -> Any:
    """Return a function (state, data, keys) -> the state after `steps` steps."""

    def advance(state: State, data: PyTree, keys: Key[Array, "..."]) -> State:
        one = lambda state, key: kernel.step(state, data, key=key)[0]
        step = one if chains is None else jax.vmap(one)
        return jax.lax.fori_loop(0, steps, lambda i, state: step(state, keys), state)

    return advance


def all_finite(state: PyTree) -> bool:
    """Return whether every floating-point number in `state` is finite."""
    leaves = [x for x in jax.tree.leaves(state) if jnp.issubdtype(x.dtype, jnp.floating)]
    return all(bool(jnp.all(jnp.isfinite(x))) for x in leaves)


def num_bytes(state: PyTree) -> int:
    """Return the bytes of all arrays in `state`."""
    return sum(int(np.prod(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(state))
