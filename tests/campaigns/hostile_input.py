"""Calls the library with hostile input and counts what each call ends in.

    python tests/campaigns/hostile_input.py --cases 10000 --seed 1

Every case must end in the right answer, in a sentence that names the argument, or in an error of the user's own
function. The columns silent, raw, hang and crash must be zero.
"""

import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hostile.run import main

if __name__ == "__main__":
    sys.exit(main())
