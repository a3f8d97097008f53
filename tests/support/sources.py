"""The same rows from every kind of source, for the conformance suite: name -> function of a folder."""

import fsspec
import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr

import isotherm as iso

N = 2503  # a prime, so that no block length divides it


def rows():
    """Return arrays whose values are exact in every dtype: x = i (1, 2, 3) / 8, y = i mod 7, flag = 3 divides i."""
    i = np.arange(N)
    x = (i[:, None] * np.array([1, 2, 3]) / 8).astype(np.float32)
    return {"x": x, "y": (i % 7).astype(np.int32), "flag": i % 3 == 0}


def row(i):
    """Return row i of them, as a function for `iso.data.generated`."""
    return {"x": i * jnp.arange(1, 4) / 8, "y": i % 7, "flag": i % 3 == 0}


class Minimal(iso.data.Source):
    """What a user has to write, and no more."""

    num_rows = N
    row = {"x": jax.ShapeDtypeStruct((3,), np.float32), "y": jax.ShapeDtypeStruct((), np.int32)} | {
        "flag": jax.ShapeDtypeStruct((), np.bool_)
    }

    def blocks(self, length, begin=0, end=None):
        end = N if end is None else end
        for i in range(begin, end, length):
            yield jax.tree.map(lambda x, i=i: x[i : min(i + length, end)], rows())


def table(arrays):
    """Return a table with x in three columns, a, b and c."""
    x, y, flag = arrays["x"], arrays["y"], arrays["flag"]
    return pa.table({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": y, "flag": flag})


COLUMNS = {"x": ["a", "b", "c"], "y": "y", "flag": "flag"}


def _memory_map(folder):
    np.save(folder / "x.npy", rows()["x"])
    return iso.data.arrays(rows() | {"x": np.load(folder / "x.npy", mmap_mode="r")})


def _big_endian(folder):
    return iso.data.arrays({name: x.astype(x.dtype.newbyteorder(">")) for name, x in rows().items()})


def _npy(folder):
    for name, x in rows().items():
        np.save(folder / f"{name}.npy", x.astype(x.dtype.newbyteorder(">")))
    return iso.data.npy({name: folder / f"{name}.npy" for name in rows()})


def _npy_structured(folder):
    records = np.empty(N, [("x", "f4", (3,)), ("y", "i4"), ("flag", "?")])
    for name, x in rows().items():
        records[name] = x
    np.save(folder / "rows.npy", records)
    return iso.data.npy(str(folder / "rows.npy"))


def _parquet(folder):
    pq.write_table(table(rows()), folder / "rows.parquet", row_group_size=97)
    return iso.data.parquet(folder / "rows.parquet", columns=COLUMNS)


def _parquet_folder(folder):
    """Write files of different lengths, one of them without rows, and a file that is not data."""
    (folder / "part").mkdir()
    for i, (begin, end) in enumerate([(0, 1), (1, 1200), (1200, 1200), (1200, N)]):
        name = folder / "part" / f"{i}.parquet"
        pq.write_table(table(rows()).slice(begin, end - begin), name, row_group_size=500)
    (folder / "part" / "_SUCCESS").write_text("")
    return iso.data.parquet(str(folder / "part"), columns=COLUMNS)


def _parquet_store(folder):
    store = fsspec.filesystem("memory")
    for i, (begin, end) in enumerate([(0, 900), (900, N)]):
        with store.open(f"/{folder.name}/{i}.parquet", "wb") as file:
            pq.write_table(table(rows()).slice(begin, end - begin), file)
    paths = [f"/{folder.name}/{i}.parquet" for i in range(2)]
    return iso.data.parquet(paths, columns=COLUMNS, filesystem=store)


def _zarr_group(folder):
    group = zarr.open_group(folder / "rows.zarr", mode="w")
    for chunk, (name, x) in zip((100, 64, 3000), rows().items(), strict=True):
        group.create_array(name, data=x, chunks=(chunk, *x.shape[1:]))
    return iso.data.zarr(str(folder / "rows.zarr"))


def _zarr_pytree(folder):
    def stored(name, x):
        return zarr.create_array(folder / name, data=x.astype(x.dtype.newbyteorder(">")), shards=(256, 3)[: x.ndim],
                                 chunks=(64, 1)[: x.ndim])  # fmt: skip

    arrays = {name: stored(name, x) for name, x in rows().items()}
    return iso.data.zarr(arrays | {"y": folder / "y"})


SOURCES = {
    "arrays of NumPy": lambda folder: iso.data.arrays(rows()),
    "arrays of JAX": lambda folder: iso.data.arrays(jax.tree.map(jnp.asarray, rows())),
    "arrays, one a memory map": _memory_map,
    "arrays, big-endian": _big_endian,
    "npy": _npy,
    "npy, structured": _npy_structured,
    "parquet": _parquet,
    "parquet, a folder": _parquet_folder,
    "parquet, a store": _parquet_store,
    "zarr, a group": _zarr_group,
    "zarr, a pytree": _zarr_pytree,
    "generated": lambda folder: iso.data.generated(row, N),
    "three methods": lambda folder: Minimal(),
}
