"""Rows of the tables of section 4.2, computed from the results of the chains."""

from itertools import combinations
from typing import Any

import numpy as np

from isotherm.studies.experiments.logistic.problem import SHOWN

NEAR = 0.01  # a running mean has converged when its test log-likelihood is this close to the reference


def converged(
    arguments: dict[str, Any], result: dict[str, Any], truth: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return one row per friction: median and range over chains at each checkpoint, and passes to convergence."""
    rows, passes = [], np.array(result["passes"])
    for i, friction in enumerate(arguments["frictions"]):
        values = np.array(result["log_likelihood"][i], float)  # NaN after a chain has diverged
        values = np.where(np.isnan(values), -np.inf, values)
        median = np.median(values, axis=0)
        rows.append(
            {
                "method": arguments["method"],
                "step_size": arguments["step_size"],
                "friction": friction,
                "passes": passes.tolist(),
                "median": numbers(median),
                "low": numbers(values.min(axis=0)),
                "high": numbers(values.max(axis=0)),
                "by_chain_at_50": numbers(values[:, np.searchsorted(passes, min(50, passes[-1]))]),
                "passes_to_near": _stays_near(passes, median, truth["test_log_likelihood"]),
                "kinetic": result["kinetic"][i],
                "died": result["died"][i],
            }
        )
    return rows


def _stays_near(passes: np.ndarray, values: np.ndarray, level: float) -> int | None:
    not_near = np.flatnonzero(~(np.abs(values - level) <= NEAR))
    first = not_near[-1] + 1 if len(not_near) else 0
    return None if first == len(passes) else int(passes[first])


def distribution(arguments: dict[str, Any], result: dict[str, Any], truth: dict[str, Any]) -> dict[str, Any]:
    """Return the distance of the samples from the reference, in the two dimensions shown and in all."""
    names = {k: arguments[k] for k in ("method", "step_size", "friction")}
    if result["died"]:
        return {**names, "died": True, "status": result["status"]}
    mean, covariance = np.array(result["mean"]), np.array(result["covariance"])
    true_mean, true_covariance = np.array(truth["mean"]), np.array(truth["covariance"])
    sd = np.sqrt(np.diag(true_covariance))
    mean_error = (mean - true_mean) / sd
    values, vectors = np.linalg.eigh(true_covariance)
    whiten = vectors / np.sqrt(values)
    times = np.array(result["autocorrelation_time"])
    effective_draws = np.maximum(result["samples"] / times, 1)
    pairs = combinations(range(len(mean)), 2)
    areas = np.array([_area_ratio(covariance, true_covariance, pair) for pair in pairs])
    two = list(SHOWN)
    offset, true_covariance_shown = (mean - true_mean)[two], true_covariance[np.ix_(two, two)]
    mean_shown, covariance_shown = shown(mean, covariance)
    return {
        **names,
        "died": False,
        "mean": mean_shown,
        "covariance": covariance_shown,
        "cloud": result["cloud"],
        "mean_distance": float(np.sqrt(offset @ np.linalg.solve(true_covariance_shown, offset))),
        "area_ratio": _area_ratio(covariance, true_covariance, SHOWN),
        "mean_rms": float(np.sqrt(np.mean(mean_error**2))),
        "mean_rms_by_chance": float(
            np.sqrt(np.mean(np.diag(covariance) / sd**2 / effective_draws) + truth["standard_error"] ** 2)
        ),
        "mean_worst": float(np.max(np.abs(mean_error))),
        "area_ratio_median": float(np.median(areas)),
        "area_ratio_range": [float(areas.min()), float(areas.max())],
        "covariance_error": float(
            np.linalg.norm(whiten.T @ covariance @ whiten - np.eye(len(mean))) / np.sqrt(len(mean))
        ),
        # Squares of the positions have half the autocorrelation time.
        "covariance_by_chance": float(np.sqrt((len(mean) + 1) / (2 * np.median(effective_draws)))),
        "autocorrelation_time": float(np.median(times)),
        "autocorrelation_time_worst": float(times.max()),
        **{
            k: result[k] for k in ("burn_in", "stabilised", "kinetic", "xi", "test_log_likelihood", "samples")
        },
    }


def _area_ratio(covariance: np.ndarray, true_covariance: np.ndarray, pair: tuple[int, int]) -> float:
    """Return the area of the ellipse in two dimensions divided by that of the reference."""
    block = np.ix_(list(pair), list(pair))
    return float(np.sqrt(max(np.linalg.det(covariance[block]), 0) / np.linalg.det(true_covariance[block])))


def shown(mean: Any, covariance: Any) -> tuple[list[float], list[list[float]]]:
    """Return the mean and covariance in the two dimensions of the figure."""
    two = list(SHOWN)
    return np.asarray(mean)[two].tolist(), np.asarray(covariance)[np.ix_(two, two)].tolist()


def find(rows: list[dict[str, Any]], method: str, step_size: float, friction: float) -> dict[str, Any]:
    """Return the row of a method at a step size and friction."""
    key = (method, step_size, friction)
    return next(r for r in rows if (r["method"], r["step_size"], r["friction"]) == key)


def at(row: dict[str, Any], passes: int) -> float:
    """Return the median after `passes`, or at the end of a shorter run; minus infinity if it is not finite."""
    i = min(int(np.searchsorted(row["passes"], passes)), len(row["passes"]) - 1)
    value = row["median"][i]
    return -np.inf if value is None else value


def numbers(values: np.ndarray) -> list[float | None]:
    """Return the values rounded for JSON, with `None` for those that are not finite."""
    return [round(float(v), 5) if np.isfinite(v) else None for v in values]
