"""Data other than dense rows: sparse matrices, weights, exposures, groups, and a latent variable per row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from jax.experimental import sparse

import isotherm as iso
from isotherm.models import logistic_regression
from isotherm.sampling.latents import refuse_row_latents, row_latents
from isotherm.sampling.prepare import freed
from isotherm.tuning import newton
from support.monte_carlo import LIMIT
from support.real_data import need

N = 40
RNG = np.random.default_rng(0)
DENSE = (RNG.normal(size=(N, 12)) * (RNG.random((N, 12)) < 0.15)).astype(np.float32)
DENSE[3] = 0.0
ROW, COLUMN = np.nonzero(DENSE)
SHUFFLED = RNG.permutation(len(ROW))
TRIPLE = (ROW[SHUFFLED], COLUMN[SHUFFLED], DENSE[ROW, COLUMN][SHUFFLED])
CSR = scipy.sparse.csr_array(DENSE)


def bcoo():
    """Return the matrix as JAX pads it, with indices beyond the end."""
    index = np.concatenate([np.stack(TRIPLE[:2], axis=1), np.full((9, 2), DENSE.shape)])
    return sparse.BCOO((np.concatenate([TRIPLE[2], np.zeros(9, "f")]), index), shape=DENSE.shape)


KINDS = {
    **{kind: (lambda kind=kind: CSR.asformat(kind)) for kind in ("csr", "csc", "coo", "lil")},
    "csr_matrix": lambda: scipy.sparse.csr_matrix(DENSE),
    "BCOO": bcoo,
    "BCSR": lambda: sparse.BCSR((CSR.data, CSR.indices, CSR.indptr), shape=DENSE.shape),
}


def dense(rows):
    """Return the dense matrix that the rows stand for."""
    x = np.zeros(DENSE.shape, rows["value"].dtype)
    np.add.at(x, (np.arange(N)[:, None], rows["index"]), rows["value"])
    return x


@pytest.mark.parametrize("kind", KINDS)
def test_sparse_rows_hold_the_matrix(kind):
    rows = iso.data.sparse_rows(KINDS[kind]())
    assert {k: v.dtype for k, v in rows.items()} == {"index": np.int32, "value": np.float32}
    assert rows["index"].shape == rows["value"].shape == (N, (DENSE != 0).sum(axis=1).max())
    np.testing.assert_array_equal(dense(rows), DENSE)


def test_sparse_rows_of_a_triple():
    np.testing.assert_array_equal(dense(iso.data.sparse_rows(TRIPLE, shape=DENSE.shape)), DENSE)
    whole = (np.array([0, 2, 2, 0]), np.array([1, 3, 3, 0]), np.array([1, 2, 5, 0]))
    rows = iso.data.sparse_rows(whole, shape=(3, 9))
    assert rows["value"].dtype == np.float32
    assert rows["value"].tolist() == [
        [1, 0],
        [0, 0],
        [2, 5],
    ]  # values at the same position add up; zeros are dropped
    assert rows["index"].tolist() == [[1, 0], [0, 0], [3, 3]]
    nothing = iso.data.sparse_rows((np.zeros(0, int), np.zeros(0, int), np.zeros(0)), shape=(3, 9))
    assert nothing["value"].tolist() == [[0], [0], [0]]


@pytest.mark.parametrize("shape", [(12,), (12, 3)])
def test_a_sparse_product_and_its_gradient_are_those_of_the_matrix(shape):
    rows, w = iso.data.sparse_rows(KINDS["csr"]()), RNG.normal(size=shape).astype(np.float32)
    one = jax.tree.map(lambda x: x[5], rows)

    @jax.jit
    def products(w):
        by_row = jax.vmap(iso.data.sparse_dot, in_axes=(0, None))(rows, w)
        sines = lambda w: jnp.sum(jnp.sin(iso.data.sparse_dot(rows, w)))
        return iso.data.sparse_dot(rows, w), by_row, iso.data.sparse_dot(one, w), jax.grad(sines)(w)

    expected = DENSE @ w, DENSE @ w, DENSE[5] @ w, DENSE.T @ np.cos(DENSE @ w)
    for product, exact in zip(products(jnp.asarray(w)), expected, strict=True):
        np.testing.assert_allclose(product, exact, rtol=1e-5, atol=1e-5)


def batched():
    return sparse.BCOO((np.ones((N, 1)), np.zeros((N, 1, 1), int)), shape=DENSE.shape)


def csc():
    by_column = CSR.tocsc()
    return sparse.CSC((by_column.data, by_column.indices, by_column.indptr), shape=DENSE.shape)


BAD = {
    "dense": (DENSE, None, TypeError, "`matrix` must be a SciPy.*A dense matrix needs no conversion"),
    "text": ("x", None, TypeError, "`matrix` must be a SciPy sparse matrix.*got 'x'"),
    "no shape": (TRIPLE, None, ValueError, "`shape` must be two positive integers.*got None"),
    "two shapes": (CSR, (2, 2), ValueError, "`shape` must be None if"),
    "one axis": (scipy.sparse.coo_array([0, 1]), None, ValueError, "`matrix` must be of a shape"),
    "batch axis": (batched, None, TypeError, "without batch"),
    "JAX's CSC": (csc, None, TypeError, r"got a `CSC` of shape \(40, 12\)"),
    "beyond": (TRIPLE, (N, 11), ValueError, "`column` of `matrix` must be from 0 to 10.*got 11"),
    "negative": (([-1], [0], [1.0]), (2, 2), ValueError, "`row` of `matrix`.*got -1"),
    "lengths": (([1], [0, 1], [1.0]), (2, 9), ValueError, "`column` of `matrix` must be one integer"),
    "complex": (([1], [0], [1j]), (2, 9), TypeError, "`value` of `matrix` must be real"),
}


@pytest.mark.parametrize(("matrix", "shape", "error", "message"), BAD.values(), ids=BAD.keys())
def test_bad_sparse_matrices_are_refused(matrix, shape, error, message):
    with pytest.raises(error, match=message):
        iso.data.sparse_rows(matrix() if callable(matrix) else matrix, shape=shape)


def test_sparse_rows_longer_than_dense_ones_are_reported():
    with pytest.warns(iso.IsothermWarning, match=r"fullest row has 12 of 12 columns.* 2 times the memory"):
        iso.data.sparse_rows(scipy.sparse.csr_array(np.ones((3, 12))))


@pytest.mark.parametrize("kind", ["csr", "BCOO", "BCSR", "csr_matrix"])
def test_a_sparse_matrix_in_the_data_is_refused_with_the_repair(kind):
    matrix = KINDS[kind]()
    message = (
        rf"`data.x` must be .*sparse `{type(matrix).__name__}` of shape \(40, 12\).*sparse_rows.*sparse_dot"
    )
    with pytest.raises(TypeError, match=message):
        iso.sample(logistic_regression(), {"x": matrix, "y": np.ones(N)}, jnp.zeros(12))
    with pytest.raises(TypeError, match=r"`data` must be .*sparse"):
        iso.data.as_rows(matrix)


def sparse_logistic():
    return iso.Posterior(
        lambda w, row: jax.nn.log_sigmoid(row["y"] * iso.data.sparse_dot(row["x"], w)),
        lambda w: -0.5 * jnp.sum(w**2),
    )


def test_an_index_beyond_the_parameters_is_refused():
    data = {"x": iso.data.sparse_rows(KINDS["csr"]()), "y": np.ones(N, np.float32)}
    with pytest.raises(ValueError, match=r"the log-likelihood of row \d+ is nan"):
        iso.warmup(sparse_logistic(), data, jnp.zeros(7))


@pytest.mark.slow
def test_a9a_in_sparse_rows_has_the_same_posterior():
    """Rows fill 14 of 123 columns. Modes and Hessians agree; means of draws with the same keys are within error."""
    need("a9a")
    train = jax.tree.map(lambda x: x[:8000], iso.data.load("a9a").train)
    y, init = train["y"].astype(np.float32), jnp.zeros(123)
    rows = iso.data.sparse_rows(scipy.sparse.csr_array(train["x"]))
    assert rows["index"].shape == (8000, 14)
    forms = ((logistic_regression(), train["x"]), (sparse_logistic(), rows))
    results = []
    for posterior, x in forms:
        tuned = iso.warmup(posterior, {"x": x, "y": y}, init)
        draws = iso.sample(posterior, {"x": x, "y": y}, tuned, num_draws=200, progress=False)
        results.append((tuned.preconditioner, np.asarray(draws.posterior, np.float64)))
    (a, first), (b, second) = results
    sd = first.std(axis=(0, 1))
    assert (np.abs(a.center - b.center) / sd).max() < 2e-4
    hessians = [np.asarray(x.inverse.T @ x.inverse) for x in (a, b)]
    scale = np.sqrt(np.diag(hessians[0]))
    assert (np.abs(hessians[0] - hessians[1]) / np.outer(scale, scale)).max() < 1e-5
    error = np.hypot(*(x.mean(axis=1).std(axis=0, ddof=1) / 2 for x in (first, second)))
    assert np.mean(((first - second).mean(axis=(0, 1)) / error) ** 2) < 3


def poisson(w, row):
    """A count with an exposure; the weight is the number of such rows."""
    log_rate = jnp.log(row["exposure"]) + w[0] + w[1] * row["x"]
    return row["weight"] * (row["y"] * log_rate - jnp.exp(log_rate))


POISSON = iso.Posterior(poisson, lambda w: -0.5 * jnp.sum(w**2))


def counts(num_data):
    rng = np.random.default_rng(4)
    x, exposure = rng.normal(size=num_data), rng.gamma(2.0, size=num_data)
    y = rng.poisson(exposure * np.exp(0.5 + 0.3 * x))
    weight = rng.integers(0, 4, size=num_data)
    data = {"x": x, "exposure": exposure, "y": y, "weight": weight}
    return {k: v.astype(np.float32) for k, v in data.items()}


def by_newton(rows):
    top = newton.climb(POISSON, jax.tree.map(jnp.asarray, rows), jnp.zeros(2), key=jax.random.key(0)).point
    back = np.asarray(top.frame.inverse, np.float64)
    return top.theta, back.T @ top.hessian @ back


def by_warmup(rows):
    coordinates = iso.warmup(POISSON, rows, jnp.zeros(2)).preconditioner
    return coordinates.center, coordinates.inverse.T @ coordinates.inverse


@pytest.mark.parametrize("mode_and_hessian", [by_newton, pytest.param(by_warmup, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("quick_compilation")
def test_a_weight_counts_as_repeated_rows(mode_and_hessian):
    """Mode and Hessian agree to the rounding of 32 bits. Rows of weight 0 have no effect; they make N the same."""
    data = counts(120)
    repeats = data["weight"].astype(int)
    repeated = {k: np.repeat(v, repeats) for k, v in data.items()} | {
        "weight": np.ones(repeats.sum(), np.float32)
    }
    filled = {k: np.resize(v, repeats.sum()) for k, v in data.items()}
    filled["weight"][120:] = 0
    (mode, hessian), (same_mode, same_hessian) = (mode_and_hessian(rows) for rows in (filled, repeated))
    np.testing.assert_allclose(mode, same_mode, atol=1e-5)
    np.testing.assert_allclose(hessian, same_hessian, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [None, iso.CCAdL(5e-4, 100.0, iso.Dense(), scheme="symmetric")])
def test_draws_under_weights_and_exposures(sampler):
    """A rate has the posterior Gamma(a + sum w y, b + sum w exposure). 32 chains: t with 31 degrees, at 6e-7.

    Correcting for the mean noise leaves a bias of about s/2 in the variance, where s is at most 0.05.
    """
    data = counts(2000)
    posterior = iso.Posterior(
        lambda r, row: row["weight"] * (row["y"] * jnp.log(r) - r * row["exposure"]),
        lambda r: jnp.log(r) - r,
        transforms=iso.Positive(),
    )
    shape, rate = (
        start + np.sum(data["weight"] * data[k], dtype=np.float64) for start, k in ((2, "y"), (1, "exposure"))
    )
    options = (
        {} if sampler is None else {"sampler": sampler, "batch_size": 100, "burn_in": 1000, "thinning": 10}
    )
    draws = iso.sample(posterior, data, 1.0, num_chains=32, num_draws=500, progress=False, **options)
    x = np.asarray(draws.posterior, np.float64)
    for f, expected, allowed in ((x, shape / rate, 0.0), ((x - shape / rate) ** 2, shape / rate**2, 0.03)):
        by_chain = f.mean(axis=1) / expected
        error = by_chain.std(ddof=1) / np.sqrt(32)
        assert abs(by_chain.mean() - 1) < allowed + 1.3 * LIMIT * error


def normal(mean):
    return lambda p, row: -0.5 * (row["y"] - mean(p, row)) ** 2


ROWS = {
    "y": RNG.normal(size=N).astype(np.float32),
    "i": RNG.permutation(N),
    "x": DENSE,
    "one": np.eye(N, dtype="f"),
}
ROWS["i"], ROWS["half"], ROWS["weight"] = (
    ROWS["i"].astype(np.int32),
    ROWS["i"] // 2,
    (ROWS["i"] % 5 > 0) * 1.0,
)
LATENT = {
    # name of the leaf: log-likelihood, start, options of the posterior
    "z": (normal(lambda p, row: p["z"][row["i"]]), {"z": np.zeros(N)}, {}),
    "z behind a zero": (normal(lambda p, row: p["w"] * p["z"][row["i"]]), {"z": np.zeros(N), "w": 0.0}, {}),
    "z times w": (normal(lambda p, row: p["w"] @ p["z"][row["i"]]), {"z": np.zeros((N, 3)), "w": np.zeros(3)}, {}),
    "z one-hot": (normal(lambda p, row: row["one"] @ p["z"]), {"z": np.zeros(N)}, {}),
    "z weighted": (lambda p, row: row["weight"] * (row["y"] - p["z"][row["i"]]) ** 2, {"z": np.zeros(N)}, {}),
    "z positive": (
        normal(lambda p, row: p["z"][row["i"]]),
        {"z": np.ones(N)},
        {"transforms": {"z": iso.Positive()}},
    ),
    "z ordered": (
        normal(lambda p, row: p["z"][row["i"]]),
        {"z": np.arange(N) * 1.0},
        {"transforms": {"z": iso.Ordered()}},
    ),
    "z simplex": (
        normal(lambda p, row: p["z"][row["i"]] @ jnp.arange(3.0)),
        {"z": np.full((N, 3), 1 / 3)},
        {"transforms": {"z": iso.Simplex()}},
    ),
    "z batched": (normal(lambda p, rows: p["z"][rows["i"]]), {"z": np.zeros(N)}, {"batched": True}),
    "z aligned": (normal(lambda p, rows: p["z"]), {"z": np.zeros(N)}, {"batched": True}),
    "z bfloat16": (normal(lambda p, row: p["z"][row["i"]]), {"z": jnp.zeros(N, jnp.bfloat16)}, {}),
}  # fmt: skip
SHARED = {
    "hidden units": (normal(lambda p, row: jnp.sum(jnp.tanh(p["z"] @ row["x"]))), {"z": np.zeros((N, 12))}, {}),
    "rectified units": (normal(lambda p, row: jnp.sum(jax.nn.relu(p["z"] @ row["x"]))), {"z": np.zeros((N, 12))}, {}),
    "features": (normal(lambda p, row: jnp.cos(jnp.arange(N) * row["y"]) @ p["z"]), {"z": np.zeros(N)}, {}),
    "groups": (normal(lambda p, row: p["z"][row["half"]]), {"z": np.zeros(N // 2)}, {}),
    "groups, as long": (normal(lambda p, row: p["z"][row["half"]]), {"z": np.zeros(N)}, {}),
    "no chain axis": (normal(lambda p, row: jnp.sum(p["z"] @ row["one"])), {"z": np.zeros((4, N))}, {}),
    "unused": (normal(lambda p, row: p["w"]), {"z": np.zeros(N), "w": 0.0}, {}),
    "one of all": (normal(lambda p, row: p["z"][0]), {"z": np.zeros(N)}, {}),
    "a chain": (normal(lambda p, row: p["z"][row["i"]] - p["z"][row["i"] - 1]), {"z": np.zeros(N)}, {}),
    "an error": (normal(lambda p, row: p["z"] @ jnp.ones(3)), {"z": np.zeros(N)}, {}),
}  # fmt: skip


def latents_of(case, **options):
    likelihood, init, settings = case
    posterior = iso.Posterior(likelihood, **settings)
    free = freed(jax.tree.map(jnp.asarray, init), posterior)
    options = {"num_chains": 4, "init_per_chain": None} | options
    rows = iso.data.as_rows(ROWS)[0]
    refuse_row_latents(posterior, free, rows, **options)
    return row_latents(posterior, free, rows, **options)


@pytest.mark.parametrize("name", LATENT)
@pytest.mark.usefixtures("quick_compilation")
def test_a_latent_variable_per_row_is_refused(name):
    message = r"`init.z` must be parameters that rows share; got an array of shape \(40,.*Integrate .* out"
    with pytest.raises(ValueError, match=message):
        latents_of(LATENT[name])


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.usefixtures("quick_compilation")
def test_parameters_that_rows_share_are_accepted(name):
    assert latents_of(SHARED[name]) == {}


def test_latents_are_refused_at_every_entry_point(monkeypatch):
    """They are refused before the number of parameters is checked, unless every step sees all rows."""

    def not_refused(*_, **__):
        raise InterruptedError

    monkeypatch.setattr("isotherm.sampling.prepare.has_chain_axis", not_refused)
    likelihood, init, _ = LATENT["z"]
    posterior, sgld, chains = iso.Posterior(likelihood), iso.SGLD(1e-3), {"z": np.zeros((4, N))}
    for run in (
        lambda: iso.sample(posterior, ROWS, init),
        lambda: iso.warmup(posterior, ROWS, init),
        lambda: iso.sample(posterior, ROWS, init, sampler=sgld, batch_size=8),
        lambda: iso.sample(posterior, ROWS, chains, sampler=sgld, batch_size=8),
        lambda: iso.sweep(posterior, ROWS, chains, [sgld], batch_size=8, init_per_chain=True),
    ):
        with pytest.raises(ValueError, match=r"`init.z` .* shape \(40,\).*a latent variable per row"):
            run()
    with pytest.raises(InterruptedError):
        iso.sample(posterior, ROWS, init, sampler=sgld, batch_size=8, gradient=iso.FullData())


@pytest.mark.slow
def test_groups_are_sampled():
    """The effects of 10 groups in 2,000 rows have a known normal posterior. 32 chains, as above."""
    rng = np.random.default_rng(8)
    group = rng.integers(0, 10, size=2000)
    y = (group / 10 + rng.normal(size=2000)).astype(np.float32)
    posterior = iso.Posterior(
        lambda z, row: -0.5 * (row["y"] - z[row["group"]]) ** 2, lambda z: -0.5 * jnp.sum(z**2)
    )
    draws = iso.sample(posterior, {"y": y, "group": group}, jnp.zeros(10), num_chains=32, progress=False)
    precision = 1 + np.bincount(group)
    x = np.asarray(draws.posterior, np.float64) - np.bincount(group, y) / precision
    for f in (x * np.sqrt(precision), x**2 * precision - 1):
        by_chain = f.mean(axis=1)
        assert (
            np.abs(by_chain.mean(axis=0)) < 1.4 * LIMIT * by_chain.std(axis=0, ddof=1) / np.sqrt(32)
        ).all()
