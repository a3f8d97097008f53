"""Numbers of users as arrays that JAX can hold."""

import fractions

import jax
import ml_dtypes
import numpy as np
import pytest

from isotherm.numeric import numeric, real_scalar

NUMBERS = np.array([[1.0, -2.5], [3.0, 0.25]])


@pytest.mark.parametrize(
    "dtype", [">f2", ">f4", ">f8", ">i2", ">i8", ">u4", ">c8", "g", ">g", "G", "<f4", "?"]
)
def test_byte_orders_and_widths_keep_their_numbers(dtype):
    x = NUMBERS.astype(dtype) if np.dtype(dtype).kind != "u" else np.abs(NUMBERS).astype(dtype)
    got = numeric(x)
    assert got.dtype.isnative
    assert got.dtype.itemsize <= 16
    assert jax.device_put(got).shape == x.shape
    np.testing.assert_array_equal(got, x)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4])
def test_dtypes_of_machine_learning_are_numbers(dtype):
    assert numeric(np.ones(3, dtype)).dtype == dtype


@pytest.mark.parametrize(
    "value",
    [
        "1.0",
        b"1.0",
        None,
        object(),
        np.array(["a"]),
        np.array([None]),
        np.zeros(2, [("a", "f4")]),
        np.zeros(2, "V4"),
        np.datetime64("2026-01-01"),
        np.ma.masked,
        10**400,
        [[1.0], [1.0, 2.0]],
    ],
)
def test_other_things_are_not(value):
    assert numeric(value) is None


def test_keys_are_not_numbers():
    assert numeric(jax.random.key(0)) is None


def test_integers_of_any_size_and_fractions_are_numbers():
    assert float(real_scalar(10**30)) == 1e30
    assert float(real_scalar(fractions.Fraction(1, 4))) == 0.25
    for value in (True, 1j, np.ones(1)):
        assert real_scalar(value) is None
