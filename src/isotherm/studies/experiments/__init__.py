"""The paper's experiments, by name.

An experiment is a module with two functions. `reproduce(out, *, quick, seed, console)` runs it, writes
`results.json`, `figures/` and `report.html` under `out`, and returns the results. `show(results, console)`
prints its table. Options that only one experiment has are further keyword arguments of its `reproduce`.
"""

from importlib import import_module
from types import ModuleType

EXPERIMENTS = {
    "gaussian": "isotherm.studies.experiments.gaussian.study",
    "logistic": "isotherm.studies.experiments.logistic.study",
    "drbm": "isotherm.studies.experiments.drbm.study",
}


def find(name: str) -> ModuleType:
    """Return the module of an experiment, importing it on demand."""
    return import_module(EXPERIMENTS[name])
