"""`fit`: a network from its module to predictions."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm.data.rows import checked_rows
from isotherm.draws import Draws
from isotherm.draws.joining import interrupted, joined
from isotherm.errors import check_count, check_flag, must
from isotherm.interop.networks import Network, Params
from isotherm.judging.summary import about_the_kinetic_temperature, about_the_run, ended_early
from isotherm.keys import as_key
from isotherm.networks import judged
from isotherm.networks.chains import Plan, chain
from isotherm.networks.inputs import check_outcomes, checked, network_of, split
from isotherm.networks.judged import Score
from isotherm.networks.priors import is_adjustable, widened
from isotherm.networks.scoring import mean_of, scores_of, table
from isotherm.networks.training import restarted, trained
from isotherm.prediction.blocks import chosen, in_a_row
from isotherm.printed import Printed
from isotherm.progress import Progress
from isotherm.signals import deferred

_FEWEST_DRAWS = 4
_EPOCHS, _FEWEST_STEPS = 20, 2000  # of Adam
_SHORT = 4  # times shorter than the others are the chains by which the prior is chosen
_WIDEST, _NARROWEST = 64.0, 0.25  # factors of the prior's scales that are tried


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class NetworkFit(Printed):
    """A network that was trained and sampled; prints as a table of scores on rows that were held out.

    - `network`: the network, with the prior that was chosen.
    - `draws`: the draws of all chains.
    - `starts`: the trained parameters where each chain began.
    - `prior_factor`: what the prior's scales of weights were multiplied by.
    - `power`: of the probabilities of classes, chosen on rows that were held out; 1 for other outcomes.
    - `scores`: of the trained networks, of their average, and of the draws.
    - `problems`, `verdict`: what is wrong with the chains, as far as predictions show it.
    """

    network: Network
    draws: Draws
    starts: tuple[Params, ...]
    prior_factor: float
    power: float
    scores: tuple[Score, ...]
    verdict: str
    problems: tuple[str, ...] = ()

    width = 80

    def predict(self, x: PyTree) -> np.ndarray:
        """Return the mean of y for each row: for classes their probabilities, raised to `power` and normalised."""
        p = mean_of(self.network, in_a_row(chosen(self.draws)), checked_rows(x, argument="x").arrays)
        return judged.recalibrated(p, self.power) if self.power != 1 else p

    def score(self, x: PyTree, y: Array | np.ndarray) -> tuple[Score, ...]:
        """Return the scores on other rows, in the order of `scores`."""
        return scores_of(self.network, self.starts, self.draws, checked(x, y), self.power)

    def _parts(self) -> Iterator[Any]:
        yield from table(self.scores)
        if self.power != 1:
            yield f"Probabilities are raised to the power {self.power:.2f}, which the held-out rows suggest."
        if self.prior_factor != 1:
            yield f"The prior's scales of weights are {self.prior_factor:g} times those given, as these rows suggest."
        yield self.verdict


def fit(
    module: Any,
    x: PyTree,
    y: Array | np.ndarray,
    likelihood: str | Callable[..., Array] | None = None,
    *,
    num_chains: int = 4,
    num_draws: int = 50,
    epochs: int | None = None,
    training_epochs: int | None = None,
    batch_size: int = 200,
    learning_rate: float = 3e-3,
    held_out: float | None = None,
    choose_prior: bool = True,
    restart: bool = True,
    seed: int | Key[Array, ""] = 0,
    progress: bool = True,
) -> NetworkFit:
    """Train a network by Adam, choose the scale of its prior, and sample its posterior.

    Each chain starts at a network that was trained from other initial weights. The step size follows from the
    curvature and the gradient noise there.

    **Arguments:**

    - `module`: a module of Equinox, which takes one example, or of Flax NNX, which takes a batch; or a network from
      `iso.interop.equinox.posterior` or `iso.interop.flax.posterior`, with a prior of your own for example.
    - `likelihood`: of y given the outputs, as for `iso.interop.equinox.posterior`.
    - `num_draws`: networks kept from each chain.
    - `epochs`: passes of each chain over the rows, of which the first quarter is burn-in. `None`: 200, and at least
      8,000 steps.
    - `training_epochs`, `learning_rate`: of Adam. `None`: 20, and at least 2,000 steps. The learning rate falls to
      zero as a cosine.
    - `held_out`: share of the rows that are only used to choose the prior and the power, and to judge. `None`: a
      tenth, or 2,000 rows if that is more, but at most a fifth.
    - `choose_prior`: whether to choose a factor for the prior's scales of weights by the loss on the held-out rows.
    - `restart`: whether all chains but the first start at other initial weights, those of `module` in a random
      order. If it is trained already, pass `restart=False, training_epochs=0`.
    """
    net = network_of(module, likelihood)
    plan = Plan(
        num_draws=check_count("num_draws", num_draws, minimum=_FEWEST_DRAWS),
        epochs=None if epochs is None else check_count("epochs", epochs, minimum=1),
        batch_size=check_count("batch_size", batch_size, minimum=2),
    )
    count = check_count("num_chains", num_chains, minimum=1)
    if training_epochs is not None:
        check_count("training_epochs", training_epochs, minimum=0)
    if (
        isinstance(learning_rate, bool)
        or not isinstance(learning_rate, int | float)
        or not 0 < learning_rate < 1
    ):
        raise must("learning_rate", "a positive number below 1", learning_rate, "3e-3 is the default.")
    for name, value in (("choose_prior", choose_prior), ("restart", restart), ("progress", progress)):
        check_flag(name, value)
    key = as_key(seed)
    rows, held = split(x, y, held_out, jax.random.fold_in(key, 0))
    for part in (rows, held):
        check_outcomes(net, part)
    plan = plan.for_rows(len(rows["y"]))
    plan.check(net, rows)
    each = len(rows["y"]) // plan.batch_size
    passes = max(_EPOCHS, -(-_FEWEST_STEPS // each)) if training_epochs is None else training_epochs
    own = lambda stage, k: jax.random.fold_in(jax.random.fold_in(key, stage), k)

    def start(net: Network, k: int) -> Params:
        first = net.init if k == 0 or not restart else restarted(net.init, key=own(1, k))
        if passes == 0:
            return first
        return trained(
            net.posterior,
            rows,
            first,
            epochs=passes,
            batch_size=plan.batch_size,
            rate=learning_rate,
            key=own(2, k),
        )

    with deferred():
        factor = 1.0
        with Progress("network", show=progress) as bar:
            if choose_prior and is_adjustable(net):
                bar.say("choosing the prior")
                factor = _best_factor(net, start, rows, held, plan.shorter(_SHORT), own(3, 0))
                net = widened(net, factor)
            bar.say("training")
            starts = tuple(start(net, k) for k in range(count))
        runs: list[Draws] = []
        for k, theta in enumerate(starts):
            try:
                runs.append(chain(net.posterior, rows, theta, plan, key=own(3, k), progress=progress))
            except KeyboardInterrupt:  # in the burn-in of this chain
                if not runs:
                    raise
                runs[-1] = interrupted(runs[-1])
            if runs[-1].record.interrupted:
                break
    return _judged(net, joined(runs), starts, held, factor)


def _best_factor(
    net: Network, start: Callable[..., Params], rows: PyTree, held: PyTree, plan: Plan, key: Key[Array, ""]
) -> float:
    """Return the factor of the prior's scales with the smallest loss on held-out rows, a power of two."""
    losses: dict[float, float] = {}

    def loss(factor: float) -> float:
        if factor not in losses:
            wide = widened(net, factor)
            draws = chain(
                wide.posterior, rows, start(wide, 0), plan, key=jax.random.clone(key)
            )  # the same for all factors
            last = scores_of(wide, (), draws, held, None)[-1]
            losses[factor] = last.loss if np.isfinite(last.loss) else np.inf
        return losses[factor]

    best = 2.0
    up = loss(4.0) < loss(2.0)
    while _NARROWEST <= (other := best * (2.0 if up else 0.5)) <= _WIDEST and loss(other) < loss(best):
        best = other
    return best


def _judged(
    net: Network, draws: Draws, starts: tuple[Params, ...], held: PyTree, factor: float
) -> NetworkFit:
    y = np.asarray(held["y"])
    complete = draws.complete.any() and draws.num_draws > 0
    power, remarks = 1.0, []
    faults = [*about_the_run(draws), *about_the_kinetic_temperature(draws)]
    if complete:
        params = in_a_row(chosen(draws))
        if net.likelihood.classes:
            power = judged.sharpest(mean_of(net, params, held["x"]), y)
        values = judged.log_likelihoods(net.posterior, params, held)
        values = values.reshape(int(np.sum(draws.complete)), -1, len(y))
        for is_fault, text in judged.judged(values) if values.shape[1] >= _FEWEST_DRAWS else ():
            (faults if is_fault else remarks).append(text)
    scores = scores_of(net, starts, draws, held, power)
    if faults:
        verdict = "Do not trust these draws yet: " + "; ".join(faults) + "."
    else:
        verdict = "No fault found: predictions do not change along the chains, and temperatures are right."
    return NetworkFit(
        net,
        draws,
        starts,
        factor,
        power,
        scores,
        " ".join([verdict, *remarks]) + ended_early(draws),
        tuple(faults),
    )
