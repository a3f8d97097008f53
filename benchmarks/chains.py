"""Many chains on a kernel, with moments as they go: what the benchmarks of accuracy share."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso

GROUPS = 8  # of chains, for Monte Carlo errors of matrices


@dataclasses.dataclass(frozen=True)
class Moments:
    """Over all steps after burn-in: mean and mean square of each coordinate per chain, the second moments by group of
    chains, means of xi and of the kinetic temperature, and kinetic and virial temperature by coordinate.
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
        """Variance of each coordinate over the reference's, and its Monte Carlo error by the spread of chains."""
        centre = self.mean.mean(axis=0)
        per_chain = self.square - 2 * self.mean * centre + centre**2
        error = per_chain.std(axis=0, ddof=1) / np.sqrt(len(per_chain))
        return per_chain.mean(axis=0) / reference_variance, error / reference_variance

    def covariance_error(self) -> tuple[float, float]:
        """The Frobenius norm of (covariance - I) without what chance adds to it, and its Monte Carlo error."""
        centre = self.mean.reshape(GROUPS, -1, self.mean.shape[1]).mean(axis=1)
        each = self.second - centre[:, :, None] * centre[:, None, :] - np.eye(self.second.shape[-1])
        # Groups are independent: products of two of them have no noise in the mean.
        products = np.einsum("gij,hij->gh", each, each)
        pairs = products[~np.eye(GROUPS, dtype=bool)]
        square = max(float(pairs.mean()), 0.0)
        left_out = [
            np.delete(np.delete(products, i, 0), i, 1)[~np.eye(GROUPS - 1, dtype=bool)].mean()
            for i in range(GROUPS)
        ]
        spread = float(np.sqrt((GROUPS - 1) / GROUPS * np.sum((left_out - np.mean(left_out)) ** 2)))
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
    """`starts` has one row a chain. `axes`, columns, are the coordinates to look along."""
    keys = jax.random.split(jax.random.key(seed), len(starts))
    Q = jnp.asarray(np.eye(starts.shape[1]) if axes is None else axes, jnp.float32)
    states = _start(kernel, data, starts, keys)
    states, _ = _advance(kernel, data, states, keys, Q, jnp.asarray(burn_in // every), every)
    states = _settle(kernel, data, states, keys)
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
def _settle(
    kernel: iso.extend.Kernel, data: object, states: iso.extend.State, keys: jax.Array
) -> iso.extend.State:
    return jax.vmap(lambda x, key: kernel.settle(x, data, key=key))(states, keys)


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

    def one(_: jax.Array, carry: tuple) -> tuple:
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
    return jax.lax.fori_loop(0, count, one, (states, sums))
