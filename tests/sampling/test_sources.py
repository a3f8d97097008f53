"""`iso.sample` on rows from a source: the same posterior wherever they are, and the same draws given one setup."""

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

import isotherm as iso
from isotherm.chains import feed
from isotherm.data import stream
from isotherm.data.stream import Stream
from isotherm.tuning import normal, streamed_rows

N, D = 20_011, 4


@pytest.fixture(autouse=True)
def _streaming(monkeypatch):
    """Make 20,011 rows too many to be held, in 25 blocks, with a sample of 8,000."""
    monkeypatch.setattr(stream, "_HELD", 0)
    monkeypatch.setattr(stream, "_SAMPLE", 40_000)
    monkeypatch.setattr(stream, "_BLOCK", 4_000)


def row(number):
    """Return row `number` of a logistic regression, in which one row in 200 has the last feature."""
    key_x, key_rare, key_y = jax.random.split(jax.random.fold_in(jax.random.key(3), number), 3)
    x = jax.random.normal(key_x, (D,)).at[D - 1].set(jax.random.uniform(key_rare) < 0.005)
    p = jax.nn.sigmoid(x @ jnp.array([0.5, -0.3, 0.2, 1.0]))
    return {"x": x, "y": (jax.random.uniform(key_y) < p).astype(jnp.float32)}


@pytest.fixture(scope="module")
def arrays():
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(row))(jnp.arange(N)))


POSTERIOR = iso.Posterior(
    lambda w, r: jax.nn.log_sigmoid((2 * r["y"] - 1) * (r["x"] @ w)), lambda w: -0.5 * jnp.sum(w**2)
)


def source_of(kind, arrays, folder):
    if kind == "arrays":
        return iso.data.arrays(arrays)
    if kind == "memory map":
        for name, x in arrays.items():
            np.save(folder / f"{name}.npy", x)
        return {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in arrays}
    if kind == "npy":
        np.save(folder / "rows.npy", np.column_stack([arrays["x"], arrays["y"]]))
        return iso.data.npy(folder / "rows.npy", columns={"x": slice(0, D), "y": D})
    if kind == "parquet":
        columns = {f"x{i}": arrays["x"][:, i] for i in range(D)} | {"y": arrays["y"]}
        pq.write_table(pa.table(columns), folder / "rows.parquet", row_group_size=1_700)
        return iso.data.parquet(folder / "rows.parquet", columns={"x": [f"x{i}" for i in range(D)], "y": "y"})
    if kind == "zarr":
        group = zarr.open_group(folder / "rows.zarr", mode="w")
        for name, x in arrays.items():
            group.create_array(name, data=x, chunks=(3_000, *x.shape[1:]))
        return iso.data.zarr(folder / "rows.zarr")
    return iso.data.generated(row, N)


def sampled(data, init=None, **options):
    init = jnp.zeros(D) if init is None else init
    return iso.sample(POSTERIOR, data, init, progress=False, **options)


@pytest.mark.slow
def test_the_same_warm_up_and_the_same_draws_from_every_kind_of_source(arrays, tmp_path):
    """Warm-ups agree to rounding, since generated rows are the same to the last bit; given one setup, so do draws."""
    setup = iso.warmup(POSTERIOR, iso.data.arrays(arrays), jnp.zeros(D), progress=False)
    assert isinstance(setup.problem.data, Stream)
    draws = sampled(arrays, setup, num_draws=50).posterior
    for kind in ("arrays", "memory map", "npy", "parquet", "zarr", "generated"):
        source = source_of(kind, arrays, tmp_path)
        other = iso.warmup(POSTERIOR, source, jnp.zeros(D), progress=False)
        assert [r.value for r in other.reasons] == [r.value for r in setup.reasons], kind
        assert np.allclose(other.preconditioner.root, setup.preconditioner.root, rtol=1e-5), kind
        assert np.array_equal(sampled(source, setup, num_draws=50).posterior, draws), kind


@pytest.mark.slow
def test_rows_of_a_sorted_file_give_the_answer_of_all_rows_in_memory(arrays):
    """Means and sds of 4 x 1,000 draws: standard errors .017 and .012 sd; 5 of them allowed, one in 10^6."""
    in_memory = iso.sample(POSTERIOR, arrays, jnp.zeros(D), progress=False)
    assert not isinstance(in_memory.setup.problem.data, Stream)
    order = np.lexsort((arrays["x"][:, -1], arrays["y"]))
    of_file = sampled(iso.data.arrays(jax.tree.map(lambda x: x[order], arrays)))
    assert isinstance(of_file.setup.problem.data, Stream)
    sd = in_memory.posterior.std(axis=(0, 1))
    difference = of_file.posterior.mean(axis=(0, 1)) - in_memory.posterior.mean(axis=(0, 1))
    assert np.abs(difference / sd).max() < 5 * 0.017 * 2**0.5
    assert np.abs(of_file.posterior.std(axis=(0, 1)) / sd - 1).max() < 5 * 0.012 * 2**0.5
    assert of_file.record.arithmetic.force_error < 0.03
    assert of_file.summary().verdict.startswith("No fault found")
    diagnosis = iso.diagnose(of_file)
    assert diagnosis.ok, diagnosis


@pytest.mark.slow
def test_rows_whose_tickets_are_computed_again_give_the_same_posterior(arrays, monkeypatch):
    """As for rows of which a byte each is kept; the tolerance is that of the sorted file."""
    kept = sampled(iso.data.arrays(arrays))
    monkeypatch.setattr(streamed_rows, "_MOST_CODES", 0)
    again = sampled(iso.data.arrays(arrays))
    assert type(again.setup.minibatch.scores).__name__ == "BlockScores"
    sd = kept.posterior.std(axis=(0, 1))
    difference = kept.posterior.mean(axis=(0, 1)) - again.posterior.mean(axis=(0, 1))
    assert np.abs(difference / sd).max() < 5 * 0.017 * 2**0.5
    assert np.abs(again.posterior.std(axis=(0, 1)) / sd - 1).max() < 5 * 0.012 * 2**0.5


SAMPLER = iso.CCAdL(step_size=2e-4, friction=10.0, covariance=iso.Dense())
BY_HAND = {"sampler": SAMPLER, "batch_size": 50, "num_draws": 20, "thinning": 3, "burn_in": 7}


@pytest.mark.slow
def test_a_given_sampler_draws_the_same_from_a_source_as_from_memory(arrays):
    """The rows of a step follow from its key alone. Seeds of covariances come from the sample, so SGNHT is used."""
    options = BY_HAND | {"sampler": iso.SGNHT(step_size=2e-4, friction=10.0, initial_xi=190.0)}
    in_memory = iso.sample(POSTERIOR, arrays, jnp.zeros(D), progress=False, **options)
    of_source = sampled(iso.data.arrays(arrays), **options)
    assert np.array_equal(of_source.posterior, in_memory.posterior)


@pytest.mark.slow
def test_portions_of_rows_do_not_change_the_draws(arrays, monkeypatch):
    whole = sampled(iso.data.arrays(arrays), **BY_HAND)
    monkeypatch.setattr(feed, "_BYTES", 20_000)  # one step
    assert np.array_equal(sampled(iso.data.arrays(arrays), **BY_HAND).posterior, whole.posterior)


@pytest.mark.slow
def test_an_interruption_while_rows_are_read_returns_the_draws_so_far(arrays, monkeypatch):
    monkeypatch.setattr(feed, "_BYTES", 200_000)  # 8 steps
    read, found = [], iso.WithReplacement.found

    def interrupted(self, data, names):
        read.append(1)
        if len(read) == 4:
            import _thread

            _thread.interrupt_main()
        return found(self, data, names)

    monkeypatch.setattr(iso.WithReplacement, "found", interrupted)
    with pytest.warns(iso.IsothermWarning, match="interrupted"):
        draws = sampled(iso.data.arrays(arrays), **(BY_HAND | {"num_draws": 500}))
    assert 0 < draws.num_draws < 500
    assert "interrupted" in draws.status[0]


def test_a_file_that_changed_after_the_setup_was_made_is_refused(arrays, tmp_path):
    source = source_of("npy", arrays, tmp_path)
    setup = iso.setup(
        POSTERIOR, source, jnp.zeros(D), **{k: v for k, v in BY_HAND.items() if k != "num_draws"}
    )
    with open(tmp_path / "rows.npy", "r+b") as file:
        file.seek(-4, 2)
        file.write(np.float32(1 - arrays["y"][-1]).tobytes())
    with pytest.raises(ValueError, match=r"must be a setup for this data"):
        sampled(source, setup)


def test_a_memory_map_that_changed_in_its_middle_is_refused(arrays, tmp_path):
    """A setup knows the times of files, and without them some thousand rows."""
    data = source_of("memory map", arrays, tmp_path)
    setup = iso.setup(POSTERIOR, data, jnp.zeros(D), sampler=SAMPLER, batch_size=50)
    changed = np.load(tmp_path / "x.npy", mmap_mode="r+")
    changed[3_000:9_000] += 1
    changed.flush()
    with pytest.raises(ValueError, match="made for other data"):
        sampled(data, setup)


def test_other_rows_than_those_of_the_setup_are_refused(arrays):
    setup = iso.setup(POSTERIOR, iso.data.arrays(arrays), jnp.zeros(D), sampler=SAMPLER, batch_size=50)
    other = jax.tree.map(lambda x: np.append(x[1:], x[:1], axis=0), arrays)
    with pytest.raises(ValueError, match="made for other data"):
        sampled(iso.data.arrays(other), setup)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"minibatch": iso.RandomBlocks()}, "`minibatch` must be a plan that does not rearrange rows"),
        ({"gradient": iso.FullData()}, "`gradient` must be one that uses some rows in each step"),
    ],
)
def test_what_needs_all_rows_in_memory_is_refused(arrays, options, words):
    with pytest.raises(ValueError, match=words):
        sampled(iso.data.arrays(arrays), **(BY_HAND | options))


@pytest.mark.slow
def test_a_long_tail_is_refused_before_any_step(monkeypatch):
    """The log of a gamma variable of shape 1/2: all rows would be needed in each step."""
    posterior = iso.Posterior(lambda p, row: -0.5 * (row - p[1]) ** 2, lambda p: 0.5 * p[0] - jnp.exp(p[0]))
    rows = np.random.default_rng(0).normal(size=N).astype(np.float32)
    monkeypatch.setattr(stream, "_SAMPLE", 5_000)
    with pytest.raises(
        ValueError, match="`data` must be rows that fit into memory, since steps need all of them"
    ):
        iso.sample(posterior, iso.data.arrays(rows), jnp.array([-0.7, 0.0]), progress=False)


@pytest.mark.slow
def test_without_a_mode_chains_start_from_several_points(arrays, monkeypatch):
    """The second route of the warm-up, on a posterior whose moments are known from the first; tolerances as above.

    Draws of plain minibatches are correlated: the least effective size sets the standard error.
    """
    exact = iso.sample(POSTERIOR, arrays, jnp.zeros(D), progress=False)
    monkeypatch.setattr(normal, "_MOST_PARAMETERS", 0)
    draws = sampled(iso.data.arrays(arrays))
    mean, sd = exact.posterior.mean(axis=(0, 1)), exact.posterior.std(axis=(0, 1))
    summary = draws.summary()
    error = 1 / np.sqrt(min(row.ess_bulk for row in summary.rows))
    assert error < 0.1
    assert np.abs((draws.posterior.mean(axis=(0, 1)) - mean) / sd).max() < 5 * error
    assert np.abs(draws.posterior.std(axis=(0, 1)) / sd - 1).max() < 0.05 + 5 * error / 2**0.5


@pytest.mark.slow
def test_control_variates_of_a_given_sampler_take_their_sums_from_the_source(arrays):
    gradient = iso.ControlVariate(order=2)
    draws = sampled(iso.data.arrays(arrays), **(BY_HAND | {"gradient": gradient}))
    value, slope, hessian = draws.setup.gradient.sums
    anchor = draws.setup.gradient.anchor
    total = lambda w: jnp.sum(jax.vmap(POSTERIOR.log_likelihood, in_axes=(None, 0))(w, arrays))
    with jax.enable_x64(True):
        wide = jnp.asarray(anchor, jnp.float64)
        assert np.allclose(slope, jax.grad(total)(wide), rtol=1e-5)
        assert np.allclose(hessian, jax.hessian(total)(wide), rtol=1e-5)
        assert np.allclose(value, total(wide), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("rows_at_once", [None, 777])
def test_predictions_and_log_likelihoods_of_a_source(arrays, tmp_path, rows_at_once):
    draws = iso.sample(POSTERIOR, arrays, jnp.zeros(D), progress=False, **BY_HAND)
    source = source_of("parquet", arrays, tmp_path)
    f = lambda w, x: jax.nn.sigmoid(x["x"] @ w)
    options = {"rows_at_once": rows_at_once, "draws_used": 20}
    here, there = (iso.predict(draws, f, x, **options) for x in (source, arrays))
    assert np.allclose(here.mean, there.mean, rtol=1e-6)
    assert np.allclose(here.quantiles, there.quantiles, rtol=1e-6)
    here, there = (iso.log_likelihood(draws, POSTERIOR, x, **options) for x in (source, arrays))
    assert np.allclose(here.rows, there.rows, rtol=1e-5)


def test_nan_in_a_source_of_new_rows_is_named(arrays):
    draws = iso.sample(POSTERIOR, arrays, jnp.zeros(D), progress=False, **BY_HAND)
    bad = {**arrays, "x": arrays["x"].copy()}
    bad["x"][N - 5, 2] = np.nan
    with pytest.raises(ValueError, match=f"`x.x` must not contain NaN; row {N - 5} does"):
        iso.predict(draws, lambda w, x: x["x"] @ w, iso.data.arrays(bad))
