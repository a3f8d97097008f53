"""Calls the library with hostile input and counts what each call ends in.

    python tests/campaigns/hostile_input.py --cases 10000 --seed 1

Every case must end in the right answer, in a sentence that names the argument, or in an error of the user's own
function. The columns silent, raw, hang and crash must be zero.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Most of the time goes into compilation, and cases of one seed and the next compile the same programs.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[2] / ".pytest_cache" / "programs")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

sys.path.insert(0, str(Path(__file__).parents[1]))

from campaigns.hostile.run import main

if __name__ == "__main__":
    sys.exit(main())
