"""How fast are rows used that do not fit into memory, and how much memory does that take?

    python benchmarks/out_of_core.py [--gigabytes 1] [--only npy parquet] [--folder DIR] [--out DIR]

Writes a table of 50 columns and a target of two classes as `.npy` and as Parquet, and measures, each in a process of
its own: reading the file and nothing else; a pass that computes value and gradient of a logistic regression, on the
columns as they are and on the columns as a regression standardises them; and the whole of `isotherm sample`. Memory
is the peak of RssAnon, in which mapped pages of the file do not count. Reading is measured cold, after the file was
dropped from the page cache, and cached. Ratios are to cached reading. Linux only.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

COLUMNS, CHUNK = 50, 2**18
NAMES = [f"x{i:02d}" for i in range(COLUMNS)]
DTYPE = np.dtype([("x", "f4", (COLUMNS,)), ("y", "f4")])
SPEC = 'model = "logistic"\n[data]\npath = {path}\ntarget = "y"\n'
STAGES = ("read, cold", "read, cached", "pass", "pass, standardised", "isotherm sample")


def chunks(rows: int):
    """Yield the rows of the table: correlated columns far from zero, and classes that depend on them."""
    rng = np.random.default_rng(0)
    slopes, mean = rng.normal(size=COLUMNS) / COLUMNS**0.5, rng.normal(3, 2, COLUMNS).astype(np.float32)
    for begin in range(0, rows, CHUNK):
        count = min(CHUNK, rows - begin)
        x = rng.standard_normal((count, COLUMNS), np.float32)
        x[:, 1:] += 0.5 * x[:, :-1]
        y = rng.random(count) < 1 / (1 + np.exp(-(x @ slopes)))
        yield x + mean, y.astype(np.float32)


def write_npy(path: Path, rows: int) -> None:
    """Write the table as records of x and y."""
    with open(path, "wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(DTYPE), "fortran_order": False, "shape": (rows,)}
        np.lib.format.write_array_header_1_0(file, header)
        for x, y in chunks(rows):
            records = np.empty(len(x), DTYPE)
            records["x"], records["y"] = x, y
            file.write(records.tobytes())


def write_parquet(path: Path, rows: int) -> None:
    """Write the table in row groups of a chunk, without compression or dictionaries: the numbers are random."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.float32()) for name in (*NAMES, "y")])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for x, y in chunks(rows):
            columns = [np.ascontiguousarray(column) for column in x.T]
            writer.write_table(pa.Table.from_arrays([*columns, y], schema=schema))


def source_of(path: Path):
    """Return the columns as they are."""
    import isotherm as iso

    if path.suffix == ".npy":
        return iso.data.npy(path)
    return iso.data.parquet(path, columns={"x": NAMES, "y": "y"})


def read(path: Path) -> float:
    """Read all rows, and do nothing with them."""
    began = time.perf_counter()
    if path.suffix == ".npy":
        buffer = bytearray(2**24)
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    else:
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                file.read_row_group(group)
    return time.perf_counter() - began


def one_pass(path: Path, *, standardised: bool) -> float:
    """Compute value and gradient over all rows: seconds of the second time, which compiles nothing."""
    from isotherm.data.opening import opened
    from isotherm.sums.totals import derivatives
    from isotherm.tables.regressions import regression

    made = regression("logistic", path, "y", progress=False)
    stream = opened(made.data if standardised else source_of(path)).stream()
    for _ in range(2):
        began = time.perf_counter()
        derivatives(made.posterior, stream, made.init)
        seconds = time.perf_counter() - began
    return seconds


def sample(path: Path) -> float:
    """Run the command: seconds from beginning to end, without the import of the library."""
    from isotherm.cli import main as command

    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder, "spec.toml")
        spec.write_text(SPEC.format(path=json.dumps(str(path.resolve()))))
        began = time.perf_counter()
        code = command(["sample", str(spec), "--out", str(Path(folder, "run")), "--yes"])
        if code not in (0, 1):
            raise SystemExit(code)
    return time.perf_counter() - began


def run_stage(stage: str, path: Path) -> float:
    """Return the seconds of one stage."""
    if stage.startswith("read"):
        return read(path)
    if stage.startswith("pass"):
        return one_pass(path, standardised=stage.endswith("standardised"))
    return sample(path)


def drop_from_cache(path: Path) -> None:
    """Remove a file from the page cache, as far as the system allows."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measured(stage: str, path: Path) -> dict[str, float]:
    """Run a stage in a new process; return its seconds and its peak of anonymous memory in bytes."""
    if stage.endswith("cold"):
        drop_from_cache(path)
    command = [sys.executable, __file__, "--stage", stage, str(path)]
    with tempfile.TemporaryFile("w+") as output:
        process, peak = subprocess.Popen(command, stdout=output), 0
        while process.poll() is None:
            peak = max(peak, anonymous_bytes(process.pid))
            time.sleep(0.02)
        output.seek(0)
        lines = output.read().splitlines()
    if process.returncode:
        raise SystemExit(f"{stage} of {path} failed")
    return {"seconds": float(lines[-1]), "anonymous bytes": peak}


def anonymous_bytes(pid: int) -> int:
    """Return the anonymous memory of a process; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon")), 0)


def main() -> None:
    """Write the tables, measure, print a table of ratios and write `out_of_core.json`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0, help="size of the table (default: 1)")
    parser.add_argument("--only", nargs="+", choices=("npy", "parquet"), default=["npy", "parquet"])
    parser.add_argument(
        "--folder", type=Path, help="where the tables are written (default: a temporary folder)"
    )
    parser.add_argument("--out", type=Path, default=Path("out/out_of_core"))
    parser.add_argument("--stage", nargs=2, metavar=("STAGE", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage is not None:
        stage, path = options.stage
        print(run_stage(stage, Path(path)))
        return
    rows = int(options.gigabytes * 1e9) // DTYPE.itemsize
    results = {"rows": rows, "bytes": rows * DTYPE.itemsize, "cores": os.cpu_count()}
    print(f"{rows:,} rows, {results['bytes'] / 1e9:.3g} GB, {results['cores']} cores")
    print(f"{'':8} {'':20} {'seconds':>8} {'MB/s':>8} {'x reading':>10} {'anonymous MB':>13}")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for kind in options.only:
            path = Path(folder, f"table.{kind}")
            (write_npy if kind == "npy" else write_parquet)(path, rows)
            results[kind] = {}
            for stage in STAGES:
                found = results[kind][stage] = measured(stage, path)
                cached = results[kind].get("read, cached")
                ratio = "" if cached is None else f"{found['seconds'] / cached['seconds']:.2f}"
                speed = path.stat().st_size / found["seconds"] / 1e6
                memory = found["anonymous bytes"] / 1e6
                print(
                    f"{kind:8} {stage:20} {found['seconds']:8.2f} {speed:8.0f} {ratio:>10} {memory:13.0f}",
                    flush=True,
                )
            path.unlink()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "out_of_core.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
