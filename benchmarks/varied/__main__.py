"""The default on twenty-one models of different kinds: its errors relative to NUTS, and the diagnosis.

    python benchmarks/varied --out out/varied

NUTS is `iso.reference_posterior` (BlackJAX, dense mass, 4 x 300 draws after 300 of warm-up). It starts from the last
draws of the default, so that it need not search for the posterior. Needs the extra `nuts`.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso
from models import MODELS


def judge(name: str, *, reference: bool) -> dict:
    """Return errors in units of NUTS's posterior sd, effective draws, passes and the verdict."""
    posterior, data, init = MODELS[name](np.random.default_rng(1))
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draws = iso.sample(posterior, data, init, progress=False)
        seconds = time.perf_counter() - began
        diagnosis = iso.diagnose(draws, progress=False)
    rows = diagnosis.summary.rows
    choices = {reason.choice: reason.value for reason in draws.record.reasons}
    record = {
        "model": name,
        "what": MODELS[name].__doc__,
        "seconds": round(seconds, 1),
        "passes": round(draws.record.setup_passes, 1),
        "gradient": choices["gradient"],
        "batch": draws.record.batch_size,
        "ess": round(min((r.ess_bulk for r in rows), default=0.0)),
        "r_hat": round(max((r.r_hat for r in rows), default=np.nan), 3),
        "ok": diagnosis.ok,
        "verdict": diagnosis.verdict,
    }
    if reference:
        last = jax.tree.map(lambda x: jnp.asarray(x[:, -1]), draws.posterior)
        exact = iso.reference_posterior(
            posterior, data, last, num_draws=300, warmup=300, num_chains=4, progress=False
        )
        a, b = (_flat(x) for x in (draws, exact))
        sd = b.std(axis=(0, 1))
        errors, ratio = (a.mean(axis=(0, 1)) - b.mean(axis=(0, 1))) / sd, a.std(axis=(0, 1)) / sd
        reference_rows = exact.summary().rows
        record |= {
            "mean_rms": round(float(np.sqrt(np.mean(errors**2))), 3),
            "mean_worst": round(float(np.abs(errors).max()), 3),
            "sd_low": round(float(ratio.min()), 3),
            "sd_high": round(float(ratio.max()), 3),
            "nuts_ess": round(min(r.ess_bulk for r in reference_rows)),
            "nuts_r_hat": round(max(r.r_hat for r in reference_rows), 3),
        }
    return record


def _flat(draws: iso.Draws) -> np.ndarray:
    parts = [x.reshape(*x.shape[:2], -1) for x in draws.flat().values()]
    return np.concatenate(parts, axis=2).astype(np.float64)


def main() -> None:
    """Print and write a record per model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(MODELS), help="models, separated by commas")
    parser.add_argument("--no-reference", action="store_true", help="do not run NUTS")
    parser.add_argument("--out", type=Path, default=Path("out/varied"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in options.only.split(","):
        try:
            row = judge(name, reference=not options.no_reference)
        except Exception as error:  # a model that fails is a result
            row = {"model": name, "failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(row), flush=True)
        rows.append(row)
        (options.out / "varied.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
