"""Batch sizes of the warm-up: the gradient noise s is at most what docs/tuning.md says, and not far below."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.tuning.explore import _fitted, _with_anchors

pytestmark = pytest.mark.usefixtures("quick_compilation")

N = 20_000
CHART = iso.DiagonalPreconditioner(jnp.zeros(1), jnp.ones(1))
STEP = 0.5  # of a warm-up without a mode, if the posterior is standard normal in its coordinates


def smaller(n):
    """Return the next smaller of the sizes 2^k and 3 2^(k-1)."""
    sizes = [x for k in range(1, 12) for x in (2**k, 3 * 2 ** (k - 1))]
    return max(x for x in sizes if x < n)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cubic", "gradient", "limit"), [(1500.0, "minibatch", "1"), (100.0, "control variate, order 1", "0.15")]
)
def test_the_limit_depends_on_whether_noise_grows_with_the_distance(cubic, gradient, limit):
    """Rows with cubic terms of both signs: these cancel in the sum, which is normal, but not in a minibatch.

    Large ones make control variates as noisy as plain minibatches. Then the batch is the smallest one that meets the
    limit. Where control variates are used, heating asks for more rows than s does.
    """
    x = np.random.default_rng(0).normal(size=N)
    data = {
        "x": np.concatenate([x, x]).astype(np.float32) / 10,
        "sign": np.repeat(np.array([1, -1], np.float32), N),
    }
    posterior = iso.Posterior(lambda w, r: jnp.sum(-0.5 * (r["x"] - w) ** 2 + cubic * r["sign"] * w**3))
    tuned = iso.warmup(posterior, data, jnp.zeros(1))
    why = {reason.choice: reason for reason in tuned.reasons}
    assert why["gradient"].value == gradient
    assert f"the limit is {limit}" in why["batch_size"].why
    s, n = float(why["batch_size"].why.split("s = ")[1].split()[0]), tuned.batch_size
    assert s <= float(limit)
    if gradient == "minibatch":
        assert s * n / smaller(n) > float(limit)


@pytest.mark.parametrize("rows_needed", [150, 3000])
def test_plain_minibatches_without_a_mode(rows_needed):
    """Rows with gradients g_i, whatever the parameter: s = h^2 N^2 var(g) / n exactly, at most 1/2.

    It is measured at four points, and the largest value counts: by chance it is up to half too large. If 2,048 rows
    do not suffice, the step is shortened.
    """
    g = np.random.default_rng(1).normal(size=N)
    g = (g - g.mean()) / g.std() * (rows_needed * 0.5 / (STEP**2 * N**2)) ** 0.5
    posterior = iso.Posterior(lambda w, row: jnp.sum(row * w), lambda w: -0.5 * jnp.sum(w**2))
    start = jnp.zeros((4, 1, 1))
    fit = _fitted(
        posterior, jnp.asarray(g, jnp.float32), start, CHART, 128, fixed=False, key=jax.random.key(0)
    )
    n = fit.kernel.batch_size
    s = fit.step_size**2 * N**2 * g.var() / n
    if rows_needed < 2048:
        assert fit.step_size == STEP
        assert n == 256
        assert s <= fit.s < 0.5
    else:
        assert n == 2048
        assert fit.step_size < STEP
        assert 0.5 / 1.5 < s <= 0.5
        assert fit.s == pytest.approx(0.5)


def test_moving_anchors():
    """Rows -a_i w^2 / 2: an anchor at distance d leaves noise h^2 N^2 var(a) d^2 / n, which is at most 0.15.

    270 rows are needed, and a batch is a power of two: 256 are too few, and 512 are enough even if s
    is measured half too large.
    """
    rows_needed, distance = 270, 0.5
    a = np.random.default_rng(2).normal(size=N)
    a = (a - a.mean()) / a.std() * (rows_needed * 0.15 / (STEP**2 * N**2 * distance**2)) ** 0.5
    posterior = iso.Posterior(lambda w, row: jnp.sum(-0.5 * row * w**2), lambda w: -0.5 * jnp.sum(w**2))
    data = jnp.asarray(a, jnp.float32)
    paths = jnp.stack([jnp.zeros((4, 1)), jnp.full((4, 1), distance)], axis=1)
    before = _fitted(posterior, data, jnp.zeros((4, 1, 1)), CHART, 128, fixed=True, key=jax.random.key(1))
    kernel = dataclasses.replace(before.kernel, batch_size=N)
    before = dataclasses.replace(before, kernel=kernel, step_size=STEP, stiffest=1.0)
    fit = _with_anchors(posterior, data, paths, 100 * STEP, before, key=jax.random.key(2))
    assert fit.gradient[0] == "control variate, anchors moved every 100 steps"
    assert fit.s == 0.15
    assert fit.kernel.batch_size == 512
    assert STEP**2 * N**2 * a.var() * distance**2 / 512 < 0.15
