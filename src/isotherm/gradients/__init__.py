"""Estimates of the force, and of its noise, from a batch of rows."""

from isotherm.gradients.control_variate import ControlVariate as ControlVariate
from isotherm.gradients.minibatch import FullData as FullData
from isotherm.gradients.minibatch import Gradient as Gradient
from isotherm.gradients.minibatch import Minibatch as Minibatch
