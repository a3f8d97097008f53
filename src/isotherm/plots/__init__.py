"""Figures of a run, drawn apart from any global state of matplotlib. Needs the extra `plots`."""

from isotherm.plots.style import EXACT as EXACT
from isotherm.plots.style import METHODS as METHODS
from isotherm.plots.style import Style as Style
from isotherm.plots.style import new_figure as new_figure
from isotherm.plots.style import require_matplotlib as require_matplotlib
from isotherm.plots.style import save as save
