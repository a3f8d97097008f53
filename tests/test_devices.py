"""Several devices in one process: the same answers as one, and the same bits at equal chains per device."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm import devices
from support.several import ROWS, SIZE, posterior, rows, start


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What a process with four devices computes."""
    folder = tmp_path_factory.mktemp("devices")
    program = ["-m", "support.several", "on_devices", str(folder / "found.npz")]
    child = start(program, log=folder / "log", JAX_NUM_CPU_DEVICES="4")
    assert child.wait() == 0, (folder / "log").read_text()
    return dict(np.load(folder / "found.npz"))


@pytest.mark.slow
def test_a_pass_sees_each_row_once_however_many_devices(found):
    """3 and 4 devices do not divide 20,011 rows. Sums of 20,011 terms in float32 blocks: 1e-5 relative to sum |x|."""
    data = rows()
    exact = [
        np.sum(data["x"][:, 0] * data["y"], dtype=np.float64),
        np.sum(data["x"][:, 1] ** 2, dtype=np.float64),
    ]
    scale = 1e-5 * np.sum(np.abs(data["x"][:, 0]), dtype=np.float64)
    for whole, part, streamed, squares, last in found["spread"]:
        assert abs(whole - exact[0]) < scale
        assert abs(streamed - exact[0]) < scale
        assert abs(squares - exact[1]) < 1e-5 * exact[1]
        assert last == pytest.approx(float(data["x"][ROWS - 1, 1]) ** 2, rel=1e-6)
        assert abs(part - found["spread"][0][1]) < scale
    assert len(set(found["spread"][:, 2])) > 1  # other devices round differently: the pass was indeed split


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["arrays", "source"])
def test_a_warm_up_on_four_devices_is_that_on_one_to_rounding(found, kind):
    """Sums over rows are in float64 and rounded to float32 at the end."""
    np.testing.assert_allclose(found[f"{kind}4.center"], found[f"{kind}1.center"], rtol=2e-6)
    np.testing.assert_allclose(found[f"{kind}4.factor"], found[f"{kind}1.factor"], rtol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["arrays", "source"])
def test_chains_have_the_same_bits_at_equal_chains_per_device(found, kind):
    """Two on each: 2 on one device, 3 on two (and a ghost), 8 on four."""
    eight = found[f"{kind}.8on4"]
    assert np.array_equal(found[f"{kind}.2on1"], eight[:2])
    assert np.array_equal(found[f"{kind}.3on2"], eight[:3])
    assert len(np.unique(eight[:, -1, 0])) == 8  # no two chains are the same


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["arrays", "source"])
def test_four_devices_sample_the_posterior(found, kind):
    """Against mode and Hessian in float64. 8,000 draws: a mean is within 5 standard errors of 0.03 sd (an effective
    size of 1,100 at least), and 0.1 sd from the mode since the posterior is skewed; an sd is within 10 %."""
    data = {name: x.astype(np.float64) for name, x in rows().items()}
    theta = np.zeros(SIZE)
    for _ in range(20):
        p = 1 / (1 + np.exp(-data["x"] @ theta))
        hessian = (data["x"] * (p * (1 - p))[:, None]).T @ data["x"] + np.eye(SIZE)
        theta = theta + np.linalg.solve(hessian, data["x"].T @ (data["y"] - p) - theta)
    sd = np.sqrt(np.diag(np.linalg.inv(hessian)))
    draws = found[f"{kind}.all"].reshape(-1, SIZE)
    assert np.all(np.abs(draws.mean(axis=0) - theta) < (0.15 + 0.1) * sd)
    assert np.all(np.abs(draws.std(axis=0) / sd - 1) < 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "full", "moving", "sweep"])
def test_settings_by_hand_give_the_chains_of_one_device(found, kind):
    """Two chains on a device and eight on one: the same random numbers, other rounding of sums over rows."""
    one, four = found[f"{kind}1"], found[f"{kind}4"]
    np.testing.assert_allclose(four, one, atol=2e-5)
    assert one.std() > 1e-3


def test_devices_that_this_process_does_not_have_are_refused():
    few = {name: x[:50] for name, x in rows(50).items()}
    for bad in (0, len(jax.local_devices()) + 1, [], [jax.local_devices()[0]] * 2):
        with pytest.raises(ValueError, match=r"`devices` must be .*got"):
            iso.warmup(posterior(), few, np.zeros(SIZE, np.float32), devices=bad)


def test_a_device_has_two_chains_or_more_unless_there_is_only_one(monkeypatch):
    monkeypatch.setattr(devices, "current", lambda: (jax.local_devices()[0],) * 4)
    shared = {lanes: devices.for_lanes(lanes) for lanes in (1, 2, 3, 4, 5, 8, 9)}
    assert {lanes: (len(chosen), each) for lanes, (chosen, each) in shared.items()} == {
        1: (1, 1),
        2: (1, 2),
        3: (2, 2),
        4: (2, 2),
        5: (3, 2),
        8: (4, 2),
        9: (4, 3),
    }


def test_groups_of_chains_are_put_together_in_order():
    doubled = devices.in_groups(lambda x: 2 * x, 3, jnp.arange(8.0))
    assert np.array_equal(doubled, 2 * np.arange(8.0))
