"""The noise that is measured on a few batches agrees with that of the gradients of all rows."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.chains.noise import measure

N, BATCH, REPEATS = 2000, 50, 16
H = 1e-3


def regression():
    """20 coefficients and rows of 20 numbers: many contrasts of few batches."""
    x = jax.random.normal(jax.random.key(1), (N, 20)) * jnp.linspace(3, 0.5, 20)[None]
    posterior = iso.Posterior(
        lambda w, row: jax.nn.log_sigmoid(row["s"] * (row["x"] @ w)), lambda w: -0.5 * w @ w
    )
    return posterior, {"x": x, "s": jnp.sign(x[:, 0] + 0.5)}, jnp.zeros(20)


def network():
    """1,201 parameters and rows of four numbers: one contrast of many batches."""
    net = iso.interop.equinox.posterior(
        eqx.nn.MLP(3, "scalar", 30, 2, key=jax.random.key(0)), "gaussian", scale=0.5
    )
    x = jax.random.normal(jax.random.key(1), (N, 3))
    return net.posterior, {"x": x, "y": jnp.sin(2 * x[:, 0]) + x[:, 1]}, net.init


@pytest.mark.slow
@pytest.mark.parametrize("problem", [regression, network])
def test_size_and_trace_of_the_noise(problem):
    posterior, data, start = problem()
    sampler = iso.CCAdL(H, 5.0, iso.Diagonal(), scheme="symmetric")
    setup = iso.setup(posterior, data, start, sampler=sampler, batch_size=BATCH)
    kernel = setup.bound(jax.tree.map(lambda x: x[None], start)).kernel
    seen = [measure(kernel, setup.problem.data, start, step=0, key=jax.random.key(i)) for i in range(REPEATS)]

    rows = jax.vmap(jax.grad(posterior.one_log_likelihood), in_axes=(None, 0))(start, data)
    rows = np.concatenate([np.asarray(x, np.float64).reshape(N, -1) for x in jax.tree.leaves(rows)], axis=1)
    C = N**2 / BATCH * np.cov(rows.T)
    unit = kernel.sampler.noise_scale(0)
    trace, want = [x.trace for x in seen], unit * np.trace(C)
    error = np.std(trace, ddof=1) / REPEATS**0.5
    assert abs(np.mean(trace) - want) < 4.5 * error
    assert error < 0.05 * want
    s, largest = [x.s for x in seen], unit * np.linalg.eigvalsh(C)[-1]
    # A lower bound, by the directions that half of the contrasts cannot tell from the first.
    assert 0.75 * largest < np.mean(s) < largest + 4.5 * np.std(s, ddof=1) / REPEATS**0.5


class Reversed(iso.extend.Preconditioner):
    """A change of variables of a user's own: coordinates in the opposite order, with scales."""

    center: jax.Array
    scale: jax.Array

    def multiply(self, v):
        return self.scale * v[::-1]

    def multiply_transposed(self, x):
        return (self.scale * x)[::-1]

    def solve(self, x):
        return (x / self.scale)[::-1]


@pytest.mark.slow
def test_s_is_that_of_the_coordinates_of_a_preconditioner_of_ones_own():
    posterior, data, start = regression()
    scale = jnp.linspace(0.01, 0.1, 20)
    own = Reversed(start, scale)
    run = lambda preconditioner: iso.sample(
        posterior,
        data,
        start,
        sampler=iso.CCAdL(0.05, 5.0, iso.Dense(), scheme="symmetric"),
        batch_size=BATCH,
        num_draws=50,
        num_chains=2,
        preconditioner=preconditioner,
        progress=False,
    )
    draws, usual = run(own), run(iso.DiagonalPreconditioner(start, scale))
    rows = jax.vmap(jax.grad(posterior.one_log_likelihood), in_axes=(None, 0))
    ends = [draws.posterior[chain, -1] for chain in range(2)]
    covariances = [N**2 / BATCH * np.cov(np.asarray(rows(jnp.asarray(x), data), np.float64).T) for x in ends]
    L = np.diag(np.asarray(scale, np.float64))[:, ::-1]
    exact = [draws.setup.sampler.noise_scale(0) * np.linalg.eigvalsh(L.T @ C @ L)[-1] for C in covariances]
    assert 0.7 * max(exact) < draws.record.s < 1.2 * max(exact)
    assert draws.record.s == pytest.approx(usual.record.s, rel=0.3)
