"""Part `memory`: memory of the compiled step of a network beyond SGNHT's, at two batch sizes."""

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
    """Return the rows whose name contains `only`, with SGNHT first."""
    rows = [m for m in METHODS if wanted("memory", m.name, only)]
    return [BASE, *(m for m in rows if m != BASE)] if rows else []


def memory_part(sizes: Sizes, only: str, say: Say) -> Part:
    """Return the part. Steps are compiled and their memory is read from the compiler; nothing is run."""
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
        "Temporaries and outputs of the compiled step, as reported by the compiler; the state is updated in place. "
        f"Memory beyond {BASE.name} is in 32-bit numbers per parameter and as a share of n d. The first stays "
        "constant as n grows if memory depends on the parameters alone, the second if there is one gradient per row."
    )
    header = (
        "",
        *(f"{what},\nn = {n}" for n in sizes.memory_batches for what in ("MB", "beyond / d", "of n d")),
    )
    return Part("memory", title, caption, header, lines(rows), rows)


def compiled(method: Method, problem: Problem) -> dict[str, Any]:
    """Return the bytes of temporaries and of outputs of one step."""
    kernel, key = kernel_of(method, problem), jax.random.key(0)
    state = jax.eval_shape(starter(kernel, None), problem.start, problem.data, key)
    step = jax.jit(loop(kernel, 1, None), donate_argnums=0)
    analysis = step.lower(state, problem.data, key).compile().memory_analysis()
    if analysis is None:
        platform = jax.devices()[0].platform
        raise RuntimeError(
            f"the compiler for {platform} does not report memory. Select other parts with `--only`."
        )
    temporary, output = analysis.temp_size_in_bytes, analysis.output_size_in_bytes
    return {"bytes": temporary + output, "temporaries": temporary, "outputs": output}


def beyond(total: int, base: int, parameters: int, batch: int) -> dict[str, float]:
    """Return the 32-bit numbers beyond those of SGNHT, per parameter, and per parameter and row."""
    per_parameter = (total - base) / 4 / parameters
    return {"per_parameter": per_parameter, "of_n_d": per_parameter / batch}


def lines(rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return a line per method, with its batch sizes side by side."""
    table: dict[str, list[str]] = {}
    for row in rows:
        more = row["beyond"]
        cells = [f"{row['bytes'] / 1e6:,.1f}", f"{more['per_parameter']:.2f}", f"{more['of_n_d']:.4f}"]
        table.setdefault(row["method"], []).extend(cells)
    return [(name, *cells) for name, cells in table.items()]
