"""One run of `iso.sample` with nothing tuned, compared with the exact answer."""

import dataclasses
import time
import warnings
from collections import Counter
from collections.abc import Sequence

import numpy as np
from designs import Design
from exact import Exact, moments
from spoiled import with_float32_hessian

import isotherm as iso

LARGEST_RATIO_ERROR = 0.03  # of an sd, relative to the exact one
LARGEST_Z = 0.05  # distance of a mean from the exact one, in posterior sd
_ERRORS_ALLOWED = 4.0  # standard errors beyond the limits. By chance: at most 6e-5 per comparison
_LEAST_ESS = 400.0  # fewer effective draws, which the verdict must report, do not widen the limits further

RIGHT, ALARMED = "right", "right but alarmed"
SAID, SILENT = "wrong and said", "WRONG IN SILENCE"
OUTCOMES = (RIGHT, ALARMED, SAID, SILENT)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Errors of means (`z`, in exact sd), ratios of sd, and effective draws, per coefficient."""

    z: np.ndarray
    ratio: np.ndarray
    ess_mean: np.ndarray
    ess_sd: np.ndarray
    reference_error: float

    @property
    def wrong(self) -> bool:
        """Whether a mean or an sd is outside the limits by more than Monte Carlo error explains."""
        excess_z = np.abs(self.z) - LARGEST_Z - _ERRORS_ALLOWED * self._error(1, self.ess_mean)
        excess_ratio = (
            np.abs(self.ratio - 1) - LARGEST_RATIO_ERROR - _ERRORS_ALLOWED * self._error(2, self.ess_sd)
        )
        # `not ... <= 0`, so that NaN is wrong.
        return not bool(np.all(excess_z <= 0) and np.all(excess_ratio <= 0))

    def _error(self, power: int, ess: np.ndarray) -> np.ndarray:
        """Return the sd of z (power 1), 1/sqrt(ESS), or of the ratio (power 2), 1/sqrt(2 ESS)."""
        return np.sqrt(1 / (power * np.maximum(ess, _LEAST_ESS)) + self.reference_error**2)


def compare(draws: np.ndarray, exact: Exact) -> Comparison:
    """Compare draws (chain, draw, coefficient) with the exact moments, in float64."""
    # In exact sd around the exact mean: ArviZ takes a parameter whose draws differ by less than 1e-15 for a constant.
    u = (np.asarray(draws, np.float64) - exact.mean) / exact.sd
    return Comparison(
        z=u.mean(axis=(0, 1)),
        ratio=u.std(axis=(0, 1), ddof=1),
        ess_mean=_effective(u, "mean"),
        ess_sd=_effective(u, "sd"),
        reference_error=exact.error,
    )


def _effective(u: np.ndarray, method: str) -> np.ndarray:
    from arviz_stats.base import array_stats

    axes = {"chain_axis": 0, "draw_axis": 1}
    ess = [float(array_stats.ess(u[:, :, i], method=method, **axes)) for i in range(u.shape[2])]
    # Draws that do not move, or that are not finite, have no effective draws.
    return np.where(np.isfinite(ess) & (np.ptp(u, axis=(0, 1)) > 0), ess, 0.0)


def run(design: Design, num_draws: int, *, spoiled: bool = False) -> dict:
    """Return the record of one design: the errors, the verdict and the outcome.

    If `spoiled`, the known Hessian is that of single precision, where the warm-up chose to use one.
    """
    exact = moments(design.x, design.y, design.likelihood, design.prior_scale)
    posterior, data, init = design.problem()
    record = {
        "design": design.name,
        "seed": design.seed,
        "rows": len(design.y),
        "d": len(exact.mean),
        "likelihood": design.likelihood,
        "dtype": str(design.x.dtype),
        "prior": "flat" if design.prior_scale is None else "normal",
        "reference_error": exact.error,
        "reference_ess": exact.ess if np.isfinite(exact.ess) else None,
    }
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            start = init
            if spoiled:
                start = with_float32_hessian(
                    iso.warmup(posterior, data, init, seed=design.seed, progress=False)
                )
                record["design"] += " (not spoiled)" if start is None else ""
            start = init if start is None else start
            draws = iso.sample(posterior, data, start, num_draws=num_draws, seed=design.seed, progress=False)
            verdict = draws.summary().verdict
        except Exception as error:  # a refusal is a result: nothing wrong was returned
            draws, verdict = None, f"{type(error).__name__}: {error}"
    record |= {
        "seconds": round(time.perf_counter() - began, 2),
        "verdict": verdict,
        "verdict_ok": verdict.startswith("No fault found"),
        "warnings": [str(w.message) for w in caught],
    }
    if draws is None:
        return record | {"outcome": SAID}
    compared = compare(_coefficients(draws.posterior), exact)
    refined = (_coefficients(draws.mean()[0]) - exact.mean) / exact.sd
    return record | {
        "ratio": compared.ratio.tolist(),
        "z": compared.z.tolist(),
        "z_refined": refined.tolist(),
        "ess_min": float(min(compared.ess_mean.min(), compared.ess_sd.min())),
        "outcome": _outcome(compared.wrong, record["verdict_ok"]),
    }


def _coefficients(params: dict) -> np.ndarray:
    """Return the coefficients and, if it is there, log sigma, on the last axis and in float64."""
    parts = [np.asarray(params["w"], np.float64)]
    if "log_sigma" in params:
        parts.append(np.asarray(params["log_sigma"], np.float64)[..., None])
    return np.concatenate(parts, axis=-1)


def _outcome(wrong: bool, verdict_ok: bool) -> str:
    if wrong:
        return SILENT if verdict_ok else SAID
    return RIGHT if verdict_ok else ALARMED


_WIDTHS = (60, 7, 2, 18, 8, 11, 8, 8, 7, 17, 7)
_HEAD = ("design", "N", "d", "likelihood", "data", "worst ratio", "worst z", "ESS", "verdict", "outcome", "s")


def head() -> str:
    """Return the first line of the table."""
    return _aligned(_HEAD)


def line(record: dict) -> str:
    """Return one line of the table."""
    worst = lambda name, center: max(
        record.get(name, [np.nan]), key=lambda x: abs(x - center) if np.isfinite(x) else np.inf
    )
    ratio = worst("ratio", 1)
    return _aligned(
        (
            record["design"],
            f"{record['rows']:,}",
            str(record["d"]),
            record["likelihood"],
            record["dtype"],
            f"{ratio:.3f}" if not abs(ratio) > 1e4 else f"{ratio:.1e}",
            f"{worst('z', 0):+.3f}",
            f"{record.get('ess_min', np.nan):,.0f}",
            "ok" if record["verdict_ok"] else "fault",
            record["outcome"],
            f"{record['seconds']:.1f}",
        )
    )


def _aligned(cells: Sequence[str]) -> str:
    texts = {0, 3, 4, 8, 9}  # columns aligned to the left
    pairs = enumerate(zip(cells, _WIDTHS, strict=True))
    cut = lambda cell, width: cell if len(cell) <= width else cell[: width - 1] + "…"
    return "  ".join(f"{cut(c, w):<{w}}" if i in texts else f"{cut(c, w):>{w}}" for i, (c, w) in pairs)


def counts(records: Sequence[dict]) -> str:
    """Return how many runs had each outcome."""
    number = Counter(record["outcome"] for record in records)
    return ", ".join(f"{outcome}: {number[outcome]}" for outcome in OUTCOMES)
