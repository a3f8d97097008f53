"""The result of a run: draws, statistics, status and the record of how they were made."""

from isotherm.draws.draws import Draws as Draws
from isotherm.draws.draws import Moments as Moments
from isotherm.draws.loading import check_shapes as check_shapes
from isotherm.draws.loading import load as load
