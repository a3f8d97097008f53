"""What a run will cost, by a few of its steps."""

import dataclasses
import time
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isotherm.chains.setup import Setup
    from isotherm.cli.spec import Problem

_LONG = 0.25  # seconds that a measurement should take
_DIAGNOSIS = 2.0  # runs that a diagnosis of effort 1 costs


@dataclasses.dataclass(frozen=True)
class Cost:
    """Seconds of all that is left to do after the warm-up, and what they are spent on."""

    seconds: float
    text: str


def measure(problem: "Problem", found: "Setup", settings: dict[str, Any], *, effort: float) -> Cost:
    """Time ever more steps of the very chains that will run, whose compilation serves the run as well."""
    import isotherm as iso

    chains, n = settings.get("num_chains", 4), settings.get("batch_size") or found.batch_size
    thinning = settings.get("thinning") or found.thinning
    burn_in = found.burn_in if settings.get("burn_in") is None else settings["burn_in"]
    draws = settings.get("num_draws", 1000)
    total = burn_in + draws * thinning
    few = {k: v for k, v in settings.items() if k in ("num_chains", "batch_size", "seed")}

    def seconds(steps: int) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", iso.IsothermWarning)  # the run itself will warn
            pilot = iso.sample(
                problem.posterior,
                problem.data,
                found,
                num_draws=steps,
                burn_in=0,
                thinning=1,
                progress=False,
                **few,
            )
        if pilot.record.interrupted:
            raise KeyboardInterrupt
        return pilot.record.seconds

    began = time.perf_counter()
    seconds(1)  # compiles
    compilation = time.perf_counter() - began
    # By the difference of two runs, for one has costs that do not grow with its steps, such as a pass over the data.
    steps = max(8, found.refresh_every)
    base = seconds(steps)
    while (took := seconds(8 * steps) - base) < _LONG and 8 * steps < total:
        steps, base = 8 * steps, took + base
    run = base + total * max(took, 0.0) / (7 * steps)
    # Chains of half the step compile anew.
    whole = run * (1 + _DIAGNOSIS * effort) + (compilation if effort else 0.0)
    text = (
        f"{duration(whole)}: {chains} x {draws:,} draws x {thinning} steps of {n:,} rows take {duration(run)}"
        + (", the diagnosis the rest" if effort else "")
        + f"; the warm-up took {found.passes:.0f} passes, {found.seconds:.0f} s"
    )
    return Cost(whole, text)


def duration(seconds: float) -> str:
    """About how long, in a unit that fits."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"about {seconds / size:.2g} {unit}"
    return f"about {max(seconds, 1):.0f} s"
