"""Seeding of the average before the first step and after burn-in: how many batches, which ones, and where."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso

D, N, BATCH = 5, 50, 10
ROWS = jnp.asarray(np.random.default_rng(0).normal(size=(N, D)), jnp.float32)
POSITION = jnp.asarray([1.0, -0.5, 0.2, 2.0, 0.7])

pytestmark = pytest.mark.usefixtures("quick_compilation")


class Marked(iso.extend.Gradient):
    """Contrasts that encode their number, the rows and the position: sqrt(k), the first row, the position."""

    all_rows = False

    def __call__(self, position, batch, *, needs, key):
        del key
        k = BATCH if needs.contrasts == "exact" else needs.contrasts
        z = jnp.stack([jnp.sqrt(1.0 * k), batch.rows[0, 0], position[2], position[3], jnp.ones(())])
        return iso.extend.GradientEstimate(-position, jnp.tile(z, (k, 1)) if k else None, jnp.zeros(()))


def kernel_of(covariance, **settings):
    return iso.extend.Kernel(iso.CCAdL(0.1, 1.0, covariance, **settings), Marked(), N, BATCH)


def diagonal_of(state):
    """Return the diagonal of C in the average of a state."""
    C = state.covariance.operator
    return np.array([C.mv(e)[i] for i, e in enumerate(jnp.eye(D))])


# The contrasts of each batch, at most (10 - 1) // 2 for 10 rows, and the count: batches x contrasts / contrasts of a
# step.
SEEDS = {
    "Diagonal": (iso.Diagonal(), 1, 16),
    "Diagonal, 3 contrasts": (iso.Diagonal(contrasts=3), 1, 5),
    "Dense": (iso.Dense(), 4, 64),
    "Dense, 4 contrasts": (iso.Dense(contrasts=4), 4, 16),
    "DiagonalLowRank": (iso.DiagonalLowRank(4), 4, 32),
    "DiagonalLowRank, 6 contrasts": (iso.DiagonalLowRank(4, contrasts=6), 4, 8),
    "MatrixFree": (iso.MatrixFree(), 1, 16),
    "exact": (iso.Dense("exact"), 0, 0),
    "exact, diagonal": (iso.Diagonal("exact"), 0, 0),
    "exact, low rank": (iso.DiagonalLowRank(4, "exact"), 0, 0),
}


@pytest.mark.parametrize(("covariance", "contrasts", "count"), SEEDS.values(), ids=SEEDS.keys())
def test_what_a_covariance_has_seen_before_the_first_step(covariance, contrasts, count):
    state = kernel_of(covariance).init(POSITION, ROWS, key=jax.random.key(1))
    assert int(state.covariance.count) == count
    assert int(state.step) == 0
    want = [contrasts, POSITION[2] ** 2, POSITION[3] ** 2, 1.0] if count else [0.0] * 4
    running = state.covariance.operator
    got = running.values if isinstance(covariance, iso.MatrixFree) else diagonal_of(state)
    np.testing.assert_allclose(np.asarray(got)[[0, 2, 3, 4]], want, rtol=1e-4)


def test_enough_contrasts_for_a_matrix():
    """Four for each parameter, in batches of 64."""
    for d, batches in ((1, 1), (16, 1), (17, 2), (100, 7), (784, 49)):
        assert iso.Dense().seed(d) == (batches, 64)


def test_a_sampler_without_a_covariance_is_not_seeded():
    state = iso.extend.Kernel(iso.SGNHT(0.1, 1.0), Marked(), N, BATCH).init(
        POSITION, ROWS, key=jax.random.key(1)
    )
    assert state.covariance is None


def test_batches_are_drawn_anew_for_each_and_after_burn_in():
    """The mean square of the first rows of 16 batches. If all were the same, it would be the square of one row."""
    kernel, key = kernel_of(iso.Diagonal()), jax.random.key(2)
    state = kernel.init(POSITION, ROWS, key=key)
    moved = iso.extend.State(2 * POSITION, state.momentum, state.xi, state.covariance, jnp.asarray(300))
    restarted = kernel.restart_averages(moved, ROWS, key=key)
    squares = [float(diagonal_of(x)[1]) for x in (state, restarted)]
    assert squares[0] != squares[1]
    for square in squares:
        assert not np.any(np.isclose(square, np.asarray(ROWS[:, 0]) ** 2, rtol=1e-5))
    # From the present position of the chain, without a trace of the first.
    np.testing.assert_allclose(diagonal_of(restarted)[2:4], 4 * np.asarray(POSITION[2:4]) ** 2, rtol=1e-4)
    assert (int(restarted.covariance.count), int(restarted.step)) == (16, 300)


def test_noise_is_whitened_in_the_seed_as_in_a_step():
    mass = jnp.asarray([1.0, 2.0, 3.0, 4.0, 5.0])
    plain, heavy = (
        diagonal_of(kernel_of(iso.Diagonal(), mass=m).init(POSITION, ROWS, key=jax.random.key(3)))
        for m in (1.0, mass)
    )
    np.testing.assert_allclose(heavy, plain / np.asarray(mass), rtol=1e-5)


def test_the_next_batch_counts_as_one_of_many():
    """After 16 seeding batches, that of the first step has weight 1/17."""
    kernel, key = kernel_of(iso.Diagonal()), jax.random.key(4)
    before = kernel.init(POSITION, ROWS, key=key)
    after, _, visit = kernel.step(before, ROWS, key=key)
    new = np.asarray(visit.estimate.contrasts[0]) ** 2
    np.testing.assert_allclose(diagonal_of(after), (16 * diagonal_of(before) + new) / 17, rtol=1e-4)
