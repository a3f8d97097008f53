"""Logistic regression on MNIST's sevens and nines, projected to 100 dimensions: the data, the mode, a reference.

Pixels in [0, 1] times an unscaled N(0, 1) matrix, labels +-1, prior N(0, 1), as in section 4.2 of the CCAdL paper.
The files are looked for in the folder that ISOTHERM_DATA_DIR names first.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso

DIMENSION = 100


def log_likelihood(w: jax.Array, row: tuple[jax.Array, jax.Array]) -> jax.Array:
    """log sigmoid(y x.w)."""
    x, y = row
    return -jax.nn.softplus(-y * (x @ w))


@dataclasses.dataclass(frozen=True)
class Problem:
    """Rows x and labels y in coordinates w = mode + L v, where L is the identity or the root of the inverse Hessian.

    The prior is that of w; chains move v.
    """

    x: np.ndarray
    y: np.ndarray
    mode: np.ndarray
    root: np.ndarray
    hessian: np.ndarray

    @property
    def data(self) -> tuple[jax.Array, jax.Array]:
        """Rows as the posterior takes them."""
        return jnp.asarray(self.x, jnp.float32), jnp.asarray(self.y, jnp.float32)

    @property
    def posterior(self) -> iso.Posterior:
        """The posterior of v."""
        mode, root = jnp.asarray(self.mode, jnp.float32), jnp.asarray(self.root, jnp.float32)
        to_w = lambda v: mode + root @ v
        return iso.Posterior(
            lambda v, batch: log_likelihood(to_w(v), batch),
            lambda v: -0.5 * jnp.sum(to_w(v) ** 2),
            batched=True,
        )


def load() -> tuple[np.ndarray, np.ndarray]:
    """The 12,214 training images of 7 and 9, projected, and their labels."""
    digits = iso.data.load("mnist-7v9")
    projection = np.random.default_rng(0).normal(size=(784, DIMENSION))
    return digits.x_train.astype(np.float64) @ projection, digits.y_train.astype(np.float64)


def problem(*, whitened: bool) -> Problem:
    """The posterior by Newton's method in float64, in whitened coordinates or as it is."""
    x, y = load()
    w = np.zeros(DIMENSION)
    for _ in range(30):
        p = 1 / (1 + np.exp(y * (x @ w)))
        gradient = x.T @ (y * p) - w
        hessian = (x * (p * (1 - p))[:, None]).T @ x + np.eye(DIMENSION)
        w = w + np.linalg.solve(hessian, gradient)
    values, vectors = np.linalg.eigh(hessian)
    root = vectors / np.sqrt(values) if whitened else np.eye(DIMENSION)
    return Problem(x, y, w, root, root.T @ hessian @ root)


def reference(p: Problem, *, chains: int, draws: int, seed: int = 0) -> np.ndarray:
    """Draws of v by Hamiltonian Monte Carlo on all rows, in the metric of the Hessian: (chain, draw, d)."""
    posterior, data = p.posterior, p.data
    values, vectors = np.linalg.eigh(p.hessian)
    to_v = jnp.asarray(vectors / np.sqrt(values), jnp.float32)
    log_density = lambda u: posterior.log_density(to_v @ u, data)
    gradient = jax.grad(log_density)
    step, leaps = 0.25, 8

    def move(carry: tuple[jax.Array, jax.Array], key: jax.Array) -> tuple:
        u, value = carry
        keys = jax.random.split(key, 3)
        h = step * jax.random.uniform(keys[2], (), minval=0.7, maxval=1.3)
        r = jax.random.normal(keys[0], u.shape)
        energy = value - 0.5 * jnp.sum(r * r)
        new, momentum = u, r + h / 2 * gradient(u)
        for i in range(leaps):
            new = new + h * momentum
            momentum = momentum + (h if i < leaps - 1 else h / 2) * gradient(new)
        new_value = log_density(new)
        accept = jnp.log(jax.random.uniform(keys[1])) < new_value - 0.5 * jnp.sum(momentum**2) - energy
        u, value = jnp.where(accept, new, u), jnp.where(accept, new_value, value)
        return (u, value), (to_v @ u, accept)

    def chain(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        start, run = jax.random.split(key)
        u = jax.random.normal(start, (DIMENSION,))
        carry = (u, log_density(u))
        carry, _ = jax.lax.scan(move, carry, jax.random.split(jax.random.fold_in(run, 0), 100))
        return jax.lax.scan(move, carry, jax.random.split(jax.random.fold_in(run, 1), draws))[1]

    positions, accepted = jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(seed), chains))
    print(f"reference: {chains} x {draws} draws, accepted {float(jnp.mean(accepted)):.2f}")
    return np.asarray(positions, np.float64)


def step_for(p: Problem, s: float, batch_size: int) -> float:
    """h at which the largest eigenvalue of S is s, from all rows at the mode, for unit mass."""
    q = 1 / (1 + np.exp(p.y * (p.x @ p.mode)))
    rows = (p.y * q)[:, None] * (p.x @ p.root)
    C = len(rows) ** 2 / batch_size * np.cov(rows.T)
    return float(np.sqrt(s / np.linalg.eigvalsh(C)[-1]))
