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
from isotherm.data.minibatch import MinibatchPlan as MinibatchPlan
from isotherm.data.minibatch import RandomBlocks as RandomBlocks
from isotherm.data.minibatch import Reshuffled as Reshuffled
from isotherm.data.minibatch import WithoutReplacement as WithoutReplacement
from isotherm.data.minibatch import WithReplacement as WithReplacement
from isotherm.data.weighted import Weighted as Weighted

# Gradients and their noise
from isotherm.control_variate import ControlVariate as ControlVariate
from isotherm.gradient import FullData as FullData
from isotherm.gradient import Gradient as Gradient
from isotherm.gradient import Minibatch as Minibatch
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
    "sample": "isotherm.sampling",
    "sweep": "isotherm.sampling",
    "warmup": "isotherm.sampling",
    "Warmup": "isotherm.tuning.record",
    "Draws": "isotherm.draws",
    "load": "isotherm.draws",
    "diagnose": "isotherm.diagnosis",
    "Diagnosis": "isotherm.diagnosis.record",
    "reference_posterior": "isotherm.reference",
    "interop": "isotherm.interop",
}
if TYPE_CHECKING:
    from isotherm import interop as interop
    from isotherm.diagnosis import diagnose as diagnose
    from isotherm.diagnosis.record import Diagnosis as Diagnosis
    from isotherm.draws import Draws as Draws
    from isotherm.draws import load as load
    from isotherm.kernel import Kernel as Kernel
    from isotherm.kernel import Visit as Visit
    from isotherm.reference import reference_posterior as reference_posterior
    from isotherm.sampling import sample as sample
    from isotherm.sampling import sweep as sweep
    from isotherm.sampling import warmup as warmup
    from isotherm.tuning.record import Warmup as Warmup

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'isotherm' has no attribute {name!r}")
    module = importlib.import_module(_LATER[name])
    globals()[name] = module if _LATER[name] == f"isotherm.{name}" else getattr(module, name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
