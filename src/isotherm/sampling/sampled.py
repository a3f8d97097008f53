"""From a call to draws: the setup, chosen by hand or by a warm-up or read from a stored run, and then the run."""

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from isotherm import processes
from isotherm.chains.identity import posterior_hash
from isotherm.chains.problem import Problem
from isotherm.chains.run import run
from isotherm.chains.setup import Setup
from isotherm.chains.stored import read_setup, save_setup
from isotherm.draws import Draws
from isotherm.posterior import Posterior
from isotherm.sampling import checks
from isotherm.sampling.by_hand import setups
from isotherm.sampling.call import Call
from isotherm.sampling.warmup import prepared, tuned
from isotherm.store.folder import RunFolder
from isotherm.store.saved import PASSES, SETUP
from isotherm.sums.journal import Journal, recorded_in


def sampled(
    posterior: Posterior,
    data: PyTree,
    call: Call,
    *,
    progress: bool,
    stacklevel: int,
    folder: RunFolder | None = None,
    like: PyTree | None = None,
    setup: Setup | None = None,
) -> Draws:
    """Return the draws that `call` asks for. Warnings point `stacklevel` calls up.

    With a `folder`, the run is stored there, or goes on from what is stored. `setup` replaces that of the call.
    """
    if setup is None:
        setup = setup_of(posterior, data, call, folder, like, progress=progress, stacklevel=stacklevel + 1)
    elif folder is not None:
        setup = checks.checked_setup(setup, posterior, data, None)
        _check(folder, setup.problem)
        checks.check_steps(setup.burn_in + call.length.num_draws * setup.thinning)
    return run([setup], call.length, call.key, progress=progress, stacklevel=stacklevel + 1, folder=folder)[0]


def setup_of(
    posterior: Posterior,
    data: PyTree,
    call: Call,
    folder: RunFolder | None,
    like: PyTree | None = None,
    *,
    progress: bool,
    stacklevel: int,
) -> Setup:
    """Return the setup of a call: the stored one if there is one, else by hand, or by a warm-up.

    If arguments are refused, a new folder is deleted: it holds nothing but the call.
    """
    with _forgotten_if_refused(folder):
        setup = _setup(posterior, data, call, folder, like, progress=progress, stacklevel=stacklevel + 1)
        checks.check_steps(setup.burn_in + call.length.num_draws * setup.thinning)
        return setup


def _setup(
    posterior: Posterior,
    data: PyTree,
    call: Call,
    folder: RunFolder | None,
    like: PyTree | None,
    *,
    progress: bool,
    stacklevel: int,
) -> Setup:
    stored = _has_setup(folder)
    if call.sampler is not None:
        (setup,) = setups(posterior, data, call.init, [call.sampler], call.choices)
        _check(folder, setup.problem)
        return _stored_setup(folder, setup.problem, like) or setup if stored else setup
    checks.check_posterior(posterior)
    if isinstance(call.init, Setup):
        setup = call.with_lengths(checks.checked_setup(call.init, posterior, data, call.batch_size))
        _check(folder, setup.problem)
        if folder is not None:
            save_setup(folder, setup)
        return setup
    if stored:
        with prepared(posterior, data, call.init) as problem:
            _check(folder, problem)
            setup = _stored_setup(folder, problem, like)
        if setup is not None:
            return setup
    with _journal(folder):
        setup = tuned(
            posterior,
            data,
            call.init,
            batch_size=call.batch_size,
            key=call.key,
            progress=progress,
            stacklevel=stacklevel + 1,
            check=lambda problem: _check(folder, problem),
        )
    return call.with_lengths(setup)


def _has_setup(folder: RunFolder | None) -> bool:
    """Return whether a setup is stored, by all processes."""
    if folder is None:
        return False
    there = lambda: np.asarray((folder.path / SETUP).is_file())
    return all(bool(x) for x in processes.gathered(there, "stored setup"))


def _stored_setup(folder: RunFolder | None, problem: Problem, like: PyTree | None) -> Setup | None:
    return None if folder is None else read_setup(folder, problem, like)


def _check(folder: RunFolder | None, problem: Problem) -> None:
    """Raise if the folder holds a run of other data or another posterior."""
    if folder is not None:
        folder.check_problem(data=problem.fingerprint, posterior=posterior_hash(problem))


def _journal(folder: RunFolder | None) -> contextlib.AbstractContextManager[Any]:
    """Return a context in which results of passes over the data are stored, and used if they are stored."""
    if folder is None or processes.count() > 1:  # processes would have to agree on what is stored
        return contextlib.nullcontext()
    return recorded_in(Journal(folder.path / PASSES))


@contextlib.contextmanager
def _forgotten_if_refused(folder: RunFolder | None) -> Iterator[None]:
    """Delete the folder after an error, unless something in it was computed."""
    new = folder is not None and not (folder.path / SETUP).is_file() and not (folder.path / PASSES).exists()
    try:
        yield
    except (OSError, MemoryError, jax.errors.JaxRuntimeError):
        raise
    except Exception:
        if folder is not None and new:
            folder.discard()
        raise
