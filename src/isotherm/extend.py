"""Base classes and records for writing a sampler, a gradient, a covariance or a sampling loop."""

from isotherm.covariance import Average as Average
from isotherm.covariance import Covariance as Covariance
from isotherm.covariance import Operator as Operator
from isotherm.data.plans import MinibatchPlan as MinibatchPlan
from isotherm.gradients.minibatch import Gradient as Gradient
from isotherm.kernel import Kernel as Kernel
from isotherm.kernel import Visit as Visit
from isotherm.preconditioner import Preconditioner as Preconditioner
from isotherm.records import Batch as Batch
from isotherm.records import GradientEstimate as GradientEstimate
from isotherm.records import Info as Info
from isotherm.records import Needs as Needs
from isotherm.records import State as State
from isotherm.records import Status as Status
from isotherm.records import Temperatures as Temperatures
from isotherm.samplers.adaptive import AdaptiveLangevin as AdaptiveLangevin
from isotherm.samplers.base import LangevinSampler as LangevinSampler
from isotherm.samplers.base import Sampler as Sampler
from isotherm.samplers.base import status_of as status_of
from isotherm.samplers.momentum import MomentumSampler as MomentumSampler
from isotherm.samplers.traits import Thermostat as Thermostat
from isotherm.samplers.traits import Traits as Traits
