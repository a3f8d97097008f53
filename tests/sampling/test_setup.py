"""One setup, whoever made it: by hand, by a warm-up, or by an earlier run."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.data.fingerprint import fingerprint
from support.models import normal_mean

LENGTH = {"num_draws": 20, "num_chains": 2, "progress": False}


@pytest.fixture(autouse=True)
def _quick(quick_compilation):
    return quick_compilation


def by_hand(**changes):
    options = {"sampler": iso.CCAdL(0.02, 2.0, iso.Dense()), "batch_size": 8, "burn_in": 5, "thinning": 2}
    return options | changes


def test_a_setup_made_by_hand_is_what_sample_makes_of_the_same_arguments():
    setup = iso.setup(*normal_mean(), **by_hand())
    posterior, data, init = normal_mean()
    first = iso.sample(posterior, data, setup, seed=3, **LENGTH)
    second = iso.sample(posterior, data, init, seed=3, **by_hand(), **LENGTH)
    np.testing.assert_array_equal(first.posterior, second.posterior)
    assert first.record.reasons == second.record.reasons


@pytest.mark.slow
def test_the_setup_of_a_run_can_be_used_again():
    posterior, data, init = normal_mean()
    draws = iso.sample(
        posterior, data, init, gradient=iso.ControlVariate(), init_scale=0.1, **by_hand(), **LENGTH
    )
    again = iso.sample(posterior, data, draws.setup, **LENGTH)
    np.testing.assert_array_equal(draws.posterior, again.posterior)
    other = iso.sample(posterior, data, draws.setup, seed=1, **LENGTH)
    assert not np.isin(other.posterior, draws.posterior).any()


@pytest.mark.slow
def test_a_warm_up_makes_a_setup_too():
    posterior, data, init = normal_mean()
    setup = iso.warmup(posterior, data, init, progress=False)
    assert isinstance(setup, iso.Setup)
    draws = iso.sample(posterior, data, setup, **LENGTH)
    assert eqx.tree_equal(draws.setup.sampler, setup.sampler)
    assert draws.record.reasons == setup.reasons
    assert draws.record.setup_passes == pytest.approx(setup.passes, abs=0.01)


@pytest.mark.slow
def test_a_setup_prints_its_settings_and_their_reasons():
    text = str(iso.setup(*normal_mean(), **by_hand(minibatch=iso.WithoutReplacement())))
    for part in ("CCAdL", "step_size", "0.02", "WithoutReplacement", "given", "of 40 rows", "burn_in"):
        assert part in text
    tuned = str(iso.warmup(*normal_mean(), progress=False))
    assert "passes over the data" in tuned
    assert "why" in tuned


def test_each_setting_of_a_sweep_has_its_own_setup():
    posterior, data, init = normal_mean()
    samplers = [iso.CCAdL(h, 2.0, iso.Dense()) for h in (0.01, 0.02)]
    runs = iso.sweep(posterior, data, init, samplers, batch_size=8, **LENGTH)
    assert [float(run.setup.sampler.step_size) for run in runs] == [pytest.approx(h) for h in (0.01, 0.02)]
    assert [run.record.sampler.step_size for run in runs] == [pytest.approx(h) for h in (0.01, 0.02)]


def test_a_run_prints_how_it_was_made():
    posterior, data, init = normal_mean()
    text = str(iso.sample(posterior, data, init, **by_hand(), **LENGTH).record)
    assert "2 chains of 45 steps, 9 passes over the data each" in text


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int8, np.bool_, np.complex64])
def test_a_change_of_any_row_is_another_fingerprint(dtype):
    x = np.random.default_rng(0).integers(0, 2, size=(5000, 3)).astype(dtype)
    original = fingerprint({"x": jnp.asarray(x)})
    assert fingerprint({"x": jnp.asarray(x)}) == original
    for row in (0, 1, 2, 4999):
        changed = x.copy()
        changed[row, 1] = 1 - changed[row, 1]
        assert fingerprint({"x": jnp.asarray(changed)}) != original
    # The same elements in other places, or all of them changed.
    for other in (x[::-1], np.roll(x, 1, axis=1), x.reshape(3, 5000).T, x == 0):
        assert fingerprint({"x": jnp.asarray(np.asarray(other, dtype))}) != original
    assert fingerprint({"y": jnp.asarray(x)}) != original


def test_a_setup_is_refused_if_one_of_many_rows_has_changed():
    posterior, _, init = normal_mean()
    data = np.random.default_rng(1).normal(size=(10_000, 2)).astype(np.float32)
    setup = iso.setup(posterior, data, init, **by_hand())
    data[1] *= -1  # both signs: in a plain sum of the bits they would cancel
    with pytest.raises(ValueError, match="setup for this data; it was made for other data"):
        iso.sample(posterior, data, setup, **LENGTH)


def test_the_steps_may_be_counted_anew():
    posterior, data, _ = normal_mean()
    setup = iso.setup(*normal_mean(), **by_hand())
    draws = iso.sample(posterior, data, setup, burn_in=0, thinning=1, **LENGTH)
    assert draws.record.steps == 20


def test_starts_of_chains_are_counted():
    posterior, data, _ = normal_mean()
    setup = iso.setup(posterior, data, jnp.zeros((4, 2)), num_chains=4, **by_hand())
    with pytest.raises(ValueError, match="`init` must be an array with a leading axis of 3 chains"):
        iso.sample(posterior, data, setup, num_draws=5, num_chains=3, progress=False)


def test_a_gradient_that_fails_is_not_taken_for_one_without_contrasts():
    """Its error reaches the user; one that cannot say how noisy it is leaves s unmeasured."""

    class Broken(iso.extend.Gradient):
        all_rows = False

        def __call__(self, position, batch, *, needs, key):
            if needs.contrasts:
                raise ValueError("a mistake in the user's gradient")
            return iso.extend.GradientEstimate(-position, None, jnp.zeros(()))

    class Silent(iso.extend.Gradient):
        all_rows = False

        def __call__(self, position, batch, *, needs, key):
            if needs.contrasts:
                raise NotImplementedError
            return iso.extend.GradientEstimate(-position, None, jnp.zeros(()))

    posterior, data, init = normal_mean()
    options = by_hand(sampler=iso.SGNHT(0.1, 1.0))
    with pytest.raises(ValueError, match="a mistake in the user's gradient"):
        iso.sample(posterior, data, init, gradient=Broken(), **options, **LENGTH)
    draws = iso.sample(posterior, data, init, gradient=Silent(), **options, **LENGTH)
    assert draws.record.s is None
