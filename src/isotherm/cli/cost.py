"""An estimate of what a run will cost, from timing a few of its steps."""

import dataclasses
import time
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isotherm.chains.setup import Setup
    from isotherm.cli.spec import Problem

_MIN_SECONDS = 0.25  # of a measurement, unless the run itself is shorter
_DIAGNOSIS = 2.0  # cost of a diagnosis of effort 1, in runs


@dataclasses.dataclass(frozen=True)
class Cost:
    """The estimated time from the end of the warm-up, in seconds, and a text that says what takes it."""

    seconds: float
    text: str


def measure(problem: "Problem", warmup: "Setup", settings: dict[str, Any], *, effort: float) -> Cost:
    """Return the estimated cost of a run, from timing ever more steps of its chains.

    The run reuses what is compiled here. Steps on rows that are not in memory are not timed, since each trial would
    read the data again: the estimate is then the time of the warm-up.
    """
    import isotherm as iso

    warmed_up = f"the warm-up took {warmup.passes:.0f} passes over the data, {warmup.seconds:.0f} s"
    if isinstance(problem.data, iso.data.Source):
        return Cost(warmup.seconds, f"{warmed_up}; the rest is likely to take about as long")
    chains, n = settings.get("num_chains", 4), settings.get("batch_size") or warmup.batch_size
    thinning = settings.get("thinning") or warmup.thinning
    burn_in = warmup.burn_in if settings.get("burn_in") is None else settings["burn_in"]
    draws = settings.get("num_draws", 1000)
    total = burn_in + draws * thinning
    shared = {k: v for k, v in settings.items() if k in ("num_chains", "batch_size", "seed")}

    def seconds(steps: int) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", iso.IsothermWarning)  # the run itself will warn
            pilot = iso.sample(
                problem.posterior,
                problem.data,
                warmup,
                num_draws=steps,
                burn_in=0,
                thinning=1,
                progress=False,
                **shared,
            )
        if pilot.record.interrupted:
            raise KeyboardInterrupt
        return pilot.record.seconds

    began = time.perf_counter()
    seconds(1)  # compiles
    compilation = time.perf_counter() - began
    # Take the difference of two runs: each has costs that do not grow with its steps, such as a pass over the data.
    steps = max(8, warmup.refresh_every)
    base = seconds(steps)
    while (took := seconds(8 * steps) - base) < _MIN_SECONDS and 8 * steps < total:
        steps, base = 8 * steps, took + base
    run = base + total * max(took, 0.0) / (7 * steps)
    # The diagnosis runs chains at half the step size, which are compiled anew.
    whole = run * (1 + _DIAGNOSIS * effort) + (compilation if effort else 0.0)
    text = (
        f"{duration(whole)} left: sampling takes {duration(run)} ({chains} x {draws:,} draws x {thinning} steps of "
        f"{n:,} rows)" + (", the diagnosis the rest" if effort else "") + f"; {warmed_up}"
    )
    return Cost(whole, text)


def duration(seconds: float) -> str:
    """Return an approximate duration in a suitable unit."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"about {seconds / size:.2g} {unit}"
    return f"about {max(seconds, 1):.0f} s"
