"""Figures of a run, independent of matplotlib's global state. Needs the extra `plots`."""

from isotherm.plots.along import effects_along as effects_along
from isotherm.plots.along import group_levels as group_levels
from isotherm.plots.along import smooth as smooth
from isotherm.plots.chains import convergence as convergence
from isotherm.plots.chains import traces as traces
from isotherm.plots.density import marginals as marginals
from isotherm.plots.density import pairs as pairs
from isotherm.plots.priors import prior_predictive as prior_predictive
from isotherm.plots.reliability import calibration as calibration
from isotherm.plots.style import EXACT as EXACT
from isotherm.plots.style import METHODS as METHODS
from isotherm.plots.style import Style as Style
from isotherm.plots.style import new_figure as new_figure
from isotherm.plots.style import require_matplotlib as require_matplotlib
from isotherm.plots.style import save as save
from isotherm.plots.temperatures import temperatures as temperatures
