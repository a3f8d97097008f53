"""Run scikit-learn's checks of both estimators with chains, and print how each check ended.

    python tests/estimators/chains.py [BayesianRegressor | BayesianClassifier]

It takes many minutes, nearly all of them compilation: each check has a table of another shape.
"""

import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from estimators.test_checks import EXPECTED
from sklearn.utils.estimator_checks import check_estimator

import isotherm as iso


def main(names):
    """Return how many checks failed that were not expected to."""
    warnings.simplefilter("ignore")
    failed, began = 0, time.perf_counter()

    def report(*, check_name, exception, status, **_):
        nonlocal failed
        failed += status == "failed"
        print(
            f"{time.perf_counter() - began:7.0f} s  {status:8} {check_name} {exception or ''}"[:200],
            flush=True,
        )

    for name in names or ["BayesianRegressor", "BayesianClassifier"]:
        estimator = getattr(iso.estimators, name)(num_draws=20, num_chains=2)
        check_estimator(
            estimator, on_fail=None, on_skip=None, expected_failed_checks=EXPECTED, callback=report
        )
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
