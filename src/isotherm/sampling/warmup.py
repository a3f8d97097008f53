"""`warmup`: a setup chosen for the posterior at hand."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm import keys, processes, tree
from isotherm.caller import check_caller
from isotherm.chains.problem import Problem
from isotherm.chains.setup import Setup
from isotherm.data.checks import needs_float64
from isotherm.data.opening import Opened, brought
from isotherm.devices import Devices, using
from isotherm.errors import check_count, check_flag, must
from isotherm.keys import as_key
from isotherm.posterior import Posterior
from isotherm.progress import Progress
from isotherm.sampling import checks
from isotherm.sampling.prepare import prepare
from isotherm.sampling.undeclared import about_undeclared_groups
from isotherm.signals import deferred
from isotherm.sums import precision
from isotherm.tuning.explore import explore
from isotherm.tuning.grouped import tune_grouped
from isotherm.tuning.normal import tune_normal


def warmup(
    posterior: Posterior,
    data: PyTree,
    init: PyTree,
    *,
    batch_size: int | None = None,
    seed: int | Key[Array, ""] = 0,
    progress: bool = True,
    devices: Devices = None,
) -> Setup:
    """Return a setup with starts, coordinates, gradient, batch size and sampler chosen for this posterior.

    It finds the mode, coordinates in which the posterior is nearly isotropic, and settings that fit them. If the
    posterior is not nearly normal around one mode, or has more than a thousand parameters, chains start from four
    different points and no mode is assumed. Print the setup to see the reason for each choice.

    `iso.sample` calls `warmup` if no sampler is given. To inspect the setup first, or to sample several times, pass
    it as `init`: `setup = iso.warmup(posterior, data, init); draws = iso.sample(posterior, data, setup)`.

    **Arguments:**

    - `init`: one pytree of parameters, anywhere inside the support.
    - `batch_size`: rows in a minibatch; chosen if `None`.
    - `progress`: show the current stage, on a terminal or in a notebook.
    - others as for `iso.sample`.
    """
    check_caller("iso.warmup", data=data, init=init)
    key, progress = as_key(seed), check_flag("progress", progress)
    with deferred(), using(devices), checks.callbacks_noted():
        setup = tuned(posterior, data, init, batch_size=batch_size, key=key, progress=progress, stacklevel=2)
    setup.problem.remember_rows()
    return setup


def tuned(
    posterior: Posterior,
    data: PyTree,
    init: PyTree,
    *,
    batch_size: int | None,
    key: Key[Array, ""],
    progress: bool,
    stacklevel: int,
    check: Callable[[Problem], None] = lambda problem: None,
) -> Setup:
    """Return the setup that `warmup` chooses. Warnings point `stacklevel` calls up.

    `check` is called with the problem before anything is summed over all rows.
    """
    checks.check_posterior(posterior)
    with prepared(posterior, data, init) as problem:
        check(problem)
        return _tuned(problem, batch_size=batch_size, key=key, progress=progress, stacklevel=stacklevel + 1)


@contextlib.contextmanager
def prepared(posterior: Posterior, data: PyTree, init: PyTree) -> Iterator[Problem]:
    """Yield the problem of a warm-up, with JAX in x64 mode if float32 would spoil the rows."""
    data = brought(data)
    in_memory = data.sample if isinstance(data, Opened) else data
    on_host = [x for x in jax.tree.leaves(in_memory) if isinstance(x, np.ndarray)]
    wide = not jax.config.read("jax_enable_x64") and needs_float64(on_host)
    with precision.float64(wide):
        grouped = bool(posterior.groups)  # rows of levels with few of them are used in every step
        yield prepare(
            posterior,
            data,
            init,
            num_chains=1,
            init_per_chain=False,
            latents_allowed=grouped,
            float64=wide,
        )


def _tuned(
    problem: Problem, *, batch_size: int | None, key: Key[Array, ""], progress: bool, stacklevel: int
) -> Setup:
    if problem.num_data < 2:
        raise must("data", "at least 2 rows", problem.num_data)
    if batch_size is not None and check_count("batch_size", batch_size, minimum=2) > problem.num_data:
        raise must("batch_size", f"at most the number of rows, {problem.num_data}", batch_size)
    checks.check_forward_mode(problem.density, problem.data, problem.init)
    problem.check_starts(jax.tree.map(lambda x: tree.put(np.asarray(x)[None]), problem.init))
    first, second = keys.several(jax.random.fold_in(key, keys.WARMUP), 2)
    with Progress("warm-up", show=progress and processes.is_first()) as bar:
        if problem.posterior.groups:
            return tune_grouped(
                problem, key=first, batch_size=batch_size, say=bar.say, stacklevel=stacklevel + 1
            )
        result = tune_normal(
            problem, key=first, batch_size=batch_size, say=bar.say, stacklevel=stacklevel + 1
        )
        if isinstance(result, Setup):
            return result
        setup = explore(problem, result.why, key=second, batch_size=batch_size, say=bar.say)
        return dataclasses.replace(setup, reasons=(*setup.reasons, *about_undeclared_groups(problem)))
