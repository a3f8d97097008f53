"""Bayesian sampling with noisy gradients, at the right temperature.

What most users need is here, in the order in which data flows through it. The rest is in packages: `iso.data` (rows
and data sets), `iso.tables` (regression from tables), `iso.estimators` (the same with scikit-learn's interface),
`iso.interop` (models of other libraries), `iso.networks` (train and sample in one call), `iso.scores`, `iso.plots`,
and `iso.extend` (base classes for samplers, gradients and loops of your own).
"""

import importlib
from typing import TYPE_CHECKING, Any

from isotherm import forks as forks
from isotherm import signals as signals

# Names and their modules, which are loaded on first use: `import isotherm` stays light.
_LATER = {
    # The target
    "Posterior": "isotherm.posterior",
    "Group": "isotherm.groups",
    "Bounded": "isotherm.transforms",
    "Correlations": "isotherm.transforms",
    "Ordered": "isotherm.transforms",
    "Positive": "isotherm.transforms",
    "Scale": "isotherm.transforms",
    "Simplex": "isotherm.transforms",
    # Minibatches
    "RandomBlocks": "isotherm.data.random_blocks",
    "Reshuffled": "isotherm.data.plans",
    "WithoutReplacement": "isotherm.data.plans",
    "WithReplacement": "isotherm.data.plans",
    # Gradients, their noise, and coordinates
    "ControlVariate": "isotherm.gradients.control_variate",
    "FullData": "isotherm.gradients.minibatch",
    "Minibatch": "isotherm.gradients.minibatch",
    "Dense": "isotherm.covariance",
    "Diagonal": "isotherm.covariance",
    "DiagonalLowRank": "isotherm.covariance",
    "MatrixFree": "isotherm.covariance",
    "DensePreconditioner": "isotherm.preconditioner",
    "DiagonalPreconditioner": "isotherm.preconditioner",
    "LowRankPreconditioner": "isotherm.preconditioner",
    # Samplers
    "CCAdL": "isotherm.samplers",
    "ModifiedCCAdL": "isotherm.samplers",
    "ModifiedSGLD": "isotherm.samplers",
    "SGHMC": "isotherm.samplers",
    "SGLD": "isotherm.samplers",
    "SGNHT": "isotherm.samplers",
    # Chains, draws and what is made of them
    "setup": "isotherm.sampling.by_hand",
    "warmup": "isotherm.sampling.warmup",
    "Setup": "isotherm.chains.setup",
    "sample": "isotherm.sampling.sample",
    "sweep": "isotherm.sampling.sample",
    "resume": "isotherm.sampling.resume",
    "Draws": "isotherm.draws",
    "load": "isotherm.chains.loading",
    "diagnose": "isotherm.judging.diagnose",
    "predict": "isotherm.prediction",
    "log_likelihood": "isotherm.prediction",
    "with_log_likelihood": "isotherm.prediction",
    "report": "isotherm.reporting.report",
    "reference_posterior": "isotherm.sampling.reference",
    "keep_compiled": "isotherm.compilation",
    "IsothermWarning": "isotherm.errors",
}
_PACKAGES = ("data", "estimators", "extend", "interop", "networks", "plots", "scores", "tables")
if TYPE_CHECKING:
    from isotherm import data as data
    from isotherm import estimators as estimators
    from isotherm import extend as extend
    from isotherm import interop as interop
    from isotherm import networks as networks
    from isotherm import plots as plots
    from isotherm import scores as scores
    from isotherm import tables as tables
    from isotherm.chains.loading import load as load
    from isotherm.chains.setup import Setup as Setup
    from isotherm.compilation import keep_compiled as keep_compiled
    from isotherm.covariance import Dense as Dense
    from isotherm.covariance import Diagonal as Diagonal
    from isotherm.covariance import DiagonalLowRank as DiagonalLowRank
    from isotherm.covariance import MatrixFree as MatrixFree
    from isotherm.data.random_blocks import RandomBlocks as RandomBlocks
    from isotherm.data.plans import Reshuffled as Reshuffled
    from isotherm.data.plans import WithReplacement as WithReplacement
    from isotherm.data.plans import WithoutReplacement as WithoutReplacement
    from isotherm.draws import Draws as Draws
    from isotherm.errors import IsothermWarning as IsothermWarning
    from isotherm.gradients.control_variate import ControlVariate as ControlVariate
    from isotherm.gradients.minibatch import FullData as FullData
    from isotherm.gradients.minibatch import Minibatch as Minibatch
    from isotherm.groups import Group as Group
    from isotherm.judging.diagnose import diagnose as diagnose
    from isotherm.posterior import Posterior as Posterior
    from isotherm.preconditioner import DensePreconditioner as DensePreconditioner
    from isotherm.preconditioner import DiagonalPreconditioner as DiagonalPreconditioner
    from isotherm.preconditioner import LowRankPreconditioner as LowRankPreconditioner
    from isotherm.prediction import log_likelihood as log_likelihood
    from isotherm.prediction import predict as predict
    from isotherm.prediction import with_log_likelihood as with_log_likelihood
    from isotherm.reporting.report import report as report
    from isotherm.samplers import CCAdL as CCAdL
    from isotherm.samplers import ModifiedCCAdL as ModifiedCCAdL
    from isotherm.samplers import ModifiedSGLD as ModifiedSGLD
    from isotherm.samplers import SGHMC as SGHMC
    from isotherm.samplers import SGLD as SGLD
    from isotherm.samplers import SGNHT as SGNHT
    from isotherm.sampling.by_hand import setup as setup
    from isotherm.sampling.reference import reference_posterior as reference_posterior
    from isotherm.sampling.resume import resume as resume
    from isotherm.sampling.sample import sample as sample
    from isotherm.sampling.sample import sweep as sweep
    from isotherm.sampling.warmup import warmup as warmup
    from isotherm.transforms import Bounded as Bounded
    from isotherm.transforms import Correlations as Correlations
    from isotherm.transforms import Ordered as Ordered
    from isotherm.transforms import Positive as Positive
    from isotherm.transforms import Scale as Scale
    from isotherm.transforms import Simplex as Simplex

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _LATER and name not in _PACKAGES:
        raise AttributeError(f"module 'isotherm' has no attribute {name!r}")
    with signals.deferred():  # an interruption inside the imports of JAX could be lost, or crash
        if name in _PACKAGES:
            return importlib.import_module(f"isotherm.{name}")
        globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
        return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_PACKAGES})
