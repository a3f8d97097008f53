"""The kernel that fuses the gather of rows with both products gives what the plain form gives, up to rounding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.data.weighted import Weighted
from isotherm.gradients import fused
from isotherm.gradients.linear import linear_likelihood
from isotherm.gradients.row_sums import row_sums
from support.table import slow_unless

N, D, CHAINS = 200, 20, 3
SCALE = jnp.asarray(2.0)  # a constant that a log-likelihood closes over
RNG = np.random.default_rng(0)
ROWS = {
    "x": jnp.asarray(RNG.normal(size=(N, D)), jnp.float32),
    "y": jnp.asarray(RNG.choice([-1.0, 1.0], N), jnp.float32),
}


def logistic(w, row):
    return jax.nn.log_sigmoid(row["y"] * (row["x"] @ w))


def normal(theta, row):
    residual = (row["y"] - jnp.dot(row["x"], theta["w"]) - theta["b"]) / jnp.exp(theta["log_sd"])
    return -0.5 * residual**2 - theta["log_sd"] * SCALE


def poisson(theta, row):
    eta = theta[0] + theta[1:] @ row["x"]
    return row["y"] * eta - jnp.exp(eta)


FUSED = {
    "logistic": (iso.Posterior(logistic, lambda w: -0.5 * jnp.sum(w**2)), jnp.ones(D) / 10),
    "normal": (
        iso.Posterior(normal),
        {"w": jnp.ones(D) / 10, "b": jnp.asarray(0.1), "log_sd": jnp.asarray(0.2)},
    ),
    "poisson": (iso.Posterior(poisson), jnp.full(D + 1, 0.05)),
    "constrained": (
        iso.Posterior(
            lambda t, row: -0.5 * ((row["y"] - row["x"] @ t["w"]) / t["sd"]) ** 2 - jnp.log(t["sd"]),
            transforms={"w": None, "sd": iso.Positive()},
        ).unconstrained,
        {"w": jnp.ones(D) / 10, "sd": jnp.asarray(0.3)},
    ),
}
PLAIN = {
    "not a product": (lambda w, row: -jnp.sum((row["x"] - w) ** 2), jnp.ones(D)),
    "features used twice": (lambda w, row: logistic(w, row) - jnp.sum(row["x"]), jnp.ones(D)),
    "product with another row": (lambda w, row: row["x"] @ (w * row["y"]), jnp.ones(D)),
    "several products": (lambda w, row: jax.nn.log_softmax(w @ row["x"])[0], jnp.ones((3, D))),
    "a vector after the product": (lambda w, row: jnp.sum(w * (row["x"] @ w)), jnp.ones(D)),
    "the square of the features": (lambda w, row: w[0] * (row["x"] @ row["x"]), jnp.ones(D)),
}
SAMPLERS = {
    "SGNHT": iso.SGNHT(1e-3, 1.0),
    "CCAdL, Dense": iso.CCAdL(1e-3, 1.0, iso.Dense()),
    "CCAdL, MatrixFree": iso.CCAdL(1e-3, 1.0, iso.MatrixFree()),
}


def after_steps(posterior, position, sampler, batch_size, *, plan=None, steps=3):
    """Return the state of some chains after a few steps, and whether the step contains the kernel."""
    plan = iso.WithReplacement() if plan is None else plan
    kernel = iso.extend.Kernel(sampler, iso.Minibatch(posterior), N, batch_size, plan)
    keys = jax.random.split(jax.random.key(1), CHAINS)
    one = lambda state, key: kernel.step(state, ROWS, key=key)[0]
    loop = lambda states: jax.lax.fori_loop(0, steps, lambda _, s: jax.vmap(one)(s, keys), states)
    start = jax.vmap(lambda key: kernel.init(position, ROWS, key=key))(keys)
    return jax.jit(loop)(start), "pallas_call" in str(jax.make_jaxpr(loop)(start))


def assert_close(x, y):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6), x, y)


@pytest.mark.parametrize(
    ("name", "sampler"),
    slow_unless(
        [("normal", "CCAdL, Dense")],
        [
            *((name, "CCAdL, Dense") for name in FUSED),
            *(("constrained", sampler) for sampler in SAMPLERS if sampler != "CCAdL, Dense"),
        ],
    ),
)
def test_states_agree_with_the_plain_form(name, sampler, monkeypatch):
    posterior, position = FUSED[name]
    plain, without = after_steps(posterior, position, SAMPLERS[sampler], 37)
    monkeypatch.setattr(fused, "INTERPRETED", True)
    out, within = after_steps(posterior, position, SAMPLERS[sampler], 37)
    assert within
    assert not without
    assert_close(out, plain)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 16, 127, 128, 129])
def test_any_batch_size(batch_size, monkeypatch):
    posterior, position = FUSED["normal"]
    plain, _ = after_steps(posterior, position, SAMPLERS["SGNHT"], batch_size)
    monkeypatch.setattr(fused, "INTERPRETED", True)
    out, within = after_steps(posterior, position, SAMPLERS["SGNHT"], batch_size)
    assert within
    assert_close(out, plain)


@pytest.mark.slow
def test_rows_that_a_plan_does_not_take_by_index_are_left_alone(monkeypatch):
    monkeypatch.setattr(fused, "INTERPRETED", True)
    weighted = Weighted(np.arange(1, N + 1))
    assert not weighted.takes_by_index
    assert not after_steps(*FUSED["logistic"], SAMPLERS["SGNHT"], 16, plan=weighted)[1]
    assert after_steps(*FUSED["logistic"], SAMPLERS["SGNHT"], 16, plan=iso.WithoutReplacement())[1]


def test_the_form_is_read_from_the_trace():
    for posterior, position in FUSED.values():
        assert linear_likelihood(posterior, position, ROWS) is not None
    for f, position in PLAIN.values():
        assert linear_likelihood(iso.Posterior(f), position, ROWS) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAIN)
def test_other_log_likelihoods_are_evaluated_as_before(name, monkeypatch):
    posterior, position = iso.Posterior(PLAIN[name][0]), PLAIN[name][1]
    plain, _ = after_steps(posterior, position, SAMPLERS["SGNHT"], 16)
    monkeypatch.setattr(fused, "INTERPRETED", True)
    out, within = after_steps(posterior, position, SAMPLERS["SGNHT"], 16)
    assert not within
    jax.tree.map(np.testing.assert_array_equal, out, plain)


def test_the_kernel_can_be_switched_off(monkeypatch):
    monkeypatch.setattr(fused, "INTERPRETED", True)
    posterior, position = FUSED["logistic"]
    kernel = iso.extend.Kernel(SAMPLERS["SGNHT"], iso.Minibatch(posterior, fused=False), N, 16)
    one = lambda key: kernel.step(kernel.init(position, ROWS, key=key), ROWS, key=key)[0]
    keys = jax.random.split(jax.random.key(1), CHAINS)
    assert "pallas_call" not in str(jax.make_jaxpr(jax.vmap(one))(keys))


@pytest.mark.parametrize("name", FUSED)
def test_pallas_has_the_operations(name):
    # Compiling for a GPU needs none; operations that Pallas lacks are found here.
    posterior, position = FUSED[name]
    likelihood = linear_likelihood(posterior, position, ROWS)
    many = jax.tree.map(lambda x: jnp.stack([x] * CHAINS), position)
    sums = lambda theta, rows, index: row_sums(likelihood, posterior, theta, rows, index, 2)
    assert fused.compiles(sums, many, ROWS, jnp.zeros((CHAINS, 37), jnp.int32))


def test_operations_that_pallas_lacks_are_found():
    posterior = iso.Posterior(lambda w, row: jax.lax.lgamma(row["x"] @ w))
    likelihood = linear_likelihood(posterior, jnp.ones(D), ROWS)
    sums = lambda theta, rows, index: row_sums(likelihood, posterior, theta, rows, index, 1)
    assert not fused.compiles(sums, jnp.ones((CHAINS, D)), ROWS, jnp.zeros((CHAINS, 37), jnp.int32))
