"""Damages every kind of file that isotherm writes and reads back, and counts what reading them ends in.

    python tests/campaigns/damaged_files.py --cases 10000 --seed 1

Every case must end in the same numbers, bit for bit, or in a sentence that names the file. `same` includes an older
state that is whole: a resumption ends in the same draws, and `iso.load` returns the first of them as those of a run
that has not ended. In a `forged` case other content was given checksums that fit it: it is another whole file. The
columns silent, raw, hang, crash and memory must be zero. `--first N --cases N+1` runs case N again.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Most of the time at the start goes into compilation, and each child compiles the same programs.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[2] / ".pytest_cache" / "programs")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
sys.path.insert(0, str(Path(__file__).parents[1]))

from campaigns.damaged.run import main

if __name__ == "__main__":
    sys.exit(main())
