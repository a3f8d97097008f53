"""Five rows and three parameters: a regression whose every batch can be listed, with its gradients by hand."""

import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso

N, DIMENSION = 5, 3
RNG = np.random.default_rng(0)
DATA = {
    "x": jnp.asarray(RNG.normal(size=(N, 2)), jnp.float32),
    "y": jnp.asarray(RNG.normal(size=N), jnp.float32),
}
POSITION = {"w": jnp.asarray([0.4, -0.7]), "b": jnp.asarray(0.3)}
ROUNDING = 2e-5  # relative, for means over at most 625 float32 gradients of size 1 to 10


def log_likelihood(theta, row):
    """Return the log-likelihood of one row."""
    return -((row["y"] - row["x"] @ theta["w"] - theta["b"]) ** 2) - 0.1 * theta["b"] ** 4


def batched_log_likelihood(theta, rows):
    """Return the log-likelihood of each row."""
    return -((rows["y"] - rows["x"] @ theta["w"] - theta["b"]) ** 2) - 0.1 * theta["b"] ** 4


def log_prior(theta):
    """Return a steep log-prior, so that it shows if it is used where it should not be."""
    return -20.0 * theta["w"] @ theta["w"] - 3.0 * theta["b"]


POSTERIOR = iso.Posterior(log_likelihood, log_prior)
BATCHED = iso.Posterior(batched_log_likelihood, log_prior, batched=True)
PRIOR_GRADIENT = np.r_[-3.0, -40.0 * np.asarray(POSITION["w"], np.float64)]


def row_gradients():
    """Return g_i computed by hand, in float64, in the order b, w."""
    x, y = (np.asarray(DATA[k], np.float64) for k in "xy")
    w, b = np.asarray(POSITION["w"], np.float64), float(POSITION["b"])
    residual = 2 * (y - x @ w - b)
    return np.column_stack([residual - 0.4 * b**3, residual[:, None] * x])


def flat(theta):
    """Return a vector in the order b, w."""
    return jnp.concatenate([theta["b"][None], theta["w"]])


def unflat(vector):
    """Return the inverse of `flat`."""
    return {"w": vector[1:], "b": vector[0]}


def estimates(posterior, design, needs=iso.extend.Needs.EXACT, look=lambda estimate: None):
    """Return force, contrasts, log-density and `look(estimate)` of each batch of a design (batches, noise factor)."""
    batches, factor = design

    def one(index):
        batch = iso.extend.Batch(jax.tree.map(lambda x: x[index], DATA), index, N, factor)
        estimate = iso.Minibatch(posterior)(POSITION, batch, needs=needs, key=jax.random.key(0))
        contrasts = None if estimate.contrasts is None else jax.vmap(flat)(estimate.contrasts)
        return flat(estimate.force), contrasts, estimate.log_density, look(estimate)

    out = jax.jit(jax.vmap(one))(jnp.asarray(batches))
    return jax.tree.map(lambda x: np.asarray(x, np.float64), out)
