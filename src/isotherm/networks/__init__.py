"""Networks as a workflow: train, sample and judge in one call."""

from isotherm.networks.fitting import NetworkFit as NetworkFit
from isotherm.networks.fitting import fit as fit
