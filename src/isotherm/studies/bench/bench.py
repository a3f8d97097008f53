"""`isotherm bench`: runs the benchmark and writes tables, `bench.json` and a figure."""

import json
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
from rich.console import Console

from isotherm import plots
from isotherm.studies.bench import chains, figure, memory, peers, steps
from isotherm.studies.bench.part import Part, Say
from isotherm.studies.bench.quality import Quality, measure_all
from isotherm.studies.bench.sizes import Sizes
from isotherm.terminal import Table, literal
from isotherm.versions import versions

PARTS = ("network", "logistic", "peers", "memory", "chains")


def bench(
    out: Path, sizes: Sizes, *, console: Console, only: str = "", quiet: bool = False
) -> dict[str, Any]:
    """Return the results, and write `bench.json` and `figures/bench.png` to `out`.

    Prints a table per part unless `quiet`.
    """
    began = time.perf_counter()
    planned = plan(sizes, only)
    with console.status("starting") as status:
        say = lambda what: status.update(literal(what))
        quality = _quality(planned, sizes, only, say)
        parts = []
        for name in planned:
            parts.append(_run(name, sizes, quality, only, say))
            if not quiet:
                show(parts[-1], console)
    results = to_json(parts, sizes, round(time.perf_counter() - began))
    (out / "bench.json").write_text(json.dumps(results, indent=1) + "\n")
    drawing = _draw(parts, out)
    if not quiet:
        console.print(literal(drawing))
    return results


def plan(sizes: Sizes, only: str) -> list[str]:
    """Return the parts that have a row whose name contains `only`. The part `chains` needs a GPU."""
    rows = {
        "network": [*steps.methods("network", sizes, only), *steps.methods("exact", sizes, only)],
        "logistic": steps.methods("logistic", sizes, only),
        "peers": peers.names(sizes, only),
        "memory": memory.chosen(only),
        "chains": chains.names(sizes, only) if jax.devices()[0].platform == "gpu" else [],
    }
    return [name for name in PARTS if rows[name]]


def _quality(planned: Sequence[str], sizes: Sizes, only: str, say: Say) -> dict[str, list[Quality]]:
    groups = [*(["network", "exact"] if "network" in planned else []), "logistic"]
    methods = [m for group in groups for m in steps.methods(group, sizes, only)]
    say("quality: compiling")
    return measure_all(methods, chains=sizes.chains, done=lambda name: say(f"quality: {name}"))


def _run(name: str, sizes: Sizes, quality: dict[str, list[Quality]], only: str, say: Say) -> Part:
    match name:
        case "network":
            return steps.network_part(sizes, quality, only, say)
        case "logistic":
            return steps.logistic_part(sizes, quality, only, say)
        case "peers":
            return peers.peers_part(sizes, only, say)
        case "memory":
            return memory.memory_part(sizes, only, say)
        case _:
            return chains.chains_part(sizes, only, say)


def show(part: Part, console: Console) -> None:
    """Print the table of a part, its caption and its notes."""
    table = Table(title=part.title, title_justify="left", box=None, header_style="bold", padding=(0, 1, 0, 0))
    for i, name in enumerate(part.header):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=True)
    for line in part.lines:
        table.add_row(*line)
    console.print(table)
    console.print(literal(part.caption, "dim"))
    for note in part.notes:
        console.print(literal(note))
    console.print()


def to_json(parts: Sequence[Part], sizes: Sizes, seconds: int) -> dict[str, Any]:
    """Return the results as plain numbers and text."""
    device = jax.devices()[0]
    return {
        "parts": {part.name: part.to_json() for part in parts},
        "settings": {
            "rounds": sizes.rounds,
            "seconds_per_round": sizes.seconds,
            "quality_chains": sizes.chains,
        },
        "seconds": seconds,
        "device": {"platform": device.platform, "kind": device.device_kind, "count": jax.device_count()},
        "versions": versions() | {name: _version(name) for name in ("blackjax", "posteriors", "torch")},
    }


def _draw(parts: Sequence[Part], out: Path) -> str:
    try:
        plots.require_matplotlib()
    except ImportError as error:
        return f"No figure was drawn. {error}"
    drawn = figure.draw(parts)
    if drawn is None:
        return "No figure was drawn: no step was timed."
    return f"figure   {plots.save(drawn, out / 'figures' / 'bench.png')}"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"
