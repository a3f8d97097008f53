"""Run many chains of a kernel and accumulate moments. Shared by the accuracy benchmarks."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso

GROUPS = 8  # groups of chains, for the Monte Carlo errors of matrices


@dataclasses.dataclass(frozen=True)
class Moments:
    """Averages over all steps after burn-in.

    - `mean`, `square`: mean and mean square of each coordinate, per chain.
    - `second`: matrices of second moments, per group of chains.
    - `xi`, `kinetic`: thermostat variable and kinetic temperature, per chain.
    - `heat`, `virial`: kinetic and virial temperature of each coordinate, per chain.
    """

    mean: np.ndarray
    square: np.ndarray
    second: np.ndarray
    xi: np.ndarray
    kinetic: np.ndarray
    heat: np.ndarray
    virial: np.ndarray

    @property
    def finite(self) -> bool:
        """Whether every chain stayed finite."""
        return bool(np.all(np.isfinite(self.square)))

    def variance_ratio(self, reference_variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the variance of each coordinate divided by that of the reference, and its Monte Carlo error.

        The error comes from the spread between chains.
        """
        centre = self.mean.mean(axis=0)
        per_chain = self.square - 2 * self.mean * centre + centre**2
        error = per_chain.std(axis=0, ddof=1) / np.sqrt(len(per_chain))
        return per_chain.mean(axis=0) / reference_variance, error / reference_variance

    def covariance_error(self) -> tuple[float, float]:
        """Return the Frobenius norm of (covariance - I), corrected for noise, and its Monte Carlo error."""
        centre = self.mean.reshape(GROUPS, -1, self.mean.shape[1]).mean(axis=1)
        deviations = self.second - centre[:, :, None] * centre[:, None, :] - np.eye(self.second.shape[-1])
        # Groups are independent, so noise averages out in the products of two different groups.
        products = np.einsum("gij,hij->gh", deviations, deviations)
        pairs = products[~np.eye(GROUPS, dtype=bool)]
        square = max(float(pairs.mean()), 0.0)
        jackknife = [
            np.delete(np.delete(products, i, 0), i, 1)[~np.eye(GROUPS - 1, dtype=bool)].mean()
            for i in range(GROUPS)
        ]
        spread = float(np.sqrt((GROUPS - 1) / GROUPS * np.sum((jackknife - np.mean(jackknife)) ** 2)))
        return square**0.5, spread / (2 * max(square, 1e-12) ** 0.5)


def run(
    kernel: iso.extend.Kernel,
    data: object,
    starts: jax.Array,
    *,
    burn_in: int,
    steps: int,
    seed: int = 0,
    axes: np.ndarray | None = None,
    every: int = 4,
) -> Moments:
    """Run one chain from each row of `starts` and return the moments along the columns of `axes`."""
    keys = jax.random.split(jax.random.key(seed), len(starts))
    Q = jnp.asarray(np.eye(starts.shape[1]) if axes is None else axes, jnp.float32)
    states = _start(kernel, data, starts, keys)
    states, _ = _advance(kernel, data, states, keys, Q, jnp.asarray(burn_in // every), every)
    states = _restarted(kernel, data, states, keys)
    pieces, total = [], 0
    while total < steps // every:
        count = min(500, steps // every - total)
        states, sums = _advance(kernel, data, states, keys, Q, jnp.asarray(count), every)
        pieces.append([np.asarray(x, np.float64) for x in sums])
        total += count
    return Moments(*(sum(x) / total for x in zip(*pieces, strict=True)))


@eqx.filter_jit
def _start(kernel: iso.extend.Kernel, data: object, starts: jax.Array, keys: jax.Array) -> iso.extend.State:
    return jax.vmap(lambda x, key: kernel.init(x, data, key=key))(starts, keys)


@eqx.filter_jit
def _restarted(
    kernel: iso.extend.Kernel, data: object, states: iso.extend.State, keys: jax.Array
) -> iso.extend.State:
    return jax.vmap(lambda x, key: kernel.restart_averages(x, data, key=key))(states, keys)


@eqx.filter_jit
def _advance(
    kernel: iso.extend.Kernel,
    data: object,
    states: iso.extend.State,
    keys: jax.Array,
    Q: jax.Array,
    count: jax.Array,
    every: int,
) -> tuple[iso.extend.State, tuple]:
    chains, d = states.position.shape
    step = jax.vmap(lambda state, key: kernel.step(state, data, key=key))

    def advance_and_add(_: jax.Array, carry: tuple) -> tuple:
        states, sums = carry
        states = jax.lax.fori_loop(0, every - 1, lambda i, x: step(x, keys)[0], states)
        states, info, visit = step(states, keys)
        x = states.position @ Q
        p = x * 0 if states.momentum is None else states.momentum @ Q
        xi = jnp.zeros(chains) if info.xi is None else info.xi
        kinetic = jnp.zeros(chains) if info.kinetic_temperature is None else info.kinetic_temperature
        virial = -(visit.estimate.force @ Q) * (visit.position @ Q)
        groups = x.reshape(GROUPS, -1, d)
        second = jnp.einsum("gci,gcj->gij", groups, groups) * GROUPS / chains
        terms = (x, x * x, second, xi, kinetic, p * p, virial)
        return states, jax.tree.map(jnp.add, sums, terms)

    zero = jnp.zeros((chains, d))
    sums = (zero, zero, jnp.zeros((GROUPS, d, d)), jnp.zeros(chains), jnp.zeros(chains), zero, zero)
    return jax.lax.fori_loop(0, count, advance_and_add, (states, sums))
