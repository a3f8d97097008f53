"""Inverses and roots of a dense C that are kept for many steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.covariance.factors import OLDEST, Factors, inverse_near
from support.jaxprs import equations

D = 5
RNG = np.random.default_rng(0)
Z = RNG.normal(size=(400, 1, D)).astype(np.float32) * np.arange(1, D + 1, dtype=np.float32)
LIKE = jnp.zeros(D)
SHIFT = 0.02  # c, for which c times the largest eigenvalue of C is about 0.5

pytestmark = pytest.mark.usefixtures("quick_compilation")


def step(kind, average, z, c):
    """What the samplers do in a step: learn, then renew what is due."""
    average = kind.update(average, iso.extend.GradientEstimate(LIKE, z, jnp.zeros(())))
    return kind.refreshed(average, c)


def path(kind, form, shifts):
    """Averages after each step, stacked."""
    start = kind.factored(kind.init(LIKE), form)

    def body(average, x):
        average = step(kind, average, *x)
        return average, average

    run = jax.jit(lambda z, c: jax.lax.scan(body, start, (z, c))[1])
    return jax.device_get(run(Z[: len(shifts)], shifts))


def kept_average(averages, t):
    """The average that the inverse after step t + 1 is made of."""
    inverse = np.asarray(averages.factors.operator.inverse[t], np.float64)
    return (np.linalg.inv(inverse) - np.eye(D)) / float(averages.factors.operator.c[t])


FLOOR = 0.04  # three batches weigh more than a tenth
SCHEDULES = {"1/t": (0.0, lambda t: 1 / t), "floor": (FLOOR, lambda t: max(1 / t, FLOOR))}


@pytest.mark.parametrize("name", SCHEDULES)
def test_an_inverse_is_renewed_when_a_tenth_of_the_average_is_newer(name):
    """It is that of the average at the last renewal, whose steps follow from the weights alone."""
    averaging, kappa = SCHEDULES[name]
    got = path(iso.Dense(averaging=averaging), "inverse", jnp.full(len(Z), SHIFT))
    age, renewed = 0.0, []
    for t in range(len(Z)):
        age += kappa(t + 1)
        if age >= OLDEST * (1 - 1e-6):
            age = 0.0
            renewed.append(t)
        np.testing.assert_allclose(got.factors.age[t], age, atol=1e-5)
        want = np.asarray(got.operator.matrix[renewed[-1]], np.float64)
        # The average has eigenvalues up to 30, and an inverse is inverted here, in float32.
        np.testing.assert_allclose(kept_average(got, t), want, atol=1e-3)
    assert renewed[:10] == list(range(10))
    assert len(renewed) < len(Z) / 2


def test_a_new_c_renews_the_inverse():
    """A schedule of the step changes c; a change by less than a thousandth is left."""
    shifts = np.full(200, SHIFT, np.float32)
    shifts[150:] *= 1.5
    shifts[170:] *= 1.0005
    c = np.asarray(path(iso.Dense(), "inverse", jnp.asarray(shifts)).factors.operator.c)
    np.testing.assert_allclose(c[:150], SHIFT, rtol=1e-6)
    np.testing.assert_allclose(c[150:], 1.5 * SHIFT, rtol=1e-3)


def test_eigenvectors_serve_every_c():
    got = path(iso.Dense(), "root", jnp.full(50, SHIFT))
    last = jax.tree.map(lambda x: jnp.asarray(x[-1]), got.factors.operator)
    renewed = int(np.flatnonzero(np.asarray(got.factors.age) == 0)[-1])
    C = np.asarray(got.operator.matrix[renewed], np.float64)
    x = np.arange(1.0, 6.0)
    for c in (0.01, 0.3):
        c32, x32 = jnp.asarray(c, jnp.float32), jnp.asarray(x, jnp.float32)
        np.testing.assert_allclose(
            last.solve_shifted(c32, x32), np.linalg.solve(np.eye(D) + c * C, x), rtol=1e-4
        )
        root, clipped = last.sqrt_remainder(c32, x32)
        values, vectors = np.linalg.eigh(np.eye(D) - c * C)
        want = vectors @ (np.sqrt(np.maximum(values, 0)) * (vectors.T @ x))
        np.testing.assert_allclose(root, want, rtol=1e-4, atol=1e-4)
        assert int(clipped) == np.sum(values < 0)
        np.testing.assert_allclose(last.mv(x32), C @ x, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["inverse", "root"])
def test_lanes_side_by_side_renew_on_their_own(form):
    """Lanes whose averages have other floors renew in other steps, and are not affected by each other."""
    floors, shifts = jnp.asarray([0.0, 0.04, 0.3]), jnp.full(60, SHIFT)
    kind = lambda floor: iso.Dense(averaging=lambda t: jnp.maximum(1 / t, floor))
    alone = [path(kind(floor), form, shifts) for floor in floors]
    start = jax.vmap(lambda _: iso.Dense().factored(iso.Dense().init(LIKE), form))(floors)

    def body(averages, x):
        averages = jax.vmap(lambda a, floor: step(kind(floor), a, *x))(averages, floors)
        return averages, averages.factors

    together = jax.jit(lambda z, c: jax.lax.scan(body, start, (z, c))[1])(Z[:60], shifts)
    for i, one in enumerate(alone):
        np.testing.assert_array_equal(np.asarray(together.age[:, i]), np.asarray(one.factors.age))
        if form == "inverse":
            got, want = together.operator.inverse[:, i], one.factors.operator.inverse
            np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("form", ["inverse", "root"])
def test_a_step_that_renews_nothing_does_no_cubic_work(form):
    """Under `vmap` too: products of matrices and eigenvectors occur only within a loop, which is not entered."""
    many = jax.tree.map(lambda x: jnp.stack([x, x]), Factors.of_zero(jnp.zeros((D, D)), form))
    refresh = jax.vmap(lambda factors, C: factors.refreshed(C, jnp.asarray(SHIFT)))
    jaxpr = jax.make_jaxpr(refresh)(many, jnp.zeros((2, D, D))).jaxpr
    cubic = {"dot_general", "eigh", "syevd", "custom_call"}
    assert cubic & {e.primitive.name for e in equations(jaxpr)}
    assert not cubic & {e.primitive.name for e in equations(jaxpr, without="while")}


@pytest.mark.parametrize("largest", [0.0, 1.0, 100.0])
@pytest.mark.parametrize("guess", ["identity", "near", "far"])
def test_newtons_inverse(guess, largest):
    """Any guess leads to the inverse, to float32 rounding times the condition number, 1 + `largest`."""
    root = np.random.default_rng(1).normal(size=(40, 40))
    C = root @ root.T
    A = np.eye(40) + largest * C / np.linalg.eigvalsh(C)[-1]
    exact = np.linalg.inv(A)
    guesses = {"identity": np.eye(40), "near": 1.1 * exact, "far": 50 * RNG.normal(size=(40, 40))}
    got = jax.jit(inverse_near)(jnp.asarray(guesses[guess], jnp.float32), jnp.asarray(A, jnp.float32))
    np.testing.assert_allclose(got, exact, atol=1e-6 * (1 + largest))


def test_newtons_iteration_ends_without_a_solution():
    """An ended chain has an average of NaN; so has its inverse."""
    for bad in (np.nan, np.inf):
        assert not np.isfinite(jax.jit(inverse_near)(jnp.eye(3), jnp.full((3, 3), bad))).any()
