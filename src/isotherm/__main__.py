"""`python -m isotherm`, for when the command `isotherm` is not on the path."""

import sys

from isotherm.cli import main

if __name__ == "__main__":
    sys.exit(main())
