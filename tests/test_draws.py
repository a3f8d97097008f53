"""Draws: names, summary, verdict, ArviZ, save and load."""

import collections
import dataclasses
import os
import zipfile
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base import array_stats

import isotherm as iso
from isotherm.draws import Draws, Moments
from isotherm.errors import DamagedFileError
from support.made import made, made_record
from support.made_run import made_draws
from support.models import call, normal_mean

pytestmark = pytest.mark.usefixtures("quick_compilation")


class Pair(NamedTuple):
    weight: object
    bias: object


class Layers(eqx.Module):
    layers: list
    a: object


def leaf(i):
    return np.full((2, 3, 2), float(i))


PARAMETERS = {
    "array": leaf(0),
    "dict": {"b": leaf(0), "a": leaf(1)},
    "nested": {"w": [leaf(0), (leaf(1), None)], "v": leaf(2)},
    "ordered": collections.OrderedDict([("b", leaf(0)), ("a", leaf(1))]),
    "namedtuple": Pair(leaf(0), leaf(1)),
    "module": Layers([leaf(i) for i in range(11)], leaf(11)),
}


def made_of(posterior):
    """Return draws with recognisable numbers in every leaf: its temperature is the leaf's number plus a half."""
    mean = jax.tree.map(lambda x: x[:, 0], posterior)
    heat = jax.tree.map(lambda x: x + 0.5, mean)
    return Draws(
        posterior=posterior,
        stats={"xi": np.ones((2, 3)), "configurational_temperature": np.ones(2)},
        moments=Moments(np.full(2, 3), mean, mean, heat),
        status=("completed 3 steps", "chain 1 turned non-finite"),
        lengths=np.asarray([3, 2]),
        complete=np.asarray([True, False]),
        record=made_record(iso.SGNHT(0.1, 1.0, temperature=1.0), s=0.1),
    )


@pytest.mark.parametrize("posterior", PARAMETERS.values(), ids=PARAMETERS.keys())
@pytest.mark.parametrize("with_like", [True, False], ids=["like", "bare"])
def test_save_and_load_keep_every_leaf_in_its_place(posterior, with_like, tmp_path):
    draws = made_of(posterior)
    draws.save(tmp_path / "run.iso")
    like = jax.tree.map(lambda x: x[0, 0], posterior)
    again = iso.load(tmp_path / "run.iso", like=like if with_like else None)
    if with_like:
        assert jax.tree.structure(again.posterior) == jax.tree.structure(posterior)
    temperature = dict(made_of(again.moments.temperature).flat())
    for (name, x), (name_again, y) in zip(
        sorted(draws.flat().items()), sorted(again.flat().items()), strict=True
    ):
        assert name == name_again
        assert np.array_equal(x, y)
        assert np.array_equal(temperature[name], np.full((2, 2), x.flat[0] + 0.5))
    assert (again.status, again.record) == (draws.status, draws.record)
    assert again.lengths.tolist() == [3, 2]
    assert again.complete.tolist() == [True, False]


@pytest.mark.slow
def test_a_real_run_comes_back_whole(tmp_path):
    draws = call(num_draws=20)
    draws.save(tmp_path / "deep" / "run.iso")
    again = iso.load(tmp_path / "deep" / "run.iso")
    assert np.array_equal(again.posterior, draws.posterior)
    assert again.record == draws.record
    assert (again.labels, again.about) == (draws.labels, draws.about)
    assert str(again.summary()) == str(draws.summary())
    assert sorted(os.listdir(tmp_path / "deep")) == ["run.iso"]


def test_damaged_and_foreign_files_are_refused(tmp_path):
    path = tmp_path / "run.iso"
    call(num_draws=5).save(path)
    whole = path.read_bytes()
    for damage in (b"", b"hello", whole[: len(whole) // 2], whole[:-30]):
        path.write_bytes(damage)
        with pytest.raises(ValueError, match="is damaged, or was not"):
            iso.load(path)
    np.savez(tmp_path / "foreign.npz", a=np.zeros(3))
    with pytest.raises(ValueError, match="was not written by isotherm"):
        iso.load(tmp_path / "foreign.npz")
    with pytest.raises(FileNotFoundError):
        iso.load(tmp_path / "absent")


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "run.iso"
    call(num_draws=5).save(path)
    before = path.read_bytes()

    def full_disk(*_, **__):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        call(num_draws=6).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["run.iso"]


def test_like_of_another_model_is_refused(tmp_path):
    made_of(PARAMETERS["dict"]).save(tmp_path / "run.iso")
    with pytest.raises(ValueError, match=r"`like` must have the leaves"):
        iso.load(tmp_path / "run.iso", like={"a": jnp.zeros(2), "c": jnp.zeros(2)})


@pytest.mark.slow
def test_arviz_gets_names_dims_and_statistics():
    posterior = iso.Posterior(lambda t, d: -0.5 * jnp.sum((d - t["w"]) ** 2) - 0.5 * t["rest"][0] ** 2)
    init = {"w": jnp.zeros(2), "rest": (jnp.zeros(()),)}
    draws = call(model=(posterior, normal_mean()[1], init))
    data = draws.to_arviz(dims={"w": ["side"]}, coords={"side": ["left", "right"]})
    assert data["posterior"]["w"].dims == ("chain", "draw", "side")
    assert data["posterior"]["rest.0"].shape == (3, 50)
    assert set(data["sample_stats"].data_vars) == {"kinetic_temperature", "xi"}


@pytest.mark.slow
def test_summary_agrees_with_the_exact_posterior_and_finds_no_fault():
    _, data, _ = normal_mean()
    draws = call(iso.CCAdL(0.01, 5.0, iso.Dense()), num_draws=4000, thinning=5, burn_in=2000, num_chains=4)
    summary = draws.summary()
    exact = data.sum(axis=0) / 41
    for i in range(2):
        row = summary[f"theta[{i}]"]
        # Five Monte Carlo errors: one false alarm in 10^6.
        assert abs(row.mean - exact[i]) < 5 * row.mcse
        # Of a normal distribution; a quantile there is worth about a quarter of the draws.
        for end, sign in ((row.low, -1), (row.high, 1)):
            assert abs(end - exact[i] - sign * 1.6449 / 41**0.5) < 10 * row.mcse
    assert summary.verdict.startswith("No fault found")
    with pytest.raises(KeyError, match="not the name of a parameter"):
        summary["mu"]


def test_a_verdict_names_the_parameter_the_fault_and_the_remedy():
    draws = made_draws(shift=3.0)
    verdict = draws.summary().verdict
    assert "above 1.01, so the chains disagree: run longer (if it stays high" in verdict
    assert "effective draws, fewer than 100 per chain: run longer" in verdict
    draws = made_draws()
    error = min(row.temperature_error for row in draws.summary().rows)
    assert draws.summary().verdict == (
        "No fault found: the chains agree. The kinetic temperature is within 5 % of its target, the configurational "
        f"within {400 * error:.0f} % (four standard errors)."
    )
    draws.posterior["sigma"][:] = 1.0
    assert (
        "R-hat of `sigma` cannot be computed: its draws are constant or not finite" in draws.summary().verdict
    )
    draws = made_draws()
    draws.moments.temperature["coefficients"][:, 1] = 2.0
    name = draws.labels["coefficients"][0][1]
    assert f"the temperature of `{name}` is 2.00 times its target" in draws.summary().verdict
    assert "its variance is about 2.00 times too large" in draws.summary().verdict
    moved = dataclasses.replace(draws.record, preconditioner="DensePreconditioner")
    verdict = dataclasses.replace(draws, record=moved).summary().verdict
    assert f"the temperature of the coordinate nearest to `{name}` is 2.00 times" in verdict
    draws.stats["configurational_temperature"][:] = 0.5
    assert "0.500 times its target, so variances are about 2.00 times too small" in draws.summary().verdict


def test_chains_disagree_if_r_hat_is_above_its_limit():
    """The documented limit is 1.01. The last chain is moved until R-hat is 0.0003 below it, and then above it."""
    r_hat = lambda shift: max(row.r_hat for row in made_draws(1, shift=shift).summary().rows)
    shifts = np.linspace(0, 1, 101)
    found = np.array([r_hat(shift) for shift in shifts])
    below, above = shifts[found < 1.0097][-1], shifts[found > 1.0103][0]
    assert 1.009 < r_hat(below) < 1.01 < r_hat(above) < 1.012
    faults = lambda shift: [p for p in made_draws(1, shift=shift).summary().problems if "R-hat" in p]
    assert not faults(below)
    assert "the chains disagree" in faults(above)[0]


def test_verdict_says_when_the_noise_was_not_measured():
    """A user's gradient without contrasts has an unknown s, which is not an s of zero."""

    class Plain(iso.extend.Gradient):
        all_rows = True

        def __call__(self, position, batch, *, needs, key):
            return iso.extend.GradientEstimate(-position, None, jnp.zeros(()))

    posterior = iso.Posterior(lambda t, d: -0.5 * jnp.sum(t**2))
    draws = call(
        iso.SGNHT(0.1, 1.0),
        model=(posterior, np.zeros(2), jnp.zeros(2)),
        gradient=Plain(),
        num_draws=1000,
        thinning=40,
        burn_in=500,
        batch_size=2,
    )
    assert draws.record.s is None
    assert draws.summary().verdict.endswith("was not measured.")


@pytest.mark.slow
def test_verdict_sees_parameters_at_different_temperatures():
    """SGNHT under noise in one coordinate: the mean temperatures are right, and the verdict still finds the fault."""

    class OneNoisy(iso.extend.Gradient):
        all_rows = True

        def __call__(self, position, batch, *, needs, key):
            noise = jnp.zeros_like(position).at[0].set(8 * jax.random.normal(key))
            return iso.extend.GradientEstimate(-position + noise, None, jnp.zeros(()))

    posterior = iso.Posterior(lambda t, d: -0.5 * jnp.sum(t**2))
    draws = call(
        iso.SGNHT(0.1, 1.0),
        model=(posterior, np.zeros(2), jnp.zeros(8)),
        gradient=OneNoisy(),
        num_draws=4000,
        thinning=10,
        burn_in=4000,
        num_chains=4,
    )
    summary = draws.summary()
    assert abs(summary.kinetic_temperature - 1) < 0.05
    assert abs(summary.configurational_temperature - 1) < 0.1
    assert summary["theta[0]"].temperature > 1.5
    assert "the temperature of `theta[0]`" in summary.verdict


def test_a_run_that_cannot_be_explained_is_kept():
    """A gradient without contrasts, a plan with a field that is not a number, and a chain that fails."""

    class Breaks(iso.extend.Gradient):
        all_rows = False
        note: tuple = eqx.field(static=True, default=("a", "b"))

        def __call__(self, position, batch, *, needs, key):
            bad = jnp.where(position[0] > 0, jnp.nan, 1.0)
            return iso.extend.GradientEstimate(bad * jnp.ones_like(position), None, jnp.zeros(()))

    with pytest.warns(iso.IsothermWarning, match="s was not measured"):
        draws = call(iso.SGNHT(0.1, 1.0), gradient=Breaks(), num_draws=100)
    assert not draws.complete.any()
    assert draws.num_draws == draws.lengths.max()


@pytest.mark.slow
def test_reference_posterior_is_the_exact_one():
    posterior, data, init = normal_mean()
    with jax.numpy_rank_promotion("allow"), jax.debug_key_reuse(False):
        tempered = iso.Posterior(posterior.log_likelihood, posterior.log_prior, temperature=2.0)
        draws = iso.reference_posterior(
            tempered, data, init, num_draws=1000, warmup=200, num_chains=4, progress=False
        )
    summary = draws.summary()
    for i in range(2):
        row = summary[f"theta[{i}]"]
        assert abs(row.mean - data.sum(axis=0)[i] / 41) < 5 * row.mcse
        # The sd from at least 1000 effective draws: relative standard error 1/sqrt(2000); five of them.
        assert row.ess_bulk > 1000
        assert abs(row.sd / (2 / 41) ** 0.5 - 1) < 5 * 2000**-0.5
    assert abs(summary.configurational_temperature / 2 - 1) < 0.1


def test_an_array_in_a_zip_that_is_whole_is_held_against_its_checksum(tmp_path):
    path = tmp_path / "draws.iso"
    made_draws(2).save(path)
    with zipfile.ZipFile(path) as archive:
        members = {x: archive.read(x) for x in archive.namelist()}
    members["0.npy"] = members["0.npy"][:-1] + bytes([members["0.npy"][-1] ^ 1])
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(DamagedFileError, match=r"draws\.iso is damaged.*the checksum of 0\.npy is wrong"):
        iso.load(path)


def test_a_long_summary_takes_sizes_and_r_hat_from_evenly_spaced_draws(monkeypatch):
    x = np.random.default_rng(0).normal(size=(2, 1000))
    every, third = made(x).summary().rows[0], made(x[:, ::3]).summary().rows[0]
    monkeypatch.setattr("isotherm.judging.summary._MOST_RANKED", 700)
    found = made(x).summary().rows[0]
    assert (found.ess_bulk, found.ess_tail, found.r_hat) == (third.ess_bulk, third.ess_tail, third.r_hat)
    assert (found.mean, found.sd, found.low, found.high) == (every.mean, every.sd, every.low, every.high)
    assert found.mcse == pytest.approx(every.sd / third.sd * third.mcse)


def test_rows_of_a_summary_are_those_of_each_element_alone(monkeypatch):
    rng = np.random.default_rng(0)
    x = np.cumsum(rng.normal(size=(3, 60, 2, 4)), axis=1).astype(np.float32) * 10.0 ** np.arange(
        -3, 5
    ).reshape(2, 4)
    corner = np.where(np.arange(4) == 1, np.float32(0.1), x[:, :, 0])
    monkeypatch.setattr("isotherm.judging.summary.AT_ONCE", 3 * 120)
    draws = dataclasses.replace(made({"x": x}, complete=(True, False, True)), derived={"corner": corner})
    summary = draws.summary()
    complete = x[[0, 2]].astype(np.float64)
    for i, row in enumerate(summary.rows):
        one = complete[:, :, i // 4, i % 4]
        assert row.name == f"x[{i // 4}, {i % 4}]"
        low, high = np.quantile(one, (0.05, 0.95))
        size = array_stats.ess(one, method="mean")
        wanted = (one.mean(), one.std(ddof=1), low, high, one.std(ddof=1) / size**0.5)
        wanted += (
            array_stats.ess(one),
            array_stats.ess(one, method="tail", prob=(0.05, 0.95)),
            array_stats.rhat(one),
        )
        assert dataclasses.astuple(row)[1:9] == pytest.approx([float(number) for number in wanted], rel=1e-9)
        assert row.temperature == pytest.approx(
            draws.moments.temperature["x"][[0, 2], i // 4, i % 4].mean(), rel=1e-6
        )
    assert dataclasses.astuple(summary["corner[1]"])[1:9] == pytest.approx(
        (0.1, 0, 0.1, 0.1, 0, 120, 120, 1), rel=1e-7
    )
    assert dataclasses.astuple(summary["corner[2]"])[1:9] == dataclasses.astuple(summary["x[0, 2]"])[1:9]


def test_labels_of_another_shape_are_refused(tmp_path):
    draws = made_draws()
    names = draws.labels["coefficients"][0]
    dataclasses.replace(draws, labels={"coefficients": [names[:-1]]}).save(tmp_path / "draws.iso")
    with pytest.raises(
        DamagedFileError, match=r"`coefficients` has the shape \(7,\), and its labels are for \(6,\)"
    ):
        iso.load(tmp_path / "draws.iso")
