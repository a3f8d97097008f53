"""One chain of a network, with a step size that follows from the curvature and the noise where it begins."""

import dataclasses
import math
import warnings

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from isotherm.chains.noise import measure
from isotherm.covariance import Diagonal
from isotherm.draws import Draws
from isotherm.errors import IsothermWarning
from isotherm.interop.networks import Network, Params
from isotherm.posterior import Posterior
from isotherm.preconditioner import DiagonalPreconditioner
from isotherm.samplers import CCAdL
from isotherm.sampling.by_hand import setup
from isotherm.sampling.sample import sample
from isotherm.tuning.sketch import stiffness

_STEP, _S = (
    0.5,
    0.35,
)  # step size times the stiffest frequency; s where a chain begins, which grows from there
_MEMORY = 300.0  # steps in which friction slows a velocity down by a factor e
_EPOCHS, _FEWEST_STEPS, _BURN_IN = 200, 8000, 0.25
_FEWEST_BATCHES = 8  # in a pass
_MOST_HALVINGS = 6


@dataclasses.dataclass(frozen=True)
class Plan:
    """How long chains are, in draws and in passes over the rows, and how many rows a batch has."""

    num_draws: int
    epochs: int | None
    batch_size: int
    burn_in: int = 0
    thinning: int = 1

    def for_rows(self, num_rows: int) -> "Plan":
        """Return the plan with its burn-in and thinning, in steps."""
        n = min(self.batch_size, max(2, num_rows // _FEWEST_BATCHES))
        steps = math.ceil((self.epochs or _EPOCHS) * num_rows / n)
        if self.epochs is None:
            steps = max(_FEWEST_STEPS, steps)
        thinning = max(1, round((1 - _BURN_IN) * steps / self.num_draws))
        return dataclasses.replace(self, batch_size=n, burn_in=round(_BURN_IN * steps), thinning=thinning)

    def shorter(self, times: int) -> "Plan":
        """Return the plan of a chain with as many draws that is shorter."""
        return dataclasses.replace(
            self, burn_in=self.burn_in // times, thinning=max(1, self.thinning // times)
        )

    def check(self, net: Network, rows: PyTree) -> None:
        """Raise if the rows do not fit the network, before anything is trained."""
        made = setup(net.posterior, rows, net.init, sampler=_sampler(1e-3), batch_size=self.batch_size)
        made.problem.check_starts(made.starts.positions(1, key=jax.random.key(0)))


def chain(
    posterior: Posterior,
    rows: PyTree,
    start: Params,
    plan: Plan,
    *,
    key: Key[Array, ""],
    progress: bool = False,
) -> Draws:
    """Return a chain from `start`.

    Curvature and noise change on the way from a mode into the posterior. The step size is therefore chosen at the
    start, after a quarter, and in the middle of the burn-in. A chain that fails begins that part again with half the
    step.
    """
    keys = iter(jax.random.split(key, 2 * (_MOST_HALVINGS + 3)))
    short = dataclasses.replace(plan, num_draws=1, thinning=max(1, plan.burn_in // 4), burn_in=0)
    halvings, done, place = 0, 0, start
    with warnings.catch_warnings():
        # The noise at the start was measured, and the verdict names what was found at the end.
        warnings.simplefilter("ignore", IsothermWarning)
        while done < 2 and halvings < _MOST_HALVINGS:
            h = 0.5**halvings * _step_size(posterior, rows, place, plan.batch_size, next(keys))
            draws = _sampled(posterior, rows, place, short, h, next(keys), progress=progress)
            if draws.record.interrupted:
                raise KeyboardInterrupt
            if draws.complete.all():
                place, done = {name: jnp.asarray(x[0, -1]) for name, x in draws.posterior.items()}, done + 1
            else:
                halvings += 1
        h = 0.5**halvings * _step_size(posterior, rows, place, plan.batch_size, next(keys))
        last = dataclasses.replace(plan, burn_in=plan.burn_in // 2)
        return _sampled(posterior, rows, place, last, h, next(keys), progress=progress)


def _sampled(
    posterior: Posterior,
    rows: PyTree,
    start: Params,
    plan: Plan,
    h: float,
    key: Key[Array, ""],
    *,
    progress: bool,
) -> Draws:
    return sample(
        posterior,
        rows,
        start,
        sampler=_sampler(h),
        batch_size=plan.batch_size,
        num_draws=plan.num_draws,
        thinning=plan.thinning,
        burn_in=plan.burn_in,
        num_chains=1,
        init_per_chain=False,
        seed=key,
        progress=progress,
    )


def _sampler(h: float) -> CCAdL:
    return CCAdL(h, 1 / (_MEMORY * h), covariance=Diagonal(), scheme="symmetric")


def _step_size(
    posterior: Posterior, rows: PyTree, start: Params, batch_size: int, key: Key[Array, ""]
) -> float:
    first, second = jax.random.split(key)
    as_they_are = DiagonalPreconditioner(start, jax.tree.map(jnp.ones_like, start))
    point = jax.tree.map(lambda x: x[None], start)
    h = _STEP / math.sqrt(max(stiffness(posterior, rows, point, as_they_are, key=first), 1e-30))
    made = setup(posterior, rows, start, sampler=_sampler(h), batch_size=batch_size, init_per_chain=False)
    noise = measure(made.kernel, made.problem.data, start, step=0, key=second)
    if noise is None or noise.s <= _S:
        return h
    return h * math.sqrt(_S / noise.s)  # s grows with the square of the step size
