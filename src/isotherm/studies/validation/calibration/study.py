r"""Simulation-based calibration: is `sample` right on average over data sets, and not on one only?

Draw parameters from the prior and data from the likelihood, sample the posterior, and take the rank of the
parameters among L nearly independent draws. Where the draws are right, ranks are uniform on 0..L (Talts et
al. 2018). This is asked of every parameter and of the log-likelihood of the data, which sees what
the parameters one by one do not (Modrák et al. 2023).

Ranks are judged by the band of Säilynoja, Bürkner & Vehtari (2022): pointwise binomial intervals for their
distribution function, widened until all of it stays inside with the wanted probability. That probability is
computed exactly here, not simulated.

Step size, friction and thinning are fixed in advance and the same for all data sets. Chains start at a point
estimate from the data, never at the truth. Euler's own bias, s/4 + hA/2, is 2 to 3 % of the variance in both
models, far below what the band sees. For one quantity that is, in half of all cases: with 1000 replicates a
mean off by 0.14 sd or a variance 24 % too small; with 100 a mean off by 0.44 sd or a variance 57 % too small.
Three parameters at a temperature of 1.3 are seen by the log-likelihood: always with 1000, one time in nine with 100.
"""

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from isotherm.errors import check_count
from isotherm.posterior import Posterior
from isotherm.sampling.sample import sample
from isotherm.studies.validation.calibration.models import (
    Model,
    logistic_regression,
    normal_mean_and_precision,
)
from isotherm.studies.validation.calibration.ranks import band, p_value

FALSE_ALARM = 1e-3  # for a whole model: the chance that a right sampler leaves the band in any quantity
CHAINS, DRAWS = 4, 16
REPLICATES = {True: 100, False: 1000}  # quick or not
_COMPILE = "/jax/core/compile/backend_compile_duration"


@dataclasses.dataclass(frozen=True, eq=False)
class Calibration:
    """What came of one model.

    - `ranks`: (replicates, quantities), each among `draws` draws.
    - `p_values`: for each quantity, how often uniform ranks stray as far; exact, over the whole curve.
    - `band`: smallest and largest number of ranks below 1, 2, ... `draws` that the band allows.
    - `compilations`, `recompilations`: in the first replicate, and in all others.
    - `stopped`: replicates in which a chain turned non-finite.
    """

    model: str
    quantities: tuple[str, ...]
    ranks: np.ndarray
    draws: int
    replicates: int
    p_values: np.ndarray
    band: tuple[np.ndarray, np.ndarray]
    compilations: int
    recompilations: int
    stopped: int
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether all chains ran to their end, nothing was compiled twice and all ranks stay inside the band."""
        sound = self.stopped == 0 and self.recompilations == 0
        return sound and bool((self.p_values > FALSE_ALARM / len(self.quantities)).all())

    @property
    def sentence(self) -> str:
        """What was found."""
        about = f"Calibration on {self.model}"
        if self.stopped:
            return f"{about}: a chain stopped early in {self.stopped} of {self.replicates} replicates."
        if self.recompilations:
            return f"{about}: {self.recompilations} compilations after the first replicate, where 0 are due."
        worst = int(self.p_values.argmin())
        where = "stay inside" if self.holds else "leave"
        return (
            f"{about}: the ranks of {self.replicates} replicates {where} the band that a right sampler leaves once "
            f"in {1 / FALSE_ALARM:.0f} times; furthest out is {self.quantities[worst]}, "
            f"p = {self.p_values[worst]:.2g}. {self.compilations} compilations in the first replicate, none after."
        )

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        record = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        plain = jax.tree.map(lambda x: x.tolist() if isinstance(x, np.ndarray) else x, record)
        return plain | {"false_alarm": FALSE_ALARM, "holds": self.holds, "sentence": self.sentence}


def num_pieces(quick: bool) -> int:
    """How often `calibrate` calls `advance`."""
    return 2 * REPLICATES[quick]


def calibrate(
    *, quick: bool, seed: int, advance: Callable[[str], None] = lambda _: None
) -> list[Calibration]:
    """Calibrate `sample` with CCAdL on both models; `advance` is told of each replicate that is done."""
    seed = check_count("seed", seed, minimum=0)
    models = (logistic_regression(), normal_mean_and_precision())
    return [
        calibrate_model(m, replicates=REPLICATES[quick], seed=(seed, i), advance=advance)
        for i, m in enumerate(models)
    ]


def calibrate_model(
    model: Model, *, replicates: int, seed: tuple[int, ...], advance: Callable[[str], None] = lambda _: None
) -> Calibration:
    """Ranks of one model. Replicates share shapes, functions and settings, so only the first may compile."""
    began, ranks, compiled, stopped = time.perf_counter(), [], [_compilations()], 0
    for i in range(replicates):
        rank, complete = _replicate(model, np.random.default_rng((*seed, i)))
        ranks.append(rank)
        stopped += not complete
        compiled.append(_compilations())
        advance(f"{model.name}, {i + 1} of {replicates}")
    table, draws = np.stack(ranks), CHAINS * DRAWS
    return Calibration(
        model=model.name,
        quantities=model.quantities,
        ranks=table,
        draws=draws,
        replicates=replicates,
        p_values=np.array([p_value(column, draws) for column in table.T]),
        band=band(replicates, draws, FALSE_ALARM / len(model.quantities)),
        compilations=compiled[1] - compiled[0],
        recompilations=compiled[-1] - compiled[1],
        stopped=stopped,
        seconds=time.perf_counter() - began,
    )


def _replicate(model: Model, rng: np.random.Generator) -> tuple[np.ndarray, bool]:
    truth, data = model.simulate(rng)
    result = sample(
        model.posterior,
        data,
        model.start(data),
        sampler=model.sampler,
        batch_size=model.batch_size,
        num_draws=DRAWS,
        thinning=model.thinning,
        burn_in=model.burn_in,
        num_chains=CHAINS,
        seed=int(rng.integers(2**32)),
        progress=False,
    )
    # The truth stands before the draws, so that all go through the same arithmetic.
    rows = jax.tree.map(
        lambda t, x: np.concatenate([t[None].astype(x.dtype), x.reshape(-1, *t.shape)]),
        truth,
        result.posterior,
    )
    likelihoods = np.asarray(_log_likelihoods(model.posterior, rows, data))
    flat = [x.reshape(len(likelihoods), -1) for x in (*jax.tree.leaves(rows), likelihoods)]
    values = np.concatenate(flat, axis=1)
    return np.sum(values[1:] < values[0], axis=0), bool(result.complete.all())


@eqx.filter_jit
def _log_likelihoods(posterior: Posterior, positions: PyTree, data: PyTree) -> Float[Array, " draws"]:
    return jnp.sum(jax.vmap(posterior.row_log_likelihoods, in_axes=(0, None))(positions, data), axis=1)


@functools.cache
def _compiled() -> list[str]:
    """Names of compilations since the first call; JAX keeps a listener for good, so there is one for all."""
    events: list[str] = []

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if event == _COMPILE:
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    jax.jit(lambda x: x + 1)(jnp.zeros(()))
    if not events:
        raise RuntimeError(f"this version of JAX, {jax.__version__}, does not report its compilations")
    return events


def _compilations() -> int:
    return len(_compiled())
