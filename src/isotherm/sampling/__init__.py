"""Chains: the driver around the kernel."""

from isotherm.sampling.sample import sample as sample
from isotherm.sampling.sample import sweep as sweep
