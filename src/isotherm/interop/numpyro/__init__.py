"""NumPyro models as posteriors over minibatches of their rows."""

from isotherm.interop.numpyro.model import Model as Model
from isotherm.interop.numpyro.model import posterior as posterior
