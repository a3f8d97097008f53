"""The operators that samplers apply, method by method, against matrices in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm import tree
from isotherm.covariance.dense import DenseOperator
from isotherm.covariance.diagonal import DiagonalOperator
from isotherm.covariance.low_rank import LowRankOperator
from isotherm.covariance.matrix_free import MatrixFreeOperator
from isotherm.gradients.minibatch import NoNoise
from support.one_step import Matrix

LIKE = {"a": jnp.zeros(2), "b": jnp.zeros((2, 2))}
D = 6
I = np.eye(D)
ROUNDING = {"rtol": 1e-4, "atol": 1e-4}  # float32, for eigenvalues up to 20


pytestmark = pytest.mark.usefixtures("quick_compilation")


def from_vector(v):
    return tree.unravel_like(jnp.asarray(v, jnp.float32), LIKE)


def to_vector(x):
    return np.asarray(tree.ravel(x), np.float64)


def as_matrix(f):
    """The matrix of a linear function of pytrees."""
    return np.column_stack([to_vector(f(from_vector(e))) for e in I])


def dense():
    root = np.random.default_rng(5).normal(size=(D, D))
    return DenseOperator(jnp.asarray(root @ root.T, jnp.float32)), root @ root.T


def diagonal():
    values = np.random.default_rng(6).gamma(1.0, size=D) * 4
    return DiagonalOperator(from_vector(values)), np.diag(values)


def low_rank(rank, rest):
    """diag(rest) + sum_j values_j b_j b_j'. If the rest is constant, nothing is approximate."""
    rest = np.broadcast_to(rest, D)
    basis = np.linalg.qr(np.random.default_rng(7).normal(size=(D, D)))[0][:rank]
    values = np.array([9.0, 7.0, 4.0, 2.0, 1.5, 0.5])[:rank]
    inside = jnp.asarray(np.square(basis) @ rest, jnp.float32)
    rows = jax.vmap(from_vector)(jnp.asarray(basis, jnp.float32))
    operator = LowRankOperator(from_vector(rest), rows, jnp.asarray(values, jnp.float32), inside)
    return operator, np.diag(rest) + basis.T @ np.diag(values) @ basis


OPERATORS = {
    "dense": dense,
    "diagonal": diagonal,
    "low rank": lambda: low_rank(3, 0.25),
    "low rank, all directions": lambda: low_rank(D, 0.0),
}
operators = pytest.mark.parametrize("make", OPERATORS.values(), ids=OPERATORS.keys())


@operators
def test_product(make):
    C, matrix = make()
    np.testing.assert_allclose(as_matrix(C.mv), matrix, **ROUNDING)


@operators
@pytest.mark.parametrize("c", [0.0, 0.05, 3.0])
def test_solution_of_the_shifted_system(make, c):
    """(I + c C)^-1 from c C of 0 to 60."""
    C, matrix = make()
    solved = as_matrix(lambda x: C.solve_shifted(jnp.asarray(c), x))
    np.testing.assert_allclose(solved @ (I + c * matrix), I, atol=1e-4)


@operators
def test_root_of_the_remainder(make):
    """R R' = I - c C with negative eigenvalues at 0, and their number, for c that clips none, some and most."""
    C, matrix = make()
    values, vectors = np.linalg.eigh(matrix)
    for c, clipped in (
        (0.0, 0),
        (0.9 / values[-1], 0),
        (2 / (values[3] + values[4]), 2),
        (1.1 / values[3], 3),
    ):
        counts = {int(C.sqrt_remainder(jnp.asarray(c), from_vector(e))[1]) for e in I}
        root = as_matrix(lambda x, c=c: C.sqrt_remainder(jnp.asarray(c), x)[0])
        positive = vectors @ np.diag(np.maximum(1 - c * values, 0)) @ vectors.T
        assert counts == {clipped}
        np.testing.assert_allclose(root @ root.T, positive, atol=1e-3)
        np.testing.assert_allclose(root, root.T, atol=1e-3)
        assert np.linalg.eigvalsh(root).min() > -1e-3


@pytest.mark.parametrize(
    "make",
    [dense, diagonal, lambda: low_rank(3, 0.25)],
    ids=["dense", "diagonal", "low rank"],
)
def test_the_root_is_zero_if_every_eigenvalue_is_clipped(make):
    C, matrix = make()
    y, clipped = C.sqrt_remainder(jnp.asarray(1.1 / np.linalg.eigvalsh(matrix)[0]), from_vector(np.ones(D)))
    np.testing.assert_array_equal(to_vector(y), 0)
    assert int(clipped) == D


def test_low_rank_functions_are_of_first_order_in_the_variation_of_the_rest():
    """Halving the variation e of diag(rest) halves the error of inverse and root, and quarters it along b_j.

    At e = 1/4 the next order is less than e of it: ratios of errors within 1 + 1/4 of 2 and of 4.
    """
    whole, along = [], []
    for e in (0.25, 0.125):
        C, matrix = low_rank(3, 1 + e * np.random.default_rng(8).uniform(-1, 1, D))
        basis = np.asarray(jax.vmap(tree.ravel)(C.basis), np.float64)
        inverse = as_matrix(lambda x, C=C: C.solve_shifted(jnp.asarray(1.0), x)) - np.linalg.inv(I + matrix)
        root = as_matrix(lambda x, C=C: C.sqrt_remainder(jnp.asarray(0.05), x)[0])
        errors = (inverse, root @ root.T - (I - 0.05 * matrix))
        whole.append([np.abs(x).max() for x in errors])
        along.append([np.abs(np.diag(basis @ x @ basis.T)).max() for x in errors])
    for errors, ratio in ((whole, 2), (along, 4)):
        assert np.all(np.abs(np.divide(*errors) / ratio - 1) < 0.25), errors


KINDS = {
    "Diagonal": iso.Diagonal(),
    "Dense": iso.Dense(),
    "DiagonalLowRank": iso.DiagonalLowRank(2),
    "DiagonalLowRank, all": iso.DiagonalLowRank(D),
}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())


@kinds
def test_without_noise_c_is_zero(kind):
    """C = 0 before any contrast and after contrasts of zero: no NaN, and inverse and root are the identity."""
    empty = kind.init(LIKE)
    zeros = jax.tree.map(lambda x: jnp.zeros((1, *x.shape)), LIKE)
    seen = kind.update(empty, iso.extend.GradientEstimate(LIKE, zeros, jnp.zeros(())))
    x = from_vector(np.arange(1.0, 1 + D))
    for average in (empty, seen):
        C = average.operator
        np.testing.assert_array_equal(to_vector(C.mv(x)), 0)
        np.testing.assert_array_equal(to_vector(C.solve_shifted(jnp.asarray(2.0), x)), to_vector(x))
        y, clipped = C.sqrt_remainder(jnp.asarray(2.0), x)
        np.testing.assert_allclose(to_vector(y), to_vector(x), rtol=1e-6)
        assert int(clipped) == 0


def test_matrix_free_applies_the_batch_and_inverts_the_running_diagonal():
    _, matrix = dense()
    running, D_bar = diagonal()
    C = MatrixFreeOperator(Matrix(jnp.asarray(matrix, jnp.float32)), running)
    np.testing.assert_allclose(as_matrix(C.mv), matrix, **ROUNDING)
    solved = as_matrix(lambda x: C.solve_shifted(jnp.asarray(0.3), x))
    np.testing.assert_allclose(solved, np.linalg.inv(I + 0.3 * D_bar), **ROUNDING)
    with pytest.raises(ValueError, match="`MatrixFree` has no square root"):
        C.sqrt_remainder(jnp.asarray(0.1), from_vector(np.ones(D)))
    np.testing.assert_array_equal(as_matrix(MatrixFreeOperator(NoNoise(), running).mv), 0)


@pytest.mark.parametrize("mass", [2.0, from_vector([1.0, 3.0, 0.5, 2.0, 1.5, 4.0])], ids=["scalar", "pytree"])
def test_a_covariance_is_shown_whitened_noise(mass):
    """M^-1/2 z and M^-1/2 C M^-1/2; the force is left as it is."""
    _, matrix = dense()
    z = np.random.default_rng(9).normal(size=(3, D))
    estimate = iso.extend.GradientEstimate(
        from_vector(z[0]),
        jax.vmap(from_vector)(jnp.asarray(z)),
        jnp.zeros(()),
        Matrix(jnp.asarray(matrix, jnp.float32)),
    )
    shown = iso.CCAdL(0.1, 1.0, mass=mass).whitened(estimate)
    root = np.sqrt(np.full(D, mass) if isinstance(mass, float) else to_vector(mass))
    np.testing.assert_allclose(jax.vmap(tree.ravel)(shown.contrasts), z / root, rtol=1e-5)
    np.testing.assert_allclose(as_matrix(shown.operator.mv), matrix / np.outer(root, root), **ROUNDING)
    np.testing.assert_array_equal(tree.ravel(shown.force), np.float32(z[0]))


def averaged(kind, contrasts, like=LIKE):
    """The average after each of (steps, k, d) contrasts, which are in the dtype of `like`."""
    shaped = lambda z: jax.vmap(lambda v: tree.unravel_like(v, like))(z)
    step = lambda average, z: (
        kind.update(average, iso.extend.GradientEstimate(like, shaped(z), jnp.zeros(()))),
        None,
    )
    return jax.lax.scan(step, kind.init(like), contrasts)[0]


@pytest.mark.slow
@kinds
def test_chains_side_by_side_are_chains_one_by_one(kind):
    z = jnp.asarray(np.random.default_rng(10).normal(size=(3, 9, 1, D)), jnp.float32)
    together = jax.vmap(lambda x: averaged(kind, x))(z)
    for chain in range(3):
        together_c, alone = jax.tree.map(lambda x, c=chain: x[c], together), averaged(kind, z[chain])
        assert int(together_c.count) == int(alone.count) == 9
        np.testing.assert_allclose(
            as_matrix(together_c.operator.mv), as_matrix(alone.operator.mv), **ROUNDING
        )


@kinds
def test_contrasts_of_16_bits_are_averaged_in_32(kind):
    """2,000 of them: a sum kept in bfloat16 stalls at 256, far from the 1e-3 that 2,000 roundings of 2^-24 leave."""
    like = jax.tree.map(lambda x: x.astype(jnp.bfloat16), LIKE)
    z = jnp.asarray(np.random.default_rng(11).normal(size=(2000, 1, D)), jnp.bfloat16)
    average = averaged(kind, z, like)
    floats = [x for x in jax.tree.leaves(average) if jnp.issubdtype(x.dtype, jnp.floating)]
    assert {x.dtype for x in floats} == {jnp.dtype("float32")}
    want = np.mean(np.square(np.asarray(z, np.float64)), axis=(0, 1))
    np.testing.assert_allclose(np.diag(as_matrix(average.operator.mv)), want, rtol=1e-3)
