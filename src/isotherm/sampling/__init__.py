"""Chains: the driver around the kernel."""

from isotherm.sampling.driver import sample as sample
from isotherm.sampling.driver import sweep as sweep
from isotherm.sampling.tune import warmup as warmup
