"""Published multilevel models by isotherm, compared with the posteriors of brms and the estimates of lme4 and mgcv.

    python benchmarks/published/compare.py [NAME ...] [--json out/published/compare.json] [--seed 0]

The reference answers are in tests/published, where reference.R put them: brms had the priors that isotherm has. A
difference of means is given in its Monte Carlo error, that of both runs together, and in posterior standard
deviations. Times are of one process each: isotherm's has the compilation in it, that of brms is given apart.
"""

import argparse
import csv
import gzip
import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from arviz_stats.base import array_stats

import isotherm as iso
from isotherm.draws.elements import elements_of, labels_of

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "tests" / "published"
LARGE = ROOT / "out" / "published"  # what export.R makes and nobody keeps


@dataclass(frozen=True)
class Moments:
    """Mean and standard deviation of a parameter, each with its Monte Carlo error."""

    mean: float
    sd: float
    mcse_mean: float
    mcse_sd: float


@dataclass(frozen=True)
class Difference:
    """How far a parameter of isotherm is from the reference, and by how many Monte Carlo errors."""

    name: str
    in_errors: float
    in_sd: float
    sd_ratio: float
    sd_in_errors: float


def reference() -> dict[str, dict[str, Any]]:
    """Return the reference answers by the name of the model."""
    return json.loads((REFERENCE / "reference.json").read_text())


def columns_of(entry: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the columns of the data of a model: text for categories, also where their levels are digits."""
    name = entry["data"]
    for path in (REFERENCE / f"{name}.csv", REFERENCE / f"{name}.csv.gz", LARGE / f"{name}.csv"):
        if path.exists():
            break
    else:
        raise SystemExit(f"no data for {name}: Rscript benchmarks/published/export.R {name}")
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    header, *rows = csv.reader(text.decode().splitlines())
    texts = dict(zip(header, zip(*rows, strict=True), strict=True))
    return {
        name: np.asarray(column) if name in entry["categories"] else np.asarray(column, float)
        for name, column in texts.items()
    }


def name_in_reference(label: str) -> str:
    """Return the name in the reference of an element of isotherm: `r_g[a]: x` is `r_g[a,x]` there."""
    effect = re.fullmatch(r"(r_.*)\]: (.*)", label)
    if effect:
        return f"{effect[1]},{effect[2]}]"
    return "Intercept" if label == "intercept" else label.replace(", ", ",")


def moments_of(draws: iso.Draws) -> dict[str, Moments]:
    """Return the moments of every parameter that varies, by the names of the reference."""
    stats: Any = array_stats
    found = {}
    leaves = {**draws.flat(), **draws.derived}
    for leaf, names in labels_of(draws).items():
        for name, x in zip(names, elements_of(leaves[leaf]), strict=True):
            if np.ptp(x) == 0:  # the diagonal of a matrix of correlations
                continue
            x = x.astype(float)
            errors = [
                float(stats.mcse(x, chain_axis=0, draw_axis=1, method=method)) for method in ("mean", "sd")
            ]
            found[name_in_reference(name)] = Moments(float(x.mean()), float(x.std(ddof=1)), *errors)
    return found


def differences(
    expected: Mapping[str, Mapping[str, float]], found: Mapping[str, Moments]
) -> list[Difference]:
    """Return the difference of each parameter of the reference. Every one must be among those found."""
    missing = [name for name in expected if name not in found]
    if missing:
        raise SystemExit(f"no parameter {missing[:5]}; there are {list(found)[:20]}")
    return list(_differences(expected, found))


def _differences(
    expected: Mapping[str, Mapping[str, float]], found: Mapping[str, Moments]
) -> Iterator[Difference]:
    for name, other in expected.items():
        own = found[name]
        error = math.hypot(own.mcse_mean, other["mcse_mean"])
        sd_error = math.hypot(own.mcse_sd, other["mcse_sd"])
        yield Difference(
            name,
            in_errors=(own.mean - other["mean"]) / error,
            in_sd=(own.mean - other["mean"]) / other["sd"],
            sd_ratio=own.sd / other["sd"],
            sd_in_errors=(own.sd - other["sd"]) / sd_error,
        )


def run(entry: Mapping[str, Any], seed: int) -> tuple[iso.Draws, float]:
    """Return the draws of isotherm's default run, and the seconds it took with the compilation."""
    columns = columns_of(entry)
    started = time.perf_counter()
    made = iso.tables.regression(entry["formula"], columns, family=entry["family"], progress=False)
    draws = made.sample(seed=seed, progress=False)
    return draws, time.perf_counter() - started


def compared(name: str, entry: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return a row of the table."""
    draws, seconds = run(entry, seed)
    summary, found = draws.summary(), moments_of(draws)
    row: dict[str, Any] = {
        "model": name,
        "rows": entry["rows"],
        "isotherm s": seconds,
        "worst R-hat": max(x.r_hat for x in summary.rows),
        "least ess": min(x.ess_bulk for x in summary.rows),
        "verdict": summary.verdict,
    }
    if "brms" in entry:
        each = differences(entry["brms"], found)
        row |= {
            "parameters": len(each),
            "worst in errors": asdict(max(each, key=lambda x: abs(x.in_errors))),
            "worst in sd": asdict(max(each, key=lambda x: abs(x.in_sd))),
            "worst sd ratio": asdict(max(each, key=lambda x: abs(math.log(x.sd_ratio)))),
            "worst sd in errors": asdict(max(each, key=lambda x: abs(x.sd_in_errors))),
            "median sd ratio": float(np.median([x.sd_ratio for x in each])),
            "brms s": entry["seconds"]["brms"],
        }
    if "lme4" in entry:
        estimates = entry["lme4"]["parameters"]
        errors = {k: (found[k].mean - x["estimate"]) / x["se"] for k, x in estimates.items() if "se" in x}
        worst = max(errors, key=lambda k: abs(errors[k]))
        row |= {"lme4 s": entry["lme4"]["seconds"], "worst from lme4 in se": (worst, errors[worst])}
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as Markdown."""
    titles = ["model", "rows", "parameters", "mean, MC errors", "mean, sd", "sd ratio", "from lme4, se"]
    titles += ["R-hat", "least ess", "isotherm s", "brms s (compiling)", "lme4 s"]
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    for row in rows:
        cells = [row["model"], f"{row['rows']:,}", str(row.get("parameters", ""))]
        for column, field in (
            ("worst in errors", "in_errors"),
            ("worst in sd", "in_sd"),
            ("worst sd ratio", "sd_ratio"),
        ):
            worst = row.get(column)
            cells.append("" if worst is None else f"{worst[field]:.2f} `{worst['name']}`")
        far = row.get("worst from lme4 in se")
        cells.append("" if far is None else f"{far[1]:.2f} `{far[0]}`")
        cells += [f"{row['worst R-hat']:.3f}", f"{row['least ess']:,.0f}", f"{row['isotherm s']:.1f}"]
        brms, lme4 = row.get("brms s"), row.get("lme4 s")
        cells.append("" if brms is None else f"{brms['chains']:.1f} ({brms['compile']:.0f})")
        cells.append("" if lme4 is None else f"{lme4:.2f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run the command line."""
    entries = {name: entry for name, entry in reference().items() if "mgcv" not in entry}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(entries))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rows = []
    for name in arguments.names or entries:
        rows.append(compared(name, entries[name], arguments.seed))
        print(table(rows[-1:]).splitlines()[-1], flush=True)
        if arguments.json is not None:
            arguments.json.parent.mkdir(parents=True, exist_ok=True)
            arguments.json.write_text(json.dumps(rows, indent=1))
    print("\n" + table(rows))


if __name__ == "__main__":
    main()
