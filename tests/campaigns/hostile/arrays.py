"""The same small whole numbers as arrays of every kind, and things that are no array of numbers."""

import array
import decimal
import fractions
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse
import xarray
from jax.experimental.sparse import BCOO

from .lookalikes import LOOKALIKES


class Leaf(NamedTuple):
    """An array-like, and the numbers that it holds as float32; `None` if it must be refused."""

    label: str
    value: Any
    numbers: np.ndarray | None


_DTYPES = [
    *[
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
        "longdouble",
    ],
    *["complex64", "complex128", "clongdouble"],
    *(
        getattr(ml_dtypes, name)
        for name in dir(ml_dtypes)
        if name.startswith(("bfloat", "float8", "int4", "uint4"))
    ),
]


def _typed(x: np.ndarray, rng: np.random.Generator) -> tuple[str, np.ndarray]:
    dtype = np.dtype(_DTYPES[rng.integers(len(_DTYPES))])
    order = str(rng.choice(["=", "<", ">"])) if dtype.kind in "iufc" else "="
    return f"{dtype.name} {order}", x.astype(dtype.newbyteorder(order))


def _read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


def _unaligned(x: np.ndarray) -> np.ndarray:
    padded = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:]
    return padded.view(np.uint8).view(x.dtype).reshape(x.shape) if x.size else x


_LAYOUTS: dict[str, Callable[[np.ndarray], Any]] = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "every second": lambda x: np.repeat(x, 2, axis=0)[::2],
    "backwards": lambda x: x[::-1].copy()[::-1],
    "read-only": _read_only,
    "unaligned": _unaligned,
    "a column of zeros dropped": lambda x: np.concatenate([x, x[..., :1]], axis=-1)[..., : x.shape[-1]],
    "masked without a mask": np.ma.array,
    "masked with nothing masked": lambda x: np.ma.array(x, mask=np.zeros(x.shape, bool)),
    "subclass": lambda x: x.view(type("Own", (np.ndarray,), {})),
    "xarray": xarray.DataArray,
}

# Other objects that hold the numbers. Each is right, or refused.
_HOLDERS: dict[str, Callable[[np.ndarray], Any]] = {
    "jax": jnp.asarray,
    "jax float64": lambda x: jnp.asarray(x, float),
    "frame": pd.DataFrame,
    "frame of integers": lambda x: pd.DataFrame(x.astype(int)),
    "frame with names": lambda x: pd.DataFrame(x, columns=[f"c{i}" for i in range(x.shape[-1])] if x.ndim > 1 else ["c"]),
    "frame of mixed numbers": lambda x: pd.DataFrame({i: x[:, i].astype([int, float][i % 2]) for i in range(x.shape[1])}),
    "frame of nullable numbers": lambda x: pd.DataFrame(x).astype("Float64"),
    "frame of nullable integers": lambda x: pd.DataFrame(x).astype("Int64"),
    "frame of categories": lambda x: pd.DataFrame(x).astype("category"),
    "frame of Arrow": lambda x: pd.DataFrame(x).astype("float32[pyarrow]"),
    "frame with two levels": lambda x: pd.DataFrame(x, columns=pd.MultiIndex.from_product([["a"], range(x.shape[1])])),
    "frame of objects": lambda x: pd.DataFrame(x.astype(object)),
    "frame with an index": lambda x: pd.DataFrame(x, index=[f"row {i}" for i in range(len(x))]),
    "series": lambda x: pd.Series(x[:, 0]),
    "index": lambda x: pd.Index(x[:, 0]),
    "Arrow table": lambda x: pa.table({f"c{i}": x[:, i] for i in range(x.shape[1])}),
    "Arrow batch": lambda x: pa.record_batch({f"c{i}": x[:, i] for i in range(x.shape[1])}),
    "Arrow array": lambda x: pa.array(x[:, 0]),
    "Arrow chunks": lambda x: pa.chunked_array([x[:4, 0], x[4:, 0]]),
    "list of lists": lambda x: x.tolist(),
    "list of arrays": list,
    "tuple of tuples": lambda x: tuple(map(tuple, x.tolist())),
    "objects": lambda x: x.astype(object),
    "Decimals": lambda x: np.vectorize(decimal.Decimal, otypes=[object])(x.astype(float)),
    "Fractions": lambda x: np.vectorize(fractions.Fraction, otypes=[object])(x.astype(float)),
    "text": lambda x: x.astype(str),
    "text of variable length": lambda x: x.astype(np.dtypes.StringDType()),
    "buffer": lambda x: array.array("d", x[:, 0].tolist()),
    "memory": lambda x: memoryview(np.ascontiguousarray(x[:, 0])),
    "matrix": np.matrix,
    "structured": lambda x: np.rec.fromarrays(x.T, names="a,b"),
    "sparse": scipy.sparse.csr_array,
    "sparse matrix": scipy.sparse.coo_matrix,
    "sparse of keys": scipy.sparse.dok_array,
    "sparse of JAX": lambda x: BCOO.fromdense(x),
    "iterator": lambda x: iter(x),
    "generator": lambda x: (row for row in x),
    "map": lambda x: map(np.asarray, x),
    "dataset": lambda x: xarray.Dataset({"x": ("row", x[:, 0])}),
    **LOOKALIKES,
}  # fmt: skip


def _deleted(x: np.ndarray) -> Any:
    made = jnp.asarray(x) + 1
    made.delete()
    return made


def _with(x: np.ndarray, value: Any) -> np.ndarray:
    x = x.astype(np.float64)
    x[len(x) // 2] = value
    return x


_NO_NUMBERS: dict[str, Callable[[np.ndarray], Any]] = {
    "nan": lambda x: _with(x, np.nan),
    "inf": lambda x: _with(x, np.inf),
    "too large for 32 bits": lambda x: _with(x, 1e300),
    "too large for 64 bits": lambda x: np.full(x.shape, np.longdouble("1e4000")),
    "large integers": lambda x: np.full(x.shape, 2**40),
    "huge integers": lambda x: np.full(x.shape, 10**30, object),
    "masked": lambda x: np.ma.array(x, mask=np.arange(x.size).reshape(x.shape) == 1),
    "no rows": lambda x: x[:0],
    "no columns": lambda x: np.zeros((len(x), 0), np.float32),
    "no columns of JAX": lambda x: jnp.zeros((len(x), 0, 3)),
    "no axis": lambda x: np.float32(3.0),
    "number": lambda x: 3.0,
    "2^31 rows": lambda x: np.broadcast_to(np.float32(1.0), (2**31, 2)),
    "2^40 rows": lambda x: np.broadcast_to(np.int8(1), (2**40, 1)),
    "keys": lambda x: jax.random.split(jax.random.key(0), len(x)),
    "one key": lambda x: jax.random.key(0),
    "dates": lambda x: x.astype("datetime64[D]"),
    "spans of time": lambda x: x.astype("timedelta64[s]"),
    "frame of dates": lambda x: pd.DataFrame({"t": pd.date_range("2026-01-01", periods=len(x))}),
    "frame of text": lambda x: pd.DataFrame({"t": ["a"] * len(x), "x": x[:, 0]}),
    "frame with missing": lambda x: pd.DataFrame(x).astype("Int64").mask(x > 1),
    "frame without columns": lambda x: pd.DataFrame(index=range(len(x))),
    "Arrow with nulls": lambda x: pa.table({"x": pa.array([None, *x[1:, 0].tolist()])}),
    "Arrow of text": lambda x: pa.table({"x": pa.array([str(v) for v in x[:, 0]])}),
    "Arrow of lists": lambda x: pa.table({"x": pa.array(x.tolist())}).column("x"),
    "ragged": lambda x: [[1.0], [1.0, 2.0]] * (len(x) // 2),
    "ragged objects": lambda x: np.array([np.ones(i % 2 + 1) for i in range(len(x))], object),
    "raw bytes": lambda x: np.zeros(len(x), "V4"),
    "deleted": _deleted,
    "None": lambda x: None,
    "path": lambda x: "rows.npy",
    "bytes": lambda x: b"1.0 2.0",
    "set": lambda x: {1.0, 2.0},
    "function": lambda x: np.sum,
    "class": lambda x: np.ndarray,
    "module": lambda x: np,
    "Ellipsis": lambda x: ...,
    "complex with imaginary part": lambda x: x * 1j + 1,
    "shape only": lambda x: jax.ShapeDtypeStruct(x.shape, np.float32),
    "keys of two types": lambda x: {"a": x, 1: x},
    "contains itself": lambda x: _endless(),
}  # fmt: skip


_STARTS = {"no rows", "no columns", "no columns of JAX", "no axis", "number"}  # which a start may be


def _endless() -> list[Any]:
    endless: list[Any] = []
    endless.append(endless)
    return endless


def leaf(
    rng: np.random.Generator, rows: int, *, flat: bool = False, start: bool = False, typed: bool = True
) -> Leaf:
    """Return numbers, from 0 to 3, in a shape of `rows` rows, or something that stands for no numbers.

    `start` says that they are parameters rather than rows, and `typed` whether they may be an array of any dtype.
    """
    numbers = rng.integers(4, size=(rows, 2)).astype(np.float32)
    if rng.random() < 0.3:
        name = str(rng.choice([name for name in _NO_NUMBERS if not start or name not in _STARTS]))
        return Leaf(name, _NO_NUMBERS[name](numbers), None)
    if not typed or rng.random() < 0.4:
        name = str(rng.choice(list(_HOLDERS)))
        value = _HOLDERS[name](numbers)
        one = name in {"series", "index", "Arrow array", "Arrow chunks", "buffer", "memory", "dataset"}
        return Leaf(name, value, numbers[:, 0] if one else numbers)
    if flat:
        numbers = numbers[:, 0]
    dtype, x = _typed(np.minimum(numbers, 1), rng)
    layout = str(rng.choice(list(_LAYOUTS)))
    return Leaf(f"{dtype}, {layout}", _LAYOUTS[layout](x), np.minimum(numbers, 1))
