"""Which arithmetic is used where, and that the user's settings of JAX are left as they are."""

import dataclasses
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.chains import run
from isotherm.sums import precision
from isotherm.tuning import normal
from support.jaxprs import products

N, BATCH = 100, 10
RNG = np.random.default_rng(0)
DATA = {
    "x": jnp.asarray(RNG.normal(size=(N, 3)), jnp.float32),
    "y": jnp.asarray(RNG.normal(size=N), jnp.float32),
}
POSTERIOR = iso.Posterior(
    lambda w, rows: -0.5 * (rows["y"] - rows["x"] @ w) ** 2, lambda w: -0.5 * jnp.sum(w**2), batched=True
)
FULL = (jax.lax.Precision.HIGHEST, jax.lax.Precision.HIGHEST)

pytestmark = pytest.mark.usefixtures("quick_compilation")


def casts(w, row):
    return -0.5 * (row["y"] - row["x"] @ w.astype(jnp.float32)) ** 2


def carries(w, row):
    add = lambda total, pair: (total + pair[0] * pair[1], None)
    predicted, _ = jax.lax.scan(add, jnp.zeros((), jnp.float32), (row["x"], w))
    return -0.5 * (row["y"] - predicted) ** 2


def sound(w, row):
    return -0.5 * (row["y"] - row["x"] @ w) ** 2


@pytest.mark.parametrize(
    ("log_likelihood", "why"),
    [
        (sound, None),
        (casts, "the log-likelihood returns float32 for parameters in float64"),
        (carries, "the log-density does not accept parameters in float64 (TypeError)"),
    ],
)
def test_a_likelihood_that_fixes_float32_is_found(log_likelihood, why):
    """Without an evaluation, and whether or not the rows are in float64."""
    posterior = iso.Posterior(log_likelihood)
    assert precision.why_not_float64(posterior, DATA, jnp.zeros(3)) == why
    assert jnp.zeros(3).dtype == jnp.float32


@pytest.mark.parametrize(
    ("kind", "cheap"),
    [
        ("NVIDIA H200", True),
        ("NVIDIA H100 80GB HBM3", True),
        ("NVIDIA A100-SXM4-40GB", True),
        ("Tesla V100-SXM2-16GB", True),
        ("AMD Instinct MI300X", True),
        ("NVIDIA GeForce RTX 4090", False),
        ("NVIDIA L40S", False),
        ("NVIDIA A10G", False),
        ("NVIDIA RTX A3000 Laptop GPU", False),
        ("Tesla T4", False),
    ],
)
def test_float64_is_used_on_devices_that_are_good_at_it(monkeypatch, kind, cheap):
    device = types.SimpleNamespace(platform="gpu", device_kind=kind)
    monkeypatch.setattr(jax, "devices", lambda: [device])
    assert precision.float64_is_cheap() == cheap
    if not cheap:
        why = precision.why_not_float64(POSTERIOR, DATA, jnp.zeros(3))
        assert why == f"{kind} computes in float64 only slowly"


def settings():
    """Return what a user may have set, and what follows from it."""
    return (
        jax.config.jax_enable_x64,
        jax.config.jax_default_matmul_precision,
        jnp.asarray(1.0).dtype,
        jnp.asarray(np.zeros(2)).dtype,
    )


@pytest.fixture(params=["default", "bfloat16 products"])
def user(request):
    """A user who left JAX as it is, and one who asked for fast products."""
    chosen = "bfloat16" if request.param == "bfloat16 products" else None
    with jax.default_matmul_precision(chosen):
        yield settings()


@pytest.mark.slow
def test_the_users_settings_stay_and_results_are_in_them(user):
    """Sums are in float64, chains and all that is returned in float32."""
    setup = iso.warmup(POSTERIOR, DATA, jnp.zeros(3), batch_size=BATCH, progress=False)
    assert settings() == user
    draws = iso.sample(POSTERIOR, DATA, setup, num_draws=4, num_chains=2, progress=False)
    assert settings() == user
    assert draws.record.arithmetic.dtype == "float32"
    assert draws.record.arithmetic.force_error < 1e-4  # so that float64 was used
    kept = (
        draws.posterior,
        setup.kernel,
        setup.problem.init,
        setup.starts.positions(2, key=jax.random.key(0)),
    )
    floating = [x for x in jax.tree.leaves(kept) if eqx.is_array_like(x) and hasattr(x, "dtype")]
    floating = [x for x in floating if jnp.issubdtype(x.dtype, jnp.floating)]
    assert len(floating) > 5
    assert {x.dtype for x in floating} == {np.dtype(np.float32)}


def test_the_users_settings_stay_after_an_error(user, monkeypatch):
    def fail(*args, **options):
        assert jax.config.jax_enable_x64
        raise RuntimeError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(normal, "find_metric", fail)
        with pytest.raises(RuntimeError, match="planted"):
            iso.warmup(POSTERIOR, DATA, jnp.zeros(3), progress=False)
    assert settings() == user
    monkeypatch.setattr(run, "_run", fail)
    by_hand = iso.setup(POSTERIOR, DATA, jnp.zeros(3), sampler=iso.SGLD(1e-4), batch_size=BATCH)
    wide = dataclasses.replace(by_hand, problem=dataclasses.replace(by_hand.problem, float64=True))
    with pytest.raises(RuntimeError, match="planted"):
        iso.sample(POSTERIOR, DATA, wide, progress=False)
    assert settings() == user


COORDINATES = iso.DensePreconditioner(jnp.zeros(3), 0.1 * jnp.eye(3), 10.0 * jnp.eye(3))


def step_products(gradient, covariance):
    """Return the matrix products of one step: those with rows, and all others."""
    sampler = iso.CCAdL(0.1, 1.0, covariance, temperature=1.0)
    kernel = iso.extend.Kernel(sampler, gradient, N, BATCH, preconditioner=COORDINATES)
    key = jax.random.key(0)
    state = jax.eval_shape(lambda: kernel.begin(jnp.zeros(3), key=key))
    traced = jax.make_jaxpr(lambda state, data: kernel.step(state, data, key=key)[0])(state, DATA)
    found = list(products(traced.jaxpr))
    with_rows = [
        p for shapes, p in found if any(n in shape for shape in shapes for n in (BATCH, BATCH // 2, N))
    ]
    others = [
        p for shapes, p in found if not any(n in shape for shape in shapes for n in (BATCH, BATCH // 2, N))
    ]
    assert with_rows
    assert others
    return set(with_rows), set(others)


@pytest.mark.parametrize("default", [None, "bfloat16", "highest"])
def test_products_of_a_step(default):
    """Only products with the rows of a plain minibatch follow the user's default."""
    control = iso.ControlVariate(order=2).bound(POSTERIOR, DATA, jnp.zeros(3), COORDINATES)
    users = {
        None: None,
        "bfloat16": (jax.lax.Precision.DEFAULT, jax.lax.Precision.DEFAULT),
        "highest": FULL,
    }[default]
    with jax.default_matmul_precision(default):
        assert step_products(control, iso.Diagonal()) == ({FULL}, {FULL})
        assert step_products(iso.FullData(POSTERIOR), iso.Diagonal()) == ({FULL}, {FULL})
        assert step_products(iso.Minibatch(POSTERIOR), iso.Dense()) == ({users}, {FULL})
        # Several contrasts of a batch are averaged by a product of their own.
        assert step_products(iso.Minibatch(POSTERIOR), iso.Dense(contrasts=3)) == ({users}, {FULL})
