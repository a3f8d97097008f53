"""docs/mutants.md: how many mutants are caught, and why the others are not."""

from collections.abc import Iterable
from pathlib import Path

from mutants.judge import SURVIVED, UNFINISHED, Outcome
from mutants.reasons import EQUIVALENT
from mutants.results import table

TEXT = """\
# Would the tests notice any mistake?

{all}

In the code that every step runs through, `samplers/`, `gradients/`, `covariance/` and `kernel.py`: {strict}

The [planted mistakes](planted-bugs.md) were chosen by people. These are drawn at random, so that nobody's idea of
what can go wrong decides what is looked at: an operator is swapped, a term of a sum dropped, a comparison shifted, a
constant changed, a condition forced, a keyword left out. `studies/`, `cli/`, `plots/` and `reporting/` are left out,
as are messages and types. Each folder has its share of the places that can be changed.

To repeat this (`--list` only prints the mutants, `--only samplers` draws from one folder):

```
cd tests && ../.venv/bin/python -m mutants --count {drawn} --seed {seed} --out mutants.json --resume --page
```

The tests that run a line are measured first. Then each mutant is put into a copy of the library, and the tests that
run its line are run until one fails: fast before slow, near and quick files first.

{table}

## Mutants that survived

{survivors}
"""
STRICT = ("samplers/", "gradients/", "covariance/", "kernel.py")


def write_page(root: Path, outcomes: Iterable[Outcome], *, seed: int) -> None:
    """Write docs/mutants.md of the tree at `root`."""
    outcomes = list(outcomes)
    survived = [outcome for outcome in outcomes if outcome.outcome == SURVIVED]
    rows = [
        f"| `{outcome.name.replace('|', chr(92) + '|')}` | {EQUIVALENT.get(outcome.name, '**no reason**')} |"
        for outcome in sorted(survived, key=lambda outcome: outcome.name)
    ]
    text = TEXT.format(
        all="O" + _counted(outcomes)[1:],
        strict=_counted([outcome for outcome in outcomes if outcome.name.startswith(STRICT)]),
        drawn=len(outcomes),
        seed=seed,
        table=table(outcomes, EQUIVALENT),
        survivors="\n".join(["| mutant | why it survives |", "|---|---|", *rows]) if rows else "None.",
    )
    (root / "docs" / "mutants.md").write_text(text)


def _counted(outcomes: list[Outcome]) -> str:
    caught = sum(outcome.caught for outcome in outcomes)
    left = sum(outcome.outcome == UNFINISHED for outcome in outcomes)
    not_yet = f"; {left} have not been tried with all tests yet" if left else ""
    return f"of {len(outcomes)} mistakes drawn at random, `make test` catches {caught}{not_yet}."
