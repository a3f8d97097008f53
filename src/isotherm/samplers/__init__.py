"""The samplers, one per file."""

from isotherm.samplers.base import Sampler as Sampler
from isotherm.samplers.ccadl import CCAdL as CCAdL
from isotherm.samplers.modified_ccadl import ModifiedCCAdL as ModifiedCCAdL
from isotherm.samplers.modified_sgld import ModifiedSGLD as ModifiedSGLD
from isotherm.samplers.sghmc import SGHMC as SGHMC
from isotherm.samplers.sgld import SGLD as SGLD
from isotherm.samplers.sgnht import SGNHT as SGNHT
