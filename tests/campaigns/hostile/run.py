"""The campaign of hostile input: its cases, how they are judged, and what they may end in."""

import argparse
import sys
from pathlib import Path

import jax

from campaigns import watched

from .case import BAD, GOOD, judged
from .drawn import case

CAMPAIGN = watched.Campaign(
    [sys.executable, str(Path(__file__).parent.parent / "hostile_input.py")], GOOD, BAD, case, judged
)


def main() -> int:
    """Run the command."""
    return watched.main(
        CAMPAIGN, "Call the library with hostile input, and count what it ends in.", _prepared
    )


def _prepared(chosen: argparse.Namespace) -> watched.Campaign:
    del chosen
    jax.config.update("jax_disable_most_optimizations", True)  # programs are small and run once or twice
    return CAMPAIGN
