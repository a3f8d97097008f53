"""Minibatch plans: which rows they draw, how often, how independently, and with how much noise."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.data import plans as minibatch
from support.monte_carlo import assert_chi_square, assert_mean, assert_uniform

WITH, WITHOUT, RESHUFFLED = iso.WithReplacement(), iso.WithoutReplacement(), iso.Reshuffled()
PLANS = [WITH, WITHOUT, RESHUFFLED, iso.RandomBlocks(2), iso.RandomBlocks(3), iso.RandomBlocks(8)]
SIZES = [(7, 7), (100, 12)]
plans = pytest.mark.parametrize(
    "plan", PLANS, ids=lambda p: type(p).__name__ + str(getattr(p, "rows_per_run", ""))
)


def draw(plan, num_data, batch_size, count, *, seed, step=0):
    """Return the batches of `count` chains at one step: (count, n)."""
    keys = jax.random.split(jax.random.key(seed), (2, count))
    return np.asarray(_draw(plan, num_data, batch_size, *keys, jnp.asarray(step)))


@eqx.filter_jit
def _draw(plan, num_data, batch_size, keys, chain_keys, step):
    def one(key, chain_key):
        return plan.index(step, num_data=num_data, batch_size=batch_size, key=key, chain_key=chain_key)

    return jax.vmap(one)(keys, chain_keys)


def outcomes(plan, num_data, batch_size):
    """Return all batches that a plan can draw from rows stored in order. They are equally likely."""
    N, n = num_data, batch_size
    if plan is WITH:
        return np.array(list(itertools.product(range(N), repeat=n)))
    if isinstance(plan, iso.RandomBlocks):
        r = plan.rows_per_run
        offsets = np.array(list(itertools.product(range(N), repeat=-(-n // r))))
        return (offsets[:, :, None] + np.arange(r)).reshape(len(offsets), -1)[:, :n] % N
    return np.array(list(itertools.permutations(range(N), n)))


@plans
@pytest.mark.parametrize(("num_data", "batch_size"), SIZES)
def test_indices_are_rows_and_distinct_where_they_must_be(plan, num_data, batch_size):
    index = draw(plan, num_data, batch_size, 200, seed=1, step=5)
    assert index.shape == (200, batch_size)
    assert index.dtype == np.int32
    assert index.min() >= 0
    assert index.max() < num_data
    if plan in (WITHOUT, RESHUFFLED):
        assert (np.diff(np.sort(index, axis=1), axis=1) > 0).all()
    if isinstance(plan, iso.RandomBlocks):
        run = plan.rows_per_run
        inside = np.arange(1, batch_size) % run != 0
        assert ((np.diff(index, axis=1) % num_data == 1)[:, inside]).all()


@plans
def test_all_batches_are_equally_likely(plan):
    """Chi-square over every ordered batch of 3 out of 5 rows, 40,000 draws; false alarm 6e-7 per plan."""
    possible = outcomes(plan, 5, 3)
    code = lambda index: index @ 5 ** np.arange(3)
    codes = np.unique(code(possible))
    assert len(codes) == len(possible)
    cells = np.searchsorted(codes, code(draw(plan, 5, 3, 40_000, seed=2)))
    assert_uniform(cells, len(possible))


@pytest.mark.parametrize("plan", [WITHOUT, RESHUFFLED], ids=["WithoutReplacement", "Reshuffled"])
@pytest.mark.parametrize("step", [3])
def test_pairs_of_the_tabulated_permutation_are_equally_likely(plan, step):
    """Above 64 rows the permutation is a keyed network: 4,950 pairs of 100 rows, 60,000 draws; false alarm 6e-7."""
    low, high = np.sort(draw(plan, 100, 2, 60_000, seed=3, step=step), axis=1).T
    pair = high * (high - 1) // 2 + low
    assert_uniform(pair, 4950)


@plans
def test_rows_are_visited_equally_often(plan):
    """Counts of 100 rows in 20,000 batches; false alarm 6e-7.

    For a batch without replacement the covariance of the inclusion indicators is n/N (1 - n/N) N/(N-1) (I - 11'/N),
    which makes the statistic chi-square with 99 degrees of freedom. For a run of r rows it is circulant, and only
    the marginal of each position in the batch is tested.
    """
    N, n, B = 100, 12, 20_000
    index = draw(plan, N, n, B, seed=4)
    if plan in (WITHOUT, RESHUFFLED):
        excess = np.bincount(index.ravel(), minlength=N) - B * n / N
        assert_chi_square((N - 1) / N * np.sum(excess**2) / (B * n / N * (1 - n / N)), N - 1)
    for position in range(0, n, 5):
        assert_uniform(index[:, position], N)


@pytest.mark.parametrize("num_data", [1, 3, 2**16 - 1, 2**16])
def test_one_word_chooses_a_row_by_the_upper_word_of_a_product(num_data):
    bits = np.asarray(jax.random.bits(jax.random.key(7), (20_000,), jnp.uint32)).astype(np.uint64)
    expected = (bits * np.uint64(num_data)) >> np.uint64(32)
    np.testing.assert_array_equal(minibatch.uniform(jax.random.key(7), 20_000, num_data), expected)


@pytest.mark.slow
@plans
def test_randint_branch_visits_rows_equally_often(plan):
    """Above 2^16 rows another generator draws the offsets: 10^5 rows in 100 bins, 20,000 draws; false alarm 6e-7."""
    assert_uniform(draw(plan, 100_000, 5, 20_000, seed=5)[:, -1] // 1000, 100)


@pytest.mark.parametrize("num_data", [2**16, 2**16 + 1], ids=["few", "many"])
def test_first_and_last_of_many_rows_are_drawn(num_data):
    """On either side of the size where the generator changes, 30 of each are expected in 2 million; none: e^-30."""
    counts = np.bincount(draw(WITH, num_data, 100, 20_000, seed=6).ravel(), minlength=num_data)
    assert len(counts) == num_data
    assert counts[[0, 1, -2, -1]].min() > 0


@plans
@pytest.mark.parametrize(("num_data", "batch_size"), [(5, 2), (5, 3), (6, 4), (7, 3), (7, 5)])
def test_noise_factor_is_exact(plan, num_data, batch_size):
    """Cov((N/n) sum g) = (N^2/n) f E[V] over all batches and, for runs, all orders of the rows, up to rounding."""
    N, n = num_data, batch_size
    g = np.random.default_rng(0).normal(size=N)
    batches = outcomes(plan, N, n)
    if isinstance(plan, iso.RandomBlocks):
        orders = np.array(list(itertools.permutations(range(N))))
        batches = orders[:, batches].reshape(-1, n)
    rows = g[batches]
    total = N / n * rows.sum(axis=1)
    assert total.mean() == pytest.approx(g.sum(), rel=1e-9)
    estimate = N**2 / n * plan.noise_factor(N, n) * rows.var(axis=1, ddof=1).mean()
    covariance = np.mean((total - g.sum()) ** 2)
    assert estimate == pytest.approx(covariance, rel=1e-9)
    if isinstance(plan, iso.RandomBlocks):
        a, b = n // 2, n - n // 2
        z = (rows[:, :a].mean(axis=1) - rows[:, a:].mean(axis=1)) / np.sqrt(1 / a + 1 / b)
        assert N**2 / n * plan.half_factor(N, n) * np.mean(z**2) == pytest.approx(covariance, rel=1e-9)


@pytest.mark.slow
@plans
@pytest.mark.parametrize(("num_data", "batch_size"), [(7, 3), (100, 33)])
def test_noise_of_drawn_batches_is_what_the_plan_says(plan, num_data, batch_size):
    """The same for 20,000 batches as the plan draws and gathers them, each from another order of the rows.

    (F - E F)^2 - (N^2/n) f V has mean exactly zero, which is tested against its standard error; false alarm 6e-7.
    """
    N, n = num_data, batch_size
    data = jax.random.normal(jax.random.key(7), (N,)) + jnp.arange(N) / N

    def one(key):
        arranging, key, chain_key = jax.random.split(key, 3)
        arranged = plan.arrange(data, key=arranging)
        batch = plan.batch(arranged, jnp.asarray(0), num_data=N, batch_size=n, key=key, chain_key=chain_key)
        noise = N / n * jnp.sum(batch.rows) - jnp.sum(data)
        return noise, noise**2 - N**2 / n * batch.noise_factor * jnp.var(batch.rows, ddof=1)

    noise, excess = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(8), 20_000))
    assert_mean(noise, 0.0)
    assert_mean(excess, 0.0)


@plans
def test_a_batch_holds_the_rows_of_its_index(plan):
    data = {"x": jnp.arange(100.0).reshape(50, 2), "y": jnp.arange(50)}
    arranging, key, chain_key = jax.random.split(jax.random.key(9), 3)
    arranged = plan.arrange(data, key=arranging)
    for step in range(12):
        step_key = jax.random.fold_in(key, step)
        batch = plan.batch(
            arranged, jnp.asarray(step), num_data=50, batch_size=11, key=step_key, chain_key=chain_key
        )
        np.testing.assert_array_equal(batch.rows["y"], np.asarray(arranged["y"])[np.asarray(batch.index)])
        np.testing.assert_array_equal(batch.rows["x"][:, 0], 2.0 * np.asarray(batch.rows["y"]))
    assert sorted(np.asarray(arranged["y"])[:50]) == list(range(50))


class CountRows(iso.extend.Gradient):
    """A gradient whose force counts the rows that were drawn."""

    all_rows = False

    def __call__(self, position, batch, *, needs, key):
        del needs, key
        return iso.extend.GradientEstimate(
            jnp.zeros_like(position).at[batch.index].add(1.0), None, jnp.zeros(())
        )


@eqx.filter_jit
def visits(plan, num_data, batch_size, keys, num_steps):
    """Return how often the kernel sees each row: (chains, steps, N)."""
    kernel = iso.extend.Kernel(iso.SGLD(1e-3), CountRows(), num_data, batch_size, plan)
    data = plan.arrange(jnp.zeros(num_data), key=jax.random.key(11))

    def chain(key):
        def step(state, _):
            state, _, visit = kernel.step(state, data, key=key)
            return state, visit.estimate.force

        return jax.lax.scan(step, kernel.init(jnp.zeros(num_data), data, key=key), length=num_steps)[1]

    return jax.vmap(chain)(keys)


@pytest.mark.parametrize(("num_data", "batch_size"), [(12, 4), (103, 10)])
def test_reshuffled_visits_every_row_at_most_once_an_epoch(num_data, batch_size):
    per_epoch = num_data // batch_size
    keys = jax.random.split(jax.random.key(10), 4)
    counts = np.asarray(visits(RESHUFFLED, num_data, batch_size, keys, 3 * per_epoch))
    epochs = counts.reshape(4, 3, per_epoch, num_data)
    rows = epochs.sum(axis=2)
    assert rows.max() == 1
    assert (rows.sum(axis=2) == per_epoch * batch_size).all()
    orders = epochs.reshape(12, -1)
    assert len(np.unique(orders, axis=0)) == 12


@pytest.mark.slow
@plans
def test_whiteness(plan):
    """Correlation of x = g.counts between steps and between chains: 1,000 chains, 8 steps, 4 steps per epoch.

    For white plans it is zero to 5 standard errors (6e-7). For reshuffled epochs of K batches it is -1/(K - 1)
    within an epoch, since the batches sum to a constant; the epochs are independent of each other.
    """
    keys = jax.random.split(jax.random.key(12), 1000)
    counts = np.asarray(visits(plan, 80, 20, keys, 8), np.float64)
    assert (counts.sum(axis=2) == 20).all()
    x = counts @ np.random.default_rng(1).normal(size=80)
    x = (x - x.mean()) / x.std()
    within = np.mean([x[:, t] * x[:, t + 1] for t in (0, 1, 2, 4, 5, 6)], axis=0)
    assert_mean(within, 0.0 if plan.white else -1 / 3)
    assert_mean(x[:, 3] * x[:, 4], 0.0)
    assert_mean(np.mean(x[0::2] * x[1::2], axis=1), 0.0)


@pytest.mark.slow
@plans
def test_a_batch_is_a_function_of_key_and_step(plan):
    keys = jax.random.split(jax.random.key(13), 3)
    first = np.asarray(visits(plan, 100, 10, keys, 25))
    again = np.asarray(visits(plan, 100, 10, keys[::-1], 5))[::-1]
    np.testing.assert_array_equal(first[:, :5], again)
    for chain, step in ((0, 1), (1, 0)):
        assert not np.array_equal(first[0, 0], first[chain, step])
