"""Bayesian sampling with noisy gradients, at the right temperature.

The public names, in the order in which data flows through them.
"""

import importlib
from typing import TYPE_CHECKING, Any

from isotherm.posterior import Posterior as Posterior
from isotherm.transforms import Bounded as Bounded
from isotherm.transforms import Ordered as Ordered
from isotherm.transforms import Positive as Positive
from isotherm.transforms import Simplex as Simplex

# Minibatches
from isotherm.data.plans import MinibatchPlan as MinibatchPlan
from isotherm.data.plans import RandomBlocks as RandomBlocks
from isotherm.data.plans import Reshuffled as Reshuffled
from isotherm.data.plans import WithoutReplacement as WithoutReplacement
from isotherm.data.plans import WithReplacement as WithReplacement
from isotherm.data.weighted import Weighted as Weighted

# Gradients and their noise
from isotherm.gradients.control_variate import ControlVariate as ControlVariate
from isotherm.gradients.minibatch import FullData as FullData
from isotherm.gradients.minibatch import Gradient as Gradient
from isotherm.gradients.minibatch import Minibatch as Minibatch
from isotherm.preconditioner import DensePreconditioner as DensePreconditioner
from isotherm.preconditioner import DiagonalPreconditioner as DiagonalPreconditioner
from isotherm.preconditioner import LowRankPreconditioner as LowRankPreconditioner
from isotherm.preconditioner import Preconditioner as Preconditioner
from isotherm.covariance import Covariance as Covariance
from isotherm.covariance import Dense as Dense
from isotherm.covariance import Diagonal as Diagonal
from isotherm.covariance import DiagonalLowRank as DiagonalLowRank
from isotherm.covariance import MatrixFree as MatrixFree
from isotherm.covariance import Operator as Operator

# Samplers
from isotherm.samplers import CCAdL as CCAdL
from isotherm.samplers import ModifiedCCAdL as ModifiedCCAdL
from isotherm.samplers import ModifiedSGLD as ModifiedSGLD
from isotherm.samplers import Sampler as Sampler
from isotherm.samplers import SGHMC as SGHMC
from isotherm.samplers import SGLD as SGLD
from isotherm.samplers import SGNHT as SGNHT

# What passes between them
from isotherm.records import Batch as Batch
from isotherm.records import GradientEstimate as GradientEstimate
from isotherm.records import Info as Info
from isotherm.records import Needs as Needs
from isotherm.records import State as State
from isotherm.records import Status as Status

from isotherm.errors import IsothermWarning as IsothermWarning

# One step, chains and draws: loaded where they are first used, so that `import isotherm` stays light
_LATER = {
    "Kernel": "isotherm.kernel",
    "Visit": "isotherm.kernel",
    "sample": "isotherm.sampling.sample",
    "sweep": "isotherm.sampling.sample",
    "warmup": "isotherm.sampling.warmup",
    "Warmup": "isotherm.tuning.record",
    "Draws": "isotherm.draws",
    "load": "isotherm.draws",
    "diagnose": "isotherm.judging.diagnose",
    "Diagnosis": "isotherm.judging.record",
    "reference_posterior": "isotherm.sampling.reference",
    "predict": "isotherm.prediction",
    "log_likelihood": "isotherm.prediction",
    "with_log_likelihood": "isotherm.prediction",
    "Prediction": "isotherm.prediction.record",
    "LogLikelihood": "isotherm.prediction.likelihood",
    "report": "isotherm.reporting.run",
}
_PACKAGES = ("interop", "plots", "scores")
if TYPE_CHECKING:
    from isotherm import interop as interop
    from isotherm import plots as plots
    from isotherm import scores as scores
    from isotherm.judging.diagnose import diagnose as diagnose
    from isotherm.judging.record import Diagnosis as Diagnosis
    from isotherm.draws import Draws as Draws
    from isotherm.draws import load as load
    from isotherm.kernel import Kernel as Kernel
    from isotherm.kernel import Visit as Visit
    from isotherm.prediction import log_likelihood as log_likelihood
    from isotherm.prediction import predict as predict
    from isotherm.prediction import with_log_likelihood as with_log_likelihood
    from isotherm.prediction.likelihood import LogLikelihood as LogLikelihood
    from isotherm.prediction.record import Prediction as Prediction
    from isotherm.sampling.reference import reference_posterior as reference_posterior
    from isotherm.reporting.run import report as report
    from isotherm.sampling.sample import sample as sample
    from isotherm.sampling.sample import sweep as sweep
    from isotherm.sampling.warmup import warmup as warmup
    from isotherm.tuning.record import Warmup as Warmup

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"isotherm.{name}")
    if name not in _LATER:
        raise AttributeError(f"module 'isotherm' has no attribute {name!r}")
    globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_PACKAGES})
