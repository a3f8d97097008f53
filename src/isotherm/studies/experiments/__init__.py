"""The paper's experiments, each by a name.

An experiment is a module with `reproduce(out, *, quick, seed, console)`, which runs it, writes
`results.json`, `figures/` and `report.html` under `out` and returns the results, and `show(results,
console)`, which prints its table. One that has more options, takes them by keyword.
"""

from importlib import import_module
from types import ModuleType

EXPERIMENTS = {
    "gaussian": "isotherm.studies.experiments.gaussian.study",
    "logistic": "isotherm.studies.experiments.logistic.study",
    "drbm": "isotherm.studies.experiments.drbm.study",
}


def find(name: str) -> ModuleType:
    """The module of an experiment, imported only when it is wanted."""
    return import_module(EXPERIMENTS[name])
