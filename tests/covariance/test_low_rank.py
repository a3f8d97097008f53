"""The streaming sketch of `DiagonalLowRank` against eigendecompositions of the whole average in numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.covariance import low_rank

D = 12
RNG = np.random.default_rng(0)
SCHEDULES = {"1/t": 0.0, "floor": 0.2, "custom": lambda t: 1 / jnp.sqrt(t)}
KAPPAS = {"1/t": lambda t: 1 / t, "floor": lambda t: max(1 / t, 0.2), "custom": lambda t: t**-0.5}

pytestmark = pytest.mark.usefixtures("quick_compilation")


def averages(kind, contrasts):
    """The average after each of (steps, k, d) contrasts, stacked."""
    like = jnp.zeros(contrasts.shape[-1])

    def step(average, z):
        average = kind.update(average, iso.extend.GradientEstimate(like, z, jnp.zeros(())))
        return average, average

    return jax.jit(lambda z: jax.lax.scan(step, kind.init(like), z)[1])(jnp.asarray(contrasts, jnp.float32))


def at(stacked, t):
    """Diagonal and low-rank part of C after t contrasts, and the weight that the latter retains."""
    operator = jax.tree.map(lambda x: np.asarray(x[t - 1], np.float64), stacked.operator)
    leading = operator.basis.T @ np.diag(operator.values) @ operator.basis
    return operator.rest, leading, float(stacked.pending.kept[t - 1])


def sketch_at(stacked, t):
    """The leading directions with their eigenvalues."""
    basis, values = (
        np.asarray(x[t - 1], np.float64) for x in (stacked.operator.basis, stacked.pending.values)
    )
    return basis.T @ np.diag(values) @ basis


def truncated(matrix, rank):
    values, vectors = np.linalg.eigh(matrix)
    return vectors[:, -rank:] @ np.diag(values[-rank:]) @ vectors[:, -rank:].T


@pytest.mark.parametrize("name", SCHEDULES)
def test_leading_directions_of_the_weighted_sum(name):
    """Nothing is lost until there are more contrasts than directions; then each merge truncates.

    Merges come after every 6 contrasts, when the diagonal is that of the average. In float32, to 1e-4.
    """
    rank, kappa = 6, KAPPAS[name]
    z = RNG.normal(size=(4 * rank, D))
    got = averages(iso.DiagonalLowRank(rank, averaging=SCHEDULES[name]), z[:, None])
    average, sketch = np.zeros((D, D)), np.zeros((D, D))
    for t in range(1, 1 + len(z)):
        k, outer = kappa(t), np.outer(z[t - 1], z[t - 1])
        average, sketch = (1 - k) * average + k * outer, (1 - k) * sketch + k * outer
        if t % rank:
            continue
        sketch = truncated(sketch, rank)
        rest, leading, _ = at(got, t)
        np.testing.assert_allclose(sketch_at(got, t), sketch, atol=1e-4 * np.abs(average).max())
        np.testing.assert_allclose(rest + np.diag(leading), np.diag(average), rtol=1e-4)
        if t == rank:
            np.testing.assert_allclose(leading, average, atol=1e-4 * np.abs(average).max())
            np.testing.assert_allclose(rest, 0, atol=1e-4 * np.abs(average).max())


def test_several_contrasts_of_one_batch():
    """As many as there are directions, or more, are merged at once, with equal weights."""
    z = RNG.normal(size=(5, 4, D))
    got = averages(iso.DiagonalLowRank(4, contrasts=4), z)
    sketch = np.zeros((D, D))
    for t in range(1, 6):
        sketch = truncated((1 - 1 / t) * sketch + z[t - 1].T @ z[t - 1] / 4 / t, 4)
        rest, leading, kept = at(got, t)
        assert kept == 1
        np.testing.assert_allclose(sketch_at(got, t), sketch, atol=1e-4 * np.abs(sketch).max())
        diagonal = np.mean(np.square(z[:t]), axis=(0, 1))
        np.testing.assert_allclose(rest + np.diag(leading), diagonal, rtol=1e-4)


@pytest.mark.parametrize("name", SCHEDULES)
def test_diagonal_between_merges(name):
    """Not below that of the average, and above it at most by what the leading directions have lost since."""
    z = RNG.normal(size=(30, D))
    got = averages(iso.DiagonalLowRank(4, averaging=SCHEDULES[name]), z[:, None])
    average = np.zeros(D)
    for t in range(1, 31):
        average = (1 - KAPPAS[name](t)) * average + KAPPAS[name](t) * z[t - 1] ** 2
        rest, leading, kept = at(got, t)
        diagonal = rest + np.diag(leading)
        assert np.all(diagonal > average * (1 - 1e-4))
        assert np.all(kept * diagonal < average * (1 + 1e-4))


D_LARGE, LEADING, FLOOR = 30, np.array([50.0, 20.0, 10.0]), 0.5
U = np.linalg.qr(np.random.default_rng(1).normal(size=(D_LARGE, 3)))[0]


def many(steps, kind):
    """Averages of normal contrasts with covariance U diag(LEADING) U' + FLOOR I."""
    rng = np.random.default_rng(2)
    z = rng.normal(size=(steps, 3)) * np.sqrt(LEADING) @ U.T + np.sqrt(FLOOR) * rng.normal(
        size=(steps, D_LARGE)
    )
    return averages(kind, z[:, None]), z


def test_thousands_of_updates():
    """The basis stays orthonormal in float32, and C that of rank 3 plus a diagonal.

    The average of t normal contrasts has eigenvalues within 5 sqrt(2/t) of those of C, 6e-7, and FLOOR is allowed for
    the share of the diagonal. Of a unit vector u of the three, sin^2 of the angle to the span is d FLOOR/(t lambda)
    in the full average, 3e-4 at most: ten times that is allowed for what the truncation loses.
    """
    steps = 5000
    got, z = many(steps, iso.DiagonalLowRank(8))
    basis = np.asarray(got.operator.basis[-1], np.float64)
    np.testing.assert_allclose(basis @ basis.T, np.eye(8), atol=1e-4)
    rest, leading, _ = at(got, steps)
    leading_values = np.linalg.eigvalsh(np.diag(rest) + leading)[::-1][:3]
    want = LEADING + FLOOR
    assert np.all(np.abs(leading_values - want) < 5 * np.sqrt(2 / steps) * want + FLOOR)
    assert np.all(1 - np.sum((basis @ U) ** 2, axis=0) < 3e-3)
    np.testing.assert_allclose(rest + np.diag(leading), np.mean(z**2, axis=0), rtol=1e-3)


def test_a_floor_follows_and_stays_orthonormal():
    """With a floor of 0.01 the last 200 contrasts count: eigenvalues within 5 sqrt(2/200) of those of C, or FLOOR."""
    got, _ = many(3000, iso.DiagonalLowRank(8, averaging=0.01))
    basis = np.asarray(got.operator.basis[-1], np.float64)
    np.testing.assert_allclose(basis @ basis.T, np.eye(8), atol=1e-4)
    rest, leading, _ = at(got, 3000)
    leading_values = np.linalg.eigvalsh(np.diag(rest) + leading)[::-1][:3]
    assert np.all(np.abs(leading_values / (LEADING + FLOOR) - 1) < 5 * np.sqrt(2 / 200) + FLOOR / LEADING)


def test_a_large_model_uses_one_contrast_in_many(monkeypatch):
    """The diagonal is that of all; the leading directions are those of the mean over contrasts k, 2 k, ..."""
    monkeypatch.setattr(low_rank, "_SMALL", 0)
    rank, k = 3, low_rank.EVERY
    z = RNG.normal(size=(k * rank, D))
    got = averages(iso.DiagonalLowRank(rank), z[:, None])
    rest, leading, kept = at(got, k * rank)
    chosen = z[k - 1 :: k]
    assert kept == 1
    np.testing.assert_allclose(sketch_at(got, k * rank), chosen.T @ chosen / rank, atol=1e-4)
    np.testing.assert_allclose(rest, np.maximum(np.mean(z**2, axis=0) - np.diag(leading), 0), atol=1e-4)
    assert not at(got, k * rank - 1)[1].any()


def test_an_average_that_stops_learning_stays_as_it_is():
    """kappa = 0 from the ninth contrast on, a legitimate schedule."""
    kind = iso.DiagonalLowRank(4, averaging=lambda t: jnp.where(t <= 8, 1 / t, 0.0))
    got = averages(kind, RNG.normal(size=(20, 1, D)))
    for then, now in zip(at(got, 8)[:2], at(got, 20)[:2], strict=True):  # a direction may have changed sign
        np.testing.assert_allclose(now, then, rtol=1e-4, atol=1e-4)


def test_along_its_directions_c_has_their_eigenvalues():
    """The diagonal already holds a part of them. With equal noise everywhere there is nothing to add to it.

    The fixed point is found to 2^-4 of what the diagonal has, and the eigenvalues of 4000 normal contrasts in 30
    dimensions are within (1 + sqrt(30/4000))^2 - 1 = 18 % of 1.
    """
    z = np.random.default_rng(3).normal(size=(4000, 1, 30))
    got = averages(iso.DiagonalLowRank(8), z)
    rest, leading, _ = at(got, 4000)
    values = np.linalg.eigvalsh(np.diag(rest) + leading)
    assert np.all(np.abs(values - 1) < 0.18 + 2**-4)
    basis, wanted = np.asarray(got.operator.basis[-1]), np.asarray(got.pending.values[-1])
    along = np.einsum("ji,i,ji->j", basis, rest, basis) + np.asarray(got.operator.values[-1])
    np.testing.assert_allclose(along, wanted, rtol=2**-4)
