"""Classifiers as posteriors: logistic regression, softmax regression, discriminative restricted Boltzmann machine.

Rows are `{"x": (N, F), "y": (N,)}`, as `iso.data.load(name).train` returns them. With two classes y is -1 or 1, as
`logistic_regression` takes it; with more it is 0, 1, ... For a label that is not a class, the log-likelihood and its
gradient are NaN. Priors are N(0, prior_scale^2).
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from isotherm import tree
from isotherm.errors import check_count, must
from isotherm.posterior import Posterior

Rows = dict[str, Array]
Params = dict[str, Array]


def logistic_regression(prior_scale: float = 1.0) -> Posterior:
    r"""Return the posterior of a vector w of F weights; y is -1 or 1.

    $$p(y|x) = \frac{1}{1 + e^{-y\,w\cdot x}}$$

    For an intercept, put a column of ones in x.
    """
    return _logistic(_checked(prior_scale))


def softmax_regression(prior_scale: float = 1.0) -> Posterior:
    r"""Return the posterior of `{"W": (C, F), "b": (C,)}`; y is 0, ..., C - 1.

    $$p(y|x) \propto e^{b_y + W_y\cdot x}$$
    """
    return _classifier(softmax_scores, _checked(prior_scale))


def drbm(prior_scale: float = 1.0) -> Posterior:
    r"""Return the posterior of `{"W": (H, F), "U": (H, C), "c": (H,), "d": (C,)}`; y is 0, ..., C - 1.

    The conditional distribution of the label in a restricted Boltzmann machine with H hidden units (Larochelle &
    Bengio 2008), in which the biases of the inputs cancel:

    $$p(y|x) \propto e^{d_y}\prod_{j=1}^H\bigl(1 + e^{c_j + U_{jy} + W_j\cdot x}\bigr).$$
    """
    return _classifier(drbm_scores, _checked(prior_scale))


def softmax_scores(params: Params, x: Float[Array, "n F"]) -> Float[Array, "n C"]:
    """Return log p(y|x) of each class, up to a constant in y."""
    return x @ params["W"].T + params["b"][None]


def drbm_scores(params: Params, x: Float[Array, "n F"]) -> Float[Array, "n C"]:
    """Return log p(y|x) of each class, up to a constant in y."""
    inputs = x @ params["W"].T + params["c"][None]
    hidden = jax.nn.softplus(inputs[:, :, None] + params["U"][None])
    return jnp.sum(hidden, axis=1) + params["d"][None]


def drbm_init(
    features: int, hidden: int, classes: int, *, key: Key[Array, ""], scale: float | None = None
) -> Params:
    """Return weights from N(0, scale^2), by default with variance 1/F for W and 1/H for U, and biases of zero."""
    for name, count in (("features", features), ("hidden", hidden), ("classes", classes)):
        check_count(name, count, minimum=1)
    keys = jax.random.split(key)
    w, u = (scale, scale) if scale is not None else (1 / math.sqrt(features), 1 / math.sqrt(hidden))
    return {
        "W": w * jax.random.normal(keys[0], (hidden, features)),
        "U": u * jax.random.normal(keys[1], (hidden, classes)),
        "c": jnp.zeros(hidden),
        "d": jnp.zeros(classes),
    }


# Cached, since every new posterior object is compiled anew.
@functools.cache
def _logistic(prior_scale: float) -> Posterior:
    def log_likelihood(w: Float[Array, " F"], rows: Rows) -> Float[Array, " n"]:
        y = rows["y"].astype(w.dtype)
        return _or_nan(jnp.abs(y) == 1, jax.nn.log_sigmoid(y * (rows["x"] @ w)))

    return Posterior(log_likelihood, _prior(prior_scale), batched=True)


@functools.cache
def _classifier(scores: Callable[[Params, Array], Array], prior_scale: float) -> Posterior:
    def log_likelihood(params: Params, rows: Rows) -> Float[Array, " n"]:
        log_p, y = jax.nn.log_softmax(scores(params, rows["x"])), rows["y"]
        known = jnp.clip(y, 0, log_p.shape[1] - 1)
        return _or_nan(y == known, jnp.take_along_axis(log_p, known[:, None], axis=1)[:, 0])

    return Posterior(log_likelihood, _prior(prior_scale), batched=True)


def _or_nan(valid: Bool[Array, " n"], values: Float[Array, " n"]) -> Float[Array, " n"]:
    return values * jnp.where(valid, 1, jnp.nan).astype(values.dtype)


def _checked(scale: float) -> float:
    if not (isinstance(scale, int | float) and 0 < scale < math.inf):
        raise must("prior_scale", "a positive finite number", scale)
    return float(scale)


def _prior(scale: float) -> Callable[[PyTree], Float[Array, ""]]:
    return lambda params: -tree.dot(params, params) / (2 * scale**2)
