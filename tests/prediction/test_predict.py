"""Predictions and log-likelihoods over draws: blocks of any size give the same numbers as one block."""

import sys

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import isotherm as iso
from isotherm.prediction import blocks
from isotherm.prediction.record import moments
from isotherm.progress import Progress
from support.made import made
from support.monte_carlo import LIMIT

pytestmark = pytest.mark.usefixtures("quick_compilation")

CHAINS, DRAWS, ROWS = 3, 40, 11
RNG = np.random.default_rng(0)
X = {"a": RNG.normal(size=(ROWS, 2)).astype(np.float32), "b": RNG.normal(size=ROWS).astype(np.float32)}
PARAMS = {
    "w": RNG.normal(size=(CHAINS, DRAWS, 2)).astype(np.float32),
    "c": RNG.normal(size=(CHAINS, DRAWS)).astype(np.float32),
}


@pytest.fixture
def as_a_user():
    """Turn off run-time type checks, which users do not have."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def f(params, x):
    """Two values per row."""
    line = x["a"] @ params["w"] + params["c"]
    return jnp.stack([line, line * x["b"]], axis=1)


def all_at_once(chains=slice(None), step=1):
    w, c = (PARAMS[k][chains, ::step].reshape(-1, *PARAMS[k].shape[2:]).astype(np.float64) for k in "wc")
    line = w @ X["a"].T + c[:, None]
    return np.stack([line, line * X["b"]], axis=2)


@pytest.mark.parametrize("rows_at_once", [None, 1, 4, ROWS])
@pytest.mark.parametrize("parameters", [2**26, 7 * 3], ids=["all draws", "seven draws"])
def test_blocks_of_any_size_give_what_all_at_once_gives(rows_at_once, parameters, monkeypatch):
    monkeypatch.setattr(blocks, "_PARAMETERS", parameters)
    exact = all_at_once()
    y = exact[5] + 0.1
    found = iso.predict(
        made(PARAMS), f, X, quantiles=(0.0, 0.05, 0.6, 1.0), observed=y, rows_at_once=rows_at_once
    )
    np.testing.assert_allclose(found.mean, exact.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(found.sd, exact.std(axis=0, ddof=1), atol=1e-5)
    np.testing.assert_allclose(found.quantiles, np.quantile(exact, found.levels, axis=0), atol=1e-5)
    np.testing.assert_allclose(found.pit, ((exact < y).sum(axis=0) + 0.5) / (CHAINS * DRAWS + 1), atol=1e-6)
    assert found.num_draws == CHAINS * DRAWS


def test_the_size_of_a_block_is_bounded(monkeypatch):
    """A block has at most `_VALUES` values, and one program serves all blocks."""
    monkeypatch.setattr(blocks, "_VALUES", 2 * CHAINS * DRAWS * 3)
    traced = []

    def seen(params, x):
        traced.append(x["b"].shape)
        return f(params, x)

    parts = list(blocks.blocks(seen, blocks.in_a_row(made(PARAMS)), X))
    assert [values.shape for _, values in parts] == [(120, 3, 2)] * 3 + [(120, 2, 2)]
    assert set(traced[1:]) == {(3,)}  # the first trace is that of `_output_size`
    assert len(traced) <= 7  # shapes, then the loop; map traces its whole batches and the remainder
    np.testing.assert_allclose(np.concatenate([v for _, v in parts], axis=1), all_at_once(), atol=1e-5)


@pytest.mark.parametrize("most", [2**26, 21, 1])
def test_the_draws_on_the_device_are_bounded(most, monkeypatch):
    """A piece has at most `_PARAMETERS` numbers, or a single draw, and there are no more pieces than that needs."""
    monkeypatch.setattr(blocks, "_PARAMETERS", most)
    sizes, each = [], blocks.each

    def seen(function, rows, draws, **options):
        sizes.append(sum(leaf.size for leaf in jax.tree.leaves(draws[0])))
        return each(function, rows, draws, **options)

    monkeypatch.setattr(blocks, "each", seen)
    iso.predict(made(PARAMS), f, X, rows_at_once=ROWS)
    in_a_draw = sum(sizes) // (CHAINS * DRAWS)
    draws_at_once = max(1, most // in_a_draw)
    assert max(sizes) <= max(most, in_a_draw)
    assert len(sizes) == -(-CHAINS * DRAWS // draws_at_once)


def test_failed_chains_are_left_out_and_draws_are_thinned_evenly():
    draws = made(PARAMS, complete=[True, False, True])
    found = iso.predict(draws, f, X)
    np.testing.assert_allclose(found.mean, all_at_once([0, 2]).mean(axis=0), atol=1e-5)
    thin = iso.predict(draws, f, X, draws_used=5)
    ends = np.concatenate([all_at_once([chain])[[0, -1]] for chain in (0, 2)])
    np.testing.assert_allclose(thin.mean, ends.mean(axis=0), atol=1e-5)
    assert (found.num_draws, thin.num_draws) == (80, 4)
    assert iso.predict(draws, f, X, draws_used=10**6).num_draws == 80
    with pytest.raises(ValueError, match="a chain that did not fail; got: turned non-finite"):
        iso.predict(made(PARAMS, complete=[False] * 3), f, X)


def test_every_draw_and_row_has_its_own_random_outcome():
    """Noise of sd 2 on a constant is independent for every draw and row, within and across blocks."""
    draws = made(np.zeros((4, 250), np.float32))
    noisy = lambda p, x, key: p + 2 * jax.random.normal(key, x.shape)
    found = iso.predict(draws, noisy, np.zeros(100), quantiles=(0.05, 0.95), seed=3, rows_at_once=30)
    # 100 rows of 1,000 draws: variance of N(0, 4), relative standard error sqrt(2 / 10^5).
    assert abs(np.mean(found.sd.astype(np.float64) ** 2) / 4 - 1) < LIMIT * np.sqrt(2 / 1e5)
    assert abs(found.mean.mean()) < LIMIT * 2 / np.sqrt(1e5)
    assert len(np.unique(found.mean)) == 100
    again = iso.predict(draws, noisy, np.zeros(100), quantiles=(0.05, 0.95), seed=3, rows_at_once=30)
    assert np.array_equal(again.quantiles, found.quantiles)


def test_intervals_are_those_that_were_asked_for_and_it_prints():
    found = iso.predict(made(PARAMS), f, X)
    low, high = found.interval(0.9)
    assert np.array_equal(low, found.quantiles[0])
    assert np.array_equal(high, found.quantile(0.95))
    with pytest.raises(
        ValueError, match=r"`probability` must be .* got 0.8. Predict with `quantiles=\(0.1, 0.9\)`"
    ):
        found.interval(0.8)
    lines = str(found).splitlines()
    assert lines[0] == "11 rows of 2, 120 draws"
    assert lines[1].split() == ["row", "mean", "sd", "5", "%", "50", "%", "95", "%"]
    assert lines[2].split()[:3] == ["0,", "0", f"{found.mean[0, 0]:.4g}"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"f": 3}, TypeError, "`f` must be a function"),
        (
            {"f": lambda p, x: p["c"]},
            ValueError,
            r"first axis is the rows of `x`; for 2 rows it returned \(\)",
        ),
        ({"f": lambda p, x: {"mean": x["b"]}}, ValueError, "returned a dict"),
        ({"x": {"a": X["a"], "b": X["b"][:3]}}, ValueError, r"All leaves of `x` must .* `x.b` has 3"),
        ({"x": {"a": X["a"], "b": X["b"] * np.nan}}, ValueError, "`x.b` must not contain NaN"),
        ({"quantiles": (0.5, 1.5)}, ValueError, "`quantiles` must be between 0 and 1"),
        (
            {"observed": np.zeros(ROWS)},
            ValueError,
            r"`observed` must be of the shape of a prediction, \(11, 2\)",
        ),
        ({"observed": np.zeros(3)}, ValueError, "`observed` must be an array of 11 rows"),
        ({"draws_used": 2}, ValueError, "`draws_used` must be an integer of at least 3"),
        ({"draws": PARAMS}, TypeError, "`draws` must be an `iso.Draws`"),
        ({"rows_at_once": 0}, ValueError, "`rows_at_once` must be an integer of at least 1"),
    ],
)
def test_bad_input_is_refused(options, error, message, as_a_user):
    given = {"draws": made(PARAMS), "f": f, "x": X} | options
    with pytest.raises(error, match=message):
        iso.predict(given.pop("draws"), given.pop("f"), given.pop("x"), **given)


def test_an_error_of_the_function_names_the_shapes_it_was_called_with():
    with pytest.raises(KeyError) as caught:
        iso.predict(made(PARAMS), lambda p, x: x["a"] * p["none"], X)
    (note,) = [note for note in caught.value.__notes__ if "one draw" in note]
    assert all(f"{name}: " in note for name in ("a", "b", "c"))


def normal(batched):
    """Rows of N(m, 1), where m has a transform."""
    value = lambda p, y: -0.5 * (y - p["m"]) ** 2 - 0.5 * jnp.log(2 * jnp.pi)
    return iso.Posterior(value, batched=batched, transforms={"m": iso.Positive()})


@pytest.mark.parametrize("batched", [True, False])
def test_the_log_predictive_density_is_the_log_of_the_mean_density(batched):
    rng = np.random.default_rng(1)
    m, y = np.abs(rng.normal(size=(2, 50))).astype(np.float32), rng.normal(size=17).astype(np.float32)
    y[3] = 60.0  # its density underflows in 32 bits
    found = iso.log_likelihood(made({"m": m}), normal(batched), y, rows_at_once=5)
    log_p = -0.5 * (y - m.reshape(-1, 1).astype(np.float64)) ** 2 - 0.5 * np.log(2 * np.pi)
    exact = np.logaddexp.reduce(log_p, axis=0) - np.log(100)
    np.testing.assert_allclose(found.rows, exact, rtol=1e-5)
    assert found.total == pytest.approx(exact.sum(), rel=1e-5)
    assert found.mean == pytest.approx(exact.mean(), rel=1e-5)
    assert found.standard_error == pytest.approx(exact.std(ddof=1) / np.sqrt(17), rel=1e-4)
    assert str(found).startswith(
        f"log predictive density per row: {found.mean:.5g} ± {found.standard_error:.2g}"
    )


@pytest.mark.parametrize("rows_at_once", [None, 2])
def test_draws_that_do_not_fit_on_the_device_count_as_much_as_others(rows_at_once, monkeypatch):
    """100 draws in pieces of 30: the last one is shorter. Densities of the pieces differ by many powers of e."""
    monkeypatch.setattr(blocks, "_PARAMETERS", 30)
    m, y = np.linspace(0.1, 20, 100, dtype=np.float32).reshape(2, 50), np.array([0.5, 19.0, -3.0, 7.0, 30.0])
    found = iso.log_likelihood(made({"m": m}), normal(True), y, rows_at_once=rows_at_once)
    log_p = -0.5 * (y - m.reshape(-1, 1).astype(np.float64)) ** 2 - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(found.rows, np.logaddexp.reduce(log_p, axis=0) - np.log(100), rtol=2e-6)
    assert found.num_draws == 100


def test_the_mean_of_many_likelihoods_is_not_rounded_more_than_one():
    """100,000 equal terms: added one after the other in single precision, their sum would be off by 10^-4 or so."""
    draws = made({"m": np.full((4, 25_000), 0.3, np.float32)})
    found = iso.log_likelihood(draws, normal(True), np.array([0.9], np.float32))
    exact = -0.5 * (np.float32(0.9) - np.float32(0.3)) ** 2 - 0.5 * np.log(2 * np.pi)
    assert found.rows[0] == pytest.approx(exact, abs=1e-6)


def test_a_row_that_no_draw_allows_and_one_that_has_no_density(as_a_user):
    posterior = iso.Posterior(lambda p, y: jnp.where(y > p, -jnp.inf, jnp.where(y < -5, jnp.nan, 0.0)))
    draws = made(np.zeros((2, 10), np.float32))
    assert iso.log_likelihood(draws, posterior, np.array([1.0, -1.0])).rows.tolist() == [-np.inf, 0.0]
    with pytest.raises(ValueError, match="that of row 1 is NaN"):
        iso.log_likelihood(draws, posterior, np.array([1.0, -9.0]))
    with pytest.raises(TypeError, match=r"`posterior` must be an `iso.Posterior`"):
        iso.log_likelihood(draws, lambda p, y: p, np.zeros(2))


@pytest.mark.slow
def test_arviz_computes_loo_of_what_it_is_given():
    """For the mean of n normal rows, leave-one-out densities are known: N(mean of the others, 1 + 1/(n - 1))."""
    import arviz_stats

    n, rng = 40, np.random.default_rng(2)
    y = rng.normal(size=n)
    m = y.mean() + rng.normal(size=(5, 1000)) / np.sqrt(n)
    posterior = iso.Posterior(lambda p, row: -0.5 * (row - p) ** 2 - 0.5 * jnp.log(2 * jnp.pi))
    xi = rng.normal(size=(5, 1000))
    draws = made(m.astype(np.float32), complete=[True] * 4 + [False], stats={"xi": xi})
    tree = iso.with_log_likelihood(draws, posterior, y.astype(np.float32), draws_used=2000)
    values = tree["log_likelihood"]["rows"]
    assert values.dims == ("chain", "draw", "row")
    assert values.shape == (4, 500, n)
    assert tree["posterior"]["theta"].shape == tree["sample_stats"]["xi"].shape == (4, 500)
    at = np.asarray(tree["posterior"]["theta"])[2, 7]
    np.testing.assert_allclose(values[2, 7], -0.5 * (y - at) ** 2 - 0.5 * np.log(2 * np.pi), atol=1e-5)
    others, variance = (y.sum() - y) / (n - 1), 1 + 1 / (n - 1)
    exact = -0.5 * (y - others) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)
    found = arviz_stats.loo(tree, pointwise=True)
    # The log of a mean over 2,000 draws of 1 / p(y|m), whose relative variance is about (y - mean)^2 / n.
    error = np.abs(y - y.mean()) / np.sqrt(n * 2000) + 2 / (n * np.sqrt(2000))
    assert np.all(np.abs(np.asarray(found.elpd_i) - exact) < LIMIT * error)


def test_an_array_too_large_for_arviz_is_refused_before_it_is_made():
    draws = made(np.zeros((4, 1000), np.float32))
    posterior = iso.Posterior(lambda p, row: row - p)
    message = r"4 chains x 1,000 draws x 1,000,000 rows would take 16 GB, more than 2.*`draws_used=500`"
    with pytest.raises(ValueError, match=message):
        iso.with_log_likelihood(draws, posterior, np.zeros(1_000_000, np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments_keep_their_digits_far_from_zero(dtype):
    rng = np.random.default_rng(0)
    values = (1e4 + rng.normal(size=(4000, 5))).astype(dtype)
    mean, sd = moments(values)
    wide = values.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(sd, wide.std(axis=0, ddof=1), rtol=1e-5)
    assert np.isnan(moments(values[:1])[1]).all()


def test_moments_of_values_that_are_not_finite():
    values = np.array([[np.inf, 1.0, np.nan], [2.0, np.inf, 1.0], [3.0, 2.0, 1.0]], np.float32)
    mean, sd = moments(values)
    np.testing.assert_array_equal(mean, [np.inf, np.inf, np.nan])
    assert np.isnan(sd).all()


def test_progress_counts_rows(monkeypatch):
    shown = []

    class Bar(Progress):
        def __enter__(self):
            shown.append((self.title, self.total, self.show))
            return self

        def say(self, text):
            shown.append((self.done, text))

    monkeypatch.setattr(sys.modules["isotherm.prediction.predict"], "Progress", Bar)
    iso.predict(made(PARAMS), f, X, rows_at_once=5, progress=True)
    assert shown[0] == ("predictions", ROWS, True)
    assert [done for done, _ in shown[1:]] == [*range(5, ROWS, 5), ROWS]
    assert all(text.endswith(" rows/s") for _, text in shown[1:])
