"""Accuracy and timing of draws from the posteriors of `problems.py`."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import jax
import numpy as np

REFERENCES = Path(__file__).parents[1] / "references"
TARGET = 0.05  # rms error of the means, in posterior standard deviations

AXES = {"chain_axis": 0, "draw_axis": 1}

T = TypeVar("T")


def truth(name: str) -> dict:
    """Return the reference moments, which `reference.py` made."""
    return json.loads((REFERENCES / f"{name}.json").read_text())


def flat(draws: dict[str, np.ndarray]) -> np.ndarray:
    """Return the draws as one array (chain, draw, parameter)."""
    return np.concatenate([x.reshape(*x.shape[:2], -1) for x in draws.values()], axis=2).astype(np.float64)


def quality(x: np.ndarray, known: dict) -> dict[str, float]:
    """Return the effective draws, R-hat and the errors relative to the reference.

    `monte_carlo_rms` is the rms error of the means that this many effective draws have by chance, in posterior
    standard deviations; `mean_rms_by_chance` also includes the error of the reference.
    """
    from arviz_stats.base import array_stats

    ess = effective(x)
    by_chance = np.mean(1 / ess)
    return {
        "ess_median": float(np.median(ess)),
        "ess_min": float(ess.min()),
        "r_hat": max(float(array_stats.rhat(x[:, :, i], **AXES)) for i in range(x.shape[2])),
        "monte_carlo_rms": float(np.sqrt(by_chance)),
        "mean_rms_by_chance": float(np.sqrt(by_chance + np.mean(np.square(known["mean_error"])))),
        **moments(x.mean(axis=(0, 1)), x.std(axis=(0, 1)), known),
    }


def effective(x: np.ndarray) -> np.ndarray:
    """Return the bulk effective sample size of each parameter."""
    from arviz_stats.base import array_stats

    return np.array([float(array_stats.ess(x[:, :, i], method="bulk", **AXES)) for i in range(x.shape[2])])


def moments(mean: np.ndarray, sd: np.ndarray, known: dict) -> dict[str, float]:
    """Return the errors of means, in posterior standard deviations, and the ratios of standard deviations."""
    errors, ratio = (mean - known["mean"]) / np.array(known["sd"]), sd / np.array(known["sd"])
    return {
        "mean_rms": float(np.sqrt(np.mean(errors**2))),
        "mean_worst": float(np.abs(errors).max()),
        "sd_median": float(np.median(ratio)),
        "sd_low": float(ratio.min()),
        "sd_high": float(ratio.max()),
    }


def timed(f: Callable[[], T]) -> tuple[float, T]:
    """Return the seconds until the result is ready, and the result."""
    began = time.perf_counter()
    out = jax.block_until_ready(f())
    return time.perf_counter() - began, out
