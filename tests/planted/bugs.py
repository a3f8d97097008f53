"""All planted mistakes, in the order of the data: rows, sums, gradient, noise, kick, step, run, tuning, output."""

from planted.bug import Bug
from planted.covariances import COVARIANCES
from planted.factors import FACTORS
from planted.families import FAMILIES_OF_REGRESSIONS
from planted.noise import NOISE
from planted.outputs import OUTPUTS
from planted.readings import READINGS
from planted.rows import ROWS
from planted.runs import RUNS
from planted.samplers import SAMPLERS
from planted.steps import STEPS
from planted.stores import STORES
from planted.streams import STREAMS
from planted.sums import SUMS
from planted.symmetric import SYMMETRIC
from planted.text import TEXT
from planted.tuned import TUNED

BUGS: tuple[Bug, ...] = (
    *ROWS,
    *STREAMS,
    *SUMS,
    *NOISE,
    *COVARIANCES,
    *FACTORS,
    *SAMPLERS,
    *SYMMETRIC,
    *STEPS,
    *RUNS,
    *TUNED,
    *FAMILIES_OF_REGRESSIONS,
    *READINGS,
    *OUTPUTS,
    *TEXT,
    *STORES,
)
