"""docs/planted-bugs.md: the mistakes and the tests that caught them."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from planted.bug import Bug

TEXT = """\
# Would the tests notice?

A sampler that is wrong still draws samples. To check that the tests would notice, {count} small mistakes of the kind
that real libraries have had are planted in a copy of isotherm, one at a time: a factor of 2 in the noise, a key used
twice, a prior scaled by N/n. Each is silent: the code runs and returns numbers. The fast tests, those of
`make check`, then run on the copy. {verdict}

To repeat this, run `make bugs` (about a quarter of an hour on two cores), or for a single mistake

```
cd tests && ../.venv/bin/python -m planted thermal-mass-ignored
```

`make bugs` rewrites this page and fails if a mistake goes unnoticed. The mistakes are in `tests/planted/`, and a test
checks that each still fits the code. The table names the first test that failed. Tests that should notice a mistake
run first, and all others after them. Keys that are used twice are found by JAX's key-reuse check, which the tests
turn on.

{tables}
"""

AREAS = {
    "Rows, gradient and its noise": ("data/", "sums/", "gradients/minibatch.py", "covariance/"),
    "The step": ("samplers/", "kernel.py"),
    "Coordinates, control variates, transforms": (
        "preconditioner.py",
        "gradients/control_variate.py",
        "transforms.py",
        "posterior.py",
    ),
    "Chains, tuning, draws and judging": (
        "tree.py",
        "keys.py",
        "chains/",
        "tuning/",
        "sampling/",
        "judging/",
        "draws/",
    ),
    "Files and stored runs": ("files.py", "storage.py", "store/", "cli/"),
    "Predictions, scores and models of other libraries": (
        "prediction/",
        "scores/",
        "interop/",
        "tables/",
        "models/",
    ),
    "Names, code of the user, and the end of a run": (
        "text.py",
        "terminal.py",
        "loading.py",
        "signals.py",
        "plots/",
        "reporting/",
        "cli/",
    ),
}


def write_page(root: Path, bugs: Iterable[Bug], caught_by: Mapping[str, str | None]) -> None:
    """Write docs/planted-bugs.md of the tree at `root`."""
    bugs, package = list(bugs), root / "src" / "isotherm"
    missed = sum(caught_by[bug.name] is None for bug in bugs)
    verdict = "All were caught." if not missed else f"{len(bugs) - missed} were caught and {missed} were not."
    files = {bug.name: str(bug.planted(package)[0].relative_to(package)) for bug in bugs}
    tables = []
    for area, places in AREAS.items():
        rows = [_row(bug, caught_by[bug.name]) for bug in bugs if files[bug.name].startswith(places)]
        tables.append(
            f"## {area}\n\n| planted | the mistake | caught by |\n|---|---|---|\n" + "\n".join(rows)
        )
    page = TEXT.format(count=len(bugs), verdict=verdict, tables="\n\n".join(tables))
    (root / "docs" / "planted-bugs.md").write_text(page)


def _row(bug: Bug, test: str | None) -> str:
    shown = "**not caught**" if test is None else f"`{test.removeprefix('tests/')}`"
    return f"| {bug.name} | {bug.mistake} | {shown} |"
