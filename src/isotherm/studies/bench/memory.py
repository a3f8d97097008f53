"""Part `memory`: what the compiled step of a network takes beyond that of SGNHT, at two batch sizes."""

from typing import Any

import jax

from isotherm.studies.bench.methods import BASE, Method
from isotherm.studies.bench.part import Part, Say, wanted
from isotherm.studies.bench.problems import Problem, network
from isotherm.studies.bench.programs import kernel_of, loop, starter
from isotherm.studies.bench.sizes import Sizes

METHODS = (
    BASE,
    Method("CCAdL", "Diagonal"),
    Method("CCAdL", "DiagonalLowRank"),
    Method("CCAdL", "MatrixFree"),
    Method("CCAdL", "Diagonal exact"),
)


def chosen(only: str) -> list[Method]:
    """Rows whose name contains `only`, and SGNHT before them."""
    rows = [m for m in METHODS if wanted("memory", m.name, only)]
    return [BASE, *(m for m in rows if m != BASE)] if rows else []


def memory_part(sizes: Sizes, only: str, say: Say) -> Part:
    """Compile, ask the compiler, run nothing."""
    problems = [network(sizes.layers, sizes.network_rows, batch) for batch in sizes.memory_batches]
    d, rows = problems[0].dimension, []
    for method in chosen(only):
        for problem in problems:
            say(f"memory: {method.name}, n = {problem.batch_size}")
            row: dict[str, Any] = {"method": method.name, "batch_size": problem.batch_size}
            rows.append(row | compiled(method, problem))
    base = {row["batch_size"]: row["bytes"] for row in rows if row["method"] == BASE.name}
    for row in rows:
        row["name"] = f"{row['method']}, n = {row['batch_size']}"
        row["beyond"] = beyond(row["bytes"], base[row["batch_size"]], d, row["batch_size"])
    small, large = sizes.memory_batches
    title = f"memory of a step, {d:,} parameters, n = {small} and n = {large}"
    caption = (
        "Temporaries and outputs of the compiled step, which updates its state in place, as the compiler states "
        f"them. Beyond {BASE.name}, in 32-bit numbers per parameter and as a share of n d: memory that grows with "
        "the parameters keeps the first as n grows, one gradient per row keeps the second."
    )
    header = (
        "",
        *(f"{what},\nn = {n}" for n in sizes.memory_batches for what in ("MB", "beyond / d", "of n d")),
    )
    return Part("memory", title, caption, header, lines(rows), rows)


def compiled(method: Method, problem: Problem) -> dict[str, Any]:
    """Bytes of temporaries and of outputs of one step."""
    kernel, key = kernel_of(method, problem), jax.random.key(0)
    state = jax.eval_shape(starter(kernel, None), problem.start, problem.data, key)
    step = jax.jit(loop(kernel, 1, None), donate_argnums=0)
    found = step.lower(state, problem.data, key).compile().memory_analysis()
    if found is None:
        raise RuntimeError(f"the compiler of {jax.devices()[0].platform} does not say what memory it takes")
    temporary, output = found.temp_size_in_bytes, found.output_size_in_bytes
    return {"bytes": temporary + output, "temporaries": temporary, "outputs": output}


def beyond(total: int, base: int, parameters: int, batch: int) -> dict[str, float]:
    """Numbers of 32 bits beyond those of SGNHT, per parameter and per parameter and row."""
    per_parameter = (total - base) / 4 / parameters
    return {"per_parameter": per_parameter, "of_n_d": per_parameter / batch}


def lines(rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """A line a method, its batch sizes beside each other."""
    table: dict[str, list[str]] = {}
    for row in rows:
        more = row["beyond"]
        cells = [f"{row['bytes'] / 1e6:,.1f}", f"{more['per_parameter']:.2f}", f"{more['of_n_d']:.4f}"]
        table.setdefault(row["method"], []).extend(cells)
    return [(name, *cells) for name, cells in table.items()]
