"""The models of the paper's experiments against their definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from isotherm import tree
from isotherm.models import classifiers

pytestmark = pytest.mark.usefixtures("quick_compilation")
F, H, C, N = 5, 4, 3, 6
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, F)).astype(np.float32)
Y = np.array([0, 2, 1, 1, 0, 2], np.int32)
ROWS = {"x": jnp.asarray(X), "y": jnp.asarray(Y)}


def machine():
    params = classifiers.drbm_init(F, H, C, key=jax.random.key(0))
    biases = {
        "c": jnp.asarray(RNG.normal(size=H), jnp.float32),
        "d": jnp.asarray(RNG.normal(size=C), jnp.float32),
    }
    return params | biases


def test_drbm_sums_over_hidden_units():
    """p(y|x) equals the sum over all 2^H states of the hidden units, computed from the joint energy."""
    params = machine()
    W, U, c, d = (np.asarray(params[k], np.float64) for k in "WUcd")
    states = np.array(list(np.ndindex(*(2,) * H)))
    energies = (
        states @ c + (states @ U).T[:, None] + (states @ W @ X.T).T[None] + d[:, None, None]
    )  # (C, N, 2^H)
    joint = np.exp(energies).sum(axis=2)
    expected = np.log(joint / joint.sum(axis=0))[Y, np.arange(N)]
    log_p = classifiers.drbm().row_log_likelihoods(params, ROWS)
    np.testing.assert_allclose(log_p, expected, rtol=1e-4, atol=1e-5)


def test_gradient_of_drbm_is_the_closed_form():
    """With o_jy = c_j + U_jy + W_j.x, it is sum_j s(o_jy) do_jy minus the mean of that sum over p(y|x)."""
    params = machine()
    W, U, c, d = (np.asarray(params[k], np.float64) for k in "WUcd")
    gradient = jax.grad(lambda p: jnp.sum(classifiers.drbm().row_log_likelihoods(p, ROWS)))(params)
    expected = {k: np.zeros(np.shape(params[k])) for k in "WUcd"}
    for x, y in zip(X.astype(np.float64), Y, strict=True):
        o = (c + W @ x)[:, None] + U
        score = np.logaddexp(0, o).sum(axis=0) + d
        p = np.exp(score - np.logaddexp.reduce(score))
        s, weight = 1 / (1 + np.exp(-o)), np.eye(C)[y] - p  # the label minus its expectation
        expected["d"] += weight
        expected["U"] += s * weight
        expected["c"] += s @ weight
        expected["W"] += np.outer(s @ weight, x)
    for k in "WUcd":
        np.testing.assert_allclose(gradient[k], expected[k], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("features", "hidden", "classes", "count"), [(126, 20, 3, 2603), (16, 100, 26, 4326), (50, 20, 3, 1083)]
)
def test_parameters_of_the_papers_machines(features, hidden, classes, count):
    assert tree.size(classifiers.drbm_init(features, hidden, classes, key=jax.random.key(0))) == count


def test_drbm_is_finite_at_extreme_parameters():
    params = jax.tree.map(lambda x: 1e4 * x, machine())
    value, gradient = jax.value_and_grad(lambda p: jnp.sum(classifiers.drbm().row_log_likelihoods(p, ROWS)))(
        params
    )
    assert np.isfinite(value)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(gradient))


def test_softmax_of_two_classes_is_logistic():
    w = RNG.normal(size=F).astype(np.float32)
    y = np.where(Y > 0, 1, -1)
    logistic = classifiers.logistic_regression().row_log_likelihoods(
        jnp.asarray(w), ROWS | {"y": jnp.asarray(y)}
    )
    params = {"W": jnp.stack([jnp.zeros(F), jnp.asarray(w)]), "b": jnp.zeros(2)}
    softmax = classifiers.softmax_regression().row_log_likelihoods(
        params, ROWS | {"y": jnp.asarray(np.where(y > 0, 1, 0))}
    )
    np.testing.assert_allclose(softmax, logistic, rtol=1e-5)
    np.testing.assert_allclose(logistic, -np.log1p(np.exp(-y * (X @ w))), rtol=1e-5)


@pytest.mark.parametrize(
    "make", [classifiers.logistic_regression, classifiers.softmax_regression, classifiers.drbm]
)
def test_prior(make):
    """The prior is log N(0, scale^2) up to a constant, and an invalid scale is refused."""
    params = {"a": jnp.asarray([1.0, 2.0]), "b": jnp.asarray(3.0)}
    assert float(make(2.0).prior_log_density(params)) == pytest.approx(-14 / 8)
    for bad in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="`prior_scale` must be a positive finite number; got"):
            make(bad)


def test_sizes_must_be_counts():
    with pytest.raises(ValueError, match="`hidden` must be an integer of at least 1; got 0"):
        classifiers.drbm_init(3, 0, 2, key=jax.random.key(0))


@pytest.mark.parametrize("label", [-1, C])
def test_a_label_that_is_not_a_class_gives_nan(label):
    """Otherwise a label of -1 would silently count as the last class."""
    rows = ROWS | {"y": ROWS["y"].at[2].set(label)}
    only = [i == 2 for i in range(N)]
    assert list(np.isnan(classifiers.drbm().row_log_likelihoods(machine(), rows))) == only
    total = lambda params: jnp.sum(classifiers.drbm().row_log_likelihoods(params, rows))
    assert np.isnan(jax.grad(total)(machine())["c"]).all()
    rows = {"x": ROWS["x"], "y": jnp.asarray([1, -1, 0, 1, -1, 1])}
    assert list(np.isnan(classifiers.logistic_regression().row_log_likelihoods(jnp.ones(F), rows))) == only
