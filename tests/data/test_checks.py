"""Values in the data that a log-likelihood cannot use: infinity, masked entries, differences lost to rounding."""

import tracemalloc
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.data import checks
from isotherm.data.checks import needs_float64
from isotherm.data.rows import checked_rows
from isotherm.sampling.prepare import as_position, prepare
from support.made import made

N = 40
RNG = np.random.default_rng(0)
Y = RNG.normal(size=N).astype(np.float32)
INF = np.inf


def check(likelihood, data, start=0.5):
    """Check the start as `iso.sample` and `iso.warmup` do."""
    problem = prepare(iso.Posterior(likelihood), data, start, num_chains=1, init_per_chain=None)
    problem.check_starts(jax.tree.map(lambda x: x[None], problem.init))


def normal(t, row):
    return -0.5 * (row["y"] - t) ** 2


def censored(t, row):
    """The value is y, or only known to be above u, if u is finite."""
    known = jnp.isinf(row["u"])
    u = jnp.where(known, 0.0, row["u"])
    return jnp.where(known, normal(t, row), jax.scipy.stats.norm.logsf(u, t))


def censored_without_gradient(t, row):
    """The value that is not chosen has an infinite slope, which `where` multiplies by zero."""
    return jnp.where(jnp.isinf(row["u"]), normal(t, row), jax.scipy.stats.norm.logsf(row["u"] * t))


BOUND = np.where(np.arange(N) % 3 == 0, 1.0, INF).astype(np.float32)


@pytest.mark.parametrize("likelihood", [normal, censored])
@pytest.mark.usefixtures("quick_compilation")
def test_infinity_is_accepted_where_the_likelihood_does_not_use_it(likelihood):
    check(likelihood, {"y": Y, "u": BOUND})


@pytest.mark.usefixtures("quick_compilation")
def test_an_infinite_value_that_spoils_a_row_is_named():
    """Infinite bounds are harmless in other rows: only the array that is to blame is named."""
    y = Y.copy()
    y[[8, 30]] = INF, -INF
    message = (
        r"row 8 is infinite in `data.y` \(2 of 40 rows are\), and the log-likelihood of that row is -inf"
    )
    with pytest.raises(ValueError, match=message):
        check(censored, {"y": y, "u": BOUND})


@pytest.mark.usefixtures("quick_compilation")
def test_a_finite_likelihood_without_a_gradient_is_refused():
    message = r"row 1 is infinite in `data.u` \(26 of 40 rows are\), and the gradient of .* is not finite"
    with pytest.raises(ValueError, match=message):
        check(censored_without_gradient, {"y": Y, "u": BOUND})


@pytest.mark.usefixtures("quick_compilation")
def test_a_single_infinite_row_among_many_is_found():
    """More rows than are checked otherwise, and more than one block; all bounds are infinite as well."""
    y = np.zeros((50_000, 90), np.float32)
    y[49_990, 89] = INF
    likelihood = lambda t, row: -0.5 * jnp.sum((row["y"] - t) ** 2)
    with pytest.raises(ValueError, match=r"row 49990 is infinite in `data.y` \(1 of 50000 rows are\)"):
        check(likelihood, {"y": y, "u": np.full(50_000, INF, np.float32)})


@pytest.mark.usefixtures("quick_compilation")
def test_a_start_outside_the_support_is_not_blamed_on_infinite_values():
    likelihood = lambda t, row: normal(t, row) + jnp.log(t)
    with pytest.raises(ValueError, match=r"`init` must have a finite log-density; .* row 0 is nan"):
        check(likelihood, {"y": Y, "u": BOUND}, start=-1.0)


@pytest.mark.parametrize("make", [np.asarray, jnp.asarray])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
def test_nan_and_infinity_are_told_apart_in_every_dtype(make, dtype):
    x = make(np.zeros((6, 2), np.float32)).astype(dtype)
    assert checks.infinite_rows("x", x) is None
    with_infinity = make(np.where(np.arange(12).reshape(6, 2) == 7, INF, 0.0)).astype(dtype)
    rows = checks.infinite_rows("x", with_infinity)
    assert (rows.index.tolist(), rows.count, rows.overflowed) == ([3], 1, False)
    with_both = make(np.where(np.arange(12).reshape(6, 2) % 5 == 4, np.nan, with_infinity)).astype(dtype)
    with pytest.raises(ValueError, match=r"`x` must not contain NaN; row 2 does \(2 of 6 rows\)"):
        checks.infinite_rows("x", with_both)


def test_memory_for_the_check_does_not_grow_with_the_data():
    """No temporary array is larger than a block of 2^22 numbers: `isnan` of the whole would take 16 MB here."""
    x = np.zeros((2**24, 1), np.float32)
    tracemalloc.start()
    assert checks.infinite_rows("x", x) is None
    checks.warn_if_unresolved("x", x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * 2**22


def test_a_masked_array_without_masked_entries_is_its_data():
    plain = np.ma.masked_array(Y)
    assert type(checked_rows(plain).arrays) is np.ndarray
    np.testing.assert_array_equal(checked_rows({"y": plain}).arrays["y"], Y)
    np.testing.assert_array_equal(as_position({"w": np.ma.masked_array(Y[:3])})["w"], Y[:3])


def test_masked_rows_are_refused_by_predictions():
    x = np.ma.masked_equal(np.arange(5.0), 2.0)
    draws, posterior = made({"w": np.zeros((1, 4))}), iso.Posterior(lambda p, row: p["w"] * row)
    for run, label in (
        (lambda: iso.predict(draws, lambda p, x: p["w"] * x, x), "x"),
        (lambda: iso.predict(draws, lambda p, x: p["w"] * x, x.data, observed=x), "observed"),
        (lambda: iso.log_likelihood(draws, posterior, x), "data"),
    ):
        with pytest.raises(ValueError, match=rf"`{label}` must not have masked entries; row 2 does \(1 of 5"):
            run()


def messages(x, label="data"):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        checks.warn_if_unresolved(label, x)
    return [str(warning.message) for warning in caught]


EFFECTS = RNG.normal(size=(5000, 3))
LOST = (1e6 + 0.01 * EFFECTS).astype(np.float32)


def test_differences_lost_to_rounding_are_reported():
    """Between 2^19 and 2^20 numbers of 32 bits are 2^-4 apart."""
    (message,) = messages(LOST[:, 0])
    assert message.startswith("`data` has a standard deviation of 0.00")
    assert "float32 numbers of its size are 0.062 apart" in message
    assert message.endswith("Subtract a constant before converting to float32, or pass float64.")
    (message,) = messages(np.where([False, True, True], LOST, EFFECTS).astype(np.float32), "data.x")
    assert message.startswith("Column 1 of `data.x` has")
    assert "(2 of 3 columns)" in message
    assert messages(jnp.asarray(LOST)) == messages(LOST)


@pytest.mark.parametrize(("sd", "reported"), [(0.3, False), (0.2, True)])
def test_the_limit_is_four_times_the_spacing(sd, reported):
    """Four times 2^-4 is 0.25."""
    assert bool(messages((1e6 + sd * EFFECTS[:, 0]).astype(np.float32))) == reported


RESOLVED = {
    "float64": 1e6 + 0.01 * EFFECTS,
    "centred": (0.01 * EFFECTS).astype(np.float32),
    "constant": np.full(5000, 1e6, np.float32),
    "integers": np.arange(5000) + 10**8,
    "two rows": LOST[:2],
    "zero or one": (EFFECTS > 0).astype(np.float32),
    "infinite": np.where(np.arange(15_000).reshape(5000, 3) % 7 == 0, INF, EFFECTS).astype(np.float32),
    "small": (1e-42 * EFFECTS).astype(np.float32),
}


@pytest.mark.parametrize("name", RESOLVED)
def test_columns_that_are_resolved_are_not_reported(name):
    assert messages(RESOLVED[name]) == []


def test_the_check_is_made_when_a_run_is_set_up():
    posterior = iso.Posterior(lambda t, row: -0.5 * jnp.sum((row["x"] - t) ** 2))
    with pytest.warns(iso.IsothermWarning, match=r"Column 0 of `data.x` .*\(3 of 3 columns\)"):
        prepare(posterior, {"x": LOST}, 1e6, num_chains=1, init_per_chain=None)


def test_the_warning_points_at_the_line_that_called_the_library():
    """Stand-ins for functions of the library: the type checker of these tests adds frames around real ones."""
    library = {"__name__": "isotherm.anything", "warn": checks._warn_at_users_line}
    exec("def inner():\n    warn('text')\n\ndef outer():\n    inner()", library)
    with pytest.warns(iso.IsothermWarning, match="text") as caught:
        library["outer"]()
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        (lambda z: [z, z**2], False),
        (lambda z: [z, z + 1e-4 * z**2], False),
        (lambda z: [15 + 0.005 * z, (15 + 0.005 * z) ** 2], True),
        (lambda z: [z, z + 1e-6 * z**2], True),
        (lambda z: [z, 3 - 2 * z], False),  # collinear: no digits are left to lose
        (lambda z: [z, np.ones_like(z)], False),
        (lambda z: [z, np.full_like(z, np.nan)], False),
    ],
    ids=[
        "square",
        "near-copy",
        "square of a column far from zero",
        "nearer copy",
        "collinear",
        "constant",
        "NaN",
    ],
)
def test_columns_that_float32_would_make_equal_need_float64(columns, wanted):
    z = np.random.default_rng(4).normal(size=3000)
    x = np.column_stack(columns(z))
    assert needs_float64([x]) is wanted
    assert needs_float64([x[:, 0].copy(), x[:, 1].copy()]) is wanted  # columns may be in several arrays
    assert not needs_float64([x.astype(np.float32)])
