"""Rows of the tables of section 4.2, from what the chains returned."""

from itertools import combinations
from typing import Any

import numpy as np

from isotherm.studies.experiments.logistic.problem import SHOWN

NEAR = 0.01  # of the reference's test log-likelihood, within which a running mean has converged


def converged(
    arguments: dict[str, Any], result: dict[str, Any], truth: dict[str, Any]
) -> list[dict[str, Any]]:
    """One row a friction: median and range over chains at every checkpoint, and how many passes it took."""
    rows, passes = [], np.array(result["passes"])
    for i, friction in enumerate(arguments["frictions"]):
        values = np.array(result["log_likelihood"][i], float)  # a chain that died has NaN
        lost = np.where(np.isnan(values), -np.inf, values)
        median = np.median(lost, axis=0)
        rows.append(
            {
                "method": arguments["method"],
                "step_size": arguments["step_size"],
                "friction": friction,
                "passes": passes.tolist(),
                "median": numbers(median),
                "low": numbers(lost.min(axis=0)),
                "high": numbers(lost.max(axis=0)),
                "by_chain_at_50": numbers(lost[:, np.searchsorted(passes, min(50, passes[-1]))]),
                "passes_to_near": _stays_near(passes, median, truth["test_log_likelihood"]),
                "kinetic": result["kinetic"][i],
                "died": result["died"][i],
            }
        )
    return rows


def _stays_near(passes: np.ndarray, values: np.ndarray, level: float) -> int | None:
    away = np.flatnonzero(~(np.abs(values - level) <= NEAR))
    first = away[-1] + 1 if len(away) else 0
    return None if first == len(passes) else int(passes[first])


def distribution(arguments: dict[str, Any], result: dict[str, Any], truth: dict[str, Any]) -> dict[str, Any]:
    """How far the samples' distribution is from the reference, in the two dimensions shown and in all."""
    own = {k: arguments[k] for k in ("method", "step_size", "friction")}
    if result["died"]:
        return {**own, "died": True, "status": result["status"]}
    mean, covariance = np.array(result["mean"]), np.array(result["covariance"])
    right, spread = np.array(truth["mean"]), np.array(truth["covariance"])
    sd = np.sqrt(np.diag(spread))
    off = (mean - right) / sd
    values, vectors = np.linalg.eigh(spread)
    whiten = vectors / np.sqrt(values)
    times = np.array(result["autocorrelation_time"])
    draws = np.maximum(result["samples"] / times, 1)  # independent ones that the chain is worth
    areas = np.array([_area_ratio(covariance, spread, pair) for pair in combinations(range(len(mean)), 2)])
    two = list(SHOWN)
    short, wide = (mean - right)[two], spread[np.ix_(two, two)]
    mean_shown, covariance_shown = shown(mean, covariance)
    return {
        **own,
        "died": False,
        "mean": mean_shown,
        "covariance": covariance_shown,
        "cloud": result["cloud"],
        "mean_distance": float(np.sqrt(short @ np.linalg.solve(wide, short))),
        "area_ratio": _area_ratio(covariance, spread, SHOWN),
        "mean_rms": float(np.sqrt(np.mean(off**2))),
        "mean_rms_by_chance": float(
            np.sqrt(np.mean(np.diag(covariance) / sd**2 / draws) + truth["standard_error"] ** 2)
        ),
        "mean_worst": float(np.max(np.abs(off))),
        "area_ratio_median": float(np.median(areas)),
        "area_ratio_range": [float(areas.min()), float(areas.max())],
        "covariance_error": float(
            np.linalg.norm(whiten.T @ covariance @ whiten - np.eye(len(mean))) / np.sqrt(len(mean))
        ),
        # Squares forget twice as fast as the positions.
        "covariance_by_chance": float(np.sqrt((len(mean) + 1) / (2 * np.median(draws)))),
        "autocorrelation_time": float(np.median(times)),
        "autocorrelation_time_worst": float(times.max()),
        **{
            k: result[k] for k in ("burn_in", "stabilised", "kinetic", "xi", "test_log_likelihood", "samples")
        },
    }


def _area_ratio(covariance: np.ndarray, spread: np.ndarray, pair: tuple[int, int]) -> float:
    """Of the ellipses of two dimensions."""
    at = np.ix_(list(pair), list(pair))
    return float(np.sqrt(max(np.linalg.det(covariance[at]), 0) / np.linalg.det(spread[at])))


def shown(mean: Any, covariance: Any) -> tuple[list[float], list[list[float]]]:
    """Mean and covariance of the two dimensions of the figure."""
    two = list(SHOWN)
    return np.asarray(mean)[two].tolist(), np.asarray(covariance)[np.ix_(two, two)].tolist()


def find(rows: list[dict[str, Any]], method: str, step_size: float, friction: float) -> dict[str, Any]:
    """The row of a method at a step and friction."""
    key = (method, step_size, friction)
    return next(r for r in rows if (r["method"], r["step_size"], r["friction"]) == key)


def at(row: dict[str, Any], passes: int) -> float:
    """The median after so many passes, or at the end of a shorter run; minus infinity where chains have died."""
    i = min(int(np.searchsorted(row["passes"], passes)), len(row["passes"]) - 1)
    value = row["median"][i]
    return -np.inf if value is None else value


def numbers(values: np.ndarray) -> list[float | None]:
    """For JSON."""
    return [round(float(v), 5) if np.isfinite(v) else None for v in values]
