r"""Simulation-based calibration: is `sample` correct on average over data sets?

Draw parameters from the prior and data from the likelihood, sample the posterior, and take the rank of the
parameters among L nearly independent draws. If the draws are correct, ranks are uniform on 0..L (Talts et
al. 2018). This is tested for every parameter and for the log-likelihood of the data, which detects errors that
single parameters do not show (Modrák et al. 2023).

Ranks are judged by the band of Säilynoja, Bürkner & Vehtari (2022): pointwise binomial intervals for their
distribution function, widened until the whole function stays inside with the wanted probability. That
probability is computed exactly here, not simulated.

Step size, friction and thinning are fixed in advance and the same for all data sets. Chains start at a point
estimate from the data, never at the truth. The bias of the Euler scheme, s/4 + hA/2, is 2 to 3 % of the variance
in both models, far below what the band detects. For one quantity, the band detects in half of all studies: with
1000 replicates, a mean off by 0.14 sd or a variance 24 % too small; with 100, a mean off by 0.44 sd or a variance
57 % too small. The log-likelihood reveals a temperature of 1.3 in three parameters always with 1000 replicates, and
one time in nine with 100.
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

FALSE_ALARM = 1e-3  # per model: the probability that a correct sampler leaves the band in any quantity
CHAINS, DRAWS = 4, 16
REPLICATES = {True: 100, False: 1000}  # by `quick`
_COMPILE = "/jax/core/compile/backend_compile_duration"


@dataclasses.dataclass(frozen=True, eq=False)
class Calibration:
    """The calibration of one model.

    - `ranks`: (replicates, quantities), each among `draws` draws.
    - `p_values`: for each quantity, the exact probability that uniform ranks stray as far, over the whole curve.
    - `band`: smallest and largest number of ranks below 1, 2, ... `draws` that the band allows.
    - `compilations`, `recompilations`: the number in the first replicate, and in all others.
    - `stopped`: the number of replicates in which a chain became non-finite.
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
        """Whether all chains were completed, nothing was compiled twice and all ranks stay inside the band."""
        sound = self.stopped == 0 and self.recompilations == 0
        return sound and bool((self.p_values > FALSE_ALARM / len(self.quantities)).all())

    @property
    def sentence(self) -> str:
        """The outcome in words."""
        about = f"Calibration on {self.model}"
        if self.stopped:
            return f"{about}: a chain stopped early in {self.stopped} of {self.replicates} replicates."
        if self.recompilations:
            return f"{about}: {self.recompilations} compilations after the first replicate; there should be none."
        worst = int(self.p_values.argmin())
        where = "stay inside" if self.holds else "leave"
        return (
            f"{about}: the ranks of {self.replicates} replicates {where} the band that a correct sampler leaves in 1 "
            f"of {1 / FALSE_ALARM:.0f} studies; furthest out is {self.quantities[worst]}, "
            f"p = {self.p_values[worst]:.2g}. {self.compilations} compilations in the first replicate, none after."
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        record = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        plain = jax.tree.map(lambda x: x.tolist() if isinstance(x, np.ndarray) else x, record)
        return plain | {"false_alarm": FALSE_ALARM, "holds": self.holds, "sentence": self.sentence}


def num_pieces(quick: bool) -> int:
    """Return the number of times that `calibrate` calls `advance`."""
    return 2 * REPLICATES[quick]


def calibrate(
    *, quick: bool, seed: int, advance: Callable[[str], None] = lambda _: None
) -> list[Calibration]:
    """Return the calibrations of `sample` with CCAdL on both models; `advance` is called after each replicate."""
    seed = check_count("seed", seed, minimum=0)
    models = (logistic_regression(), normal_mean_and_precision())
    return [
        calibrate_model(m, replicates=REPLICATES[quick], seed=(seed, i), advance=advance)
        for i, m in enumerate(models)
    ]


def calibrate_model(
    model: Model, *, replicates: int, seed: tuple[int, ...], advance: Callable[[str], None] = lambda _: None
) -> Calibration:
    """Return the calibration of one model. All replicates have the same shapes, so only the first may compile."""
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
    # The truth comes first, before the draws, so that all go through the same arithmetic.
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
    """Return a list that grows with each compilation. JAX never removes a listener, so all calls share one."""
    events: list[str] = []

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if event == _COMPILE:
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    jax.jit(lambda x: x + 1)(jnp.zeros(()))
    if not events:
        raise RuntimeError(
            f"JAX {jax.__version__} does not report its compilations. Use another version of JAX."
        )
    return events


def _compilations() -> int:
    return len(_compiled())
