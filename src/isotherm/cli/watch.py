"""`isotherm watch`: a run that is under way, seen from another terminal."""

import argparse
import dataclasses
import time
from pathlib import Path

from isotherm.cli.arguments import Subparsers, add_command
from isotherm.cli.messages import complain, say


def add_watch(commands: Subparsers) -> None:
    """Add `isotherm watch DIR`, which shows how far a run has come."""
    parser = add_command(
        commands,
        "watch",
        help="show a run that is under way in another terminal",
        description="Show how far the run in DIR has come, with a summary and a verdict of the draws so far, until "
        "it ends. It only reads: the run is not disturbed. Exit status: 0, or 2 if there is no run in DIR.",
        example=_EXAMPLE,
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of a run, or of `store=` in Python")
    parser.add_argument("--once", action="store_true", help="show it once and stop")
    parser.add_argument(
        "--every", type=float, default=5.0, metavar="SECONDS", help="time between two looks (default: 5)"
    )
    parser.set_defaults(run=watch)


def watch(options: argparse.Namespace) -> int:
    """Show a run until it ends; return the exit code."""
    from isotherm.cli.folder import STORE

    folder = options.folder / STORE if (options.folder / STORE).is_dir() else options.folder
    try:
        while True:
            text, ended = look(folder)
            say(text)
            if options.once or ended:
                return 0
            time.sleep(max(options.every, 0.1))
            say("")
    except KeyboardInterrupt:
        return 0
    except ValueError as error:
        complain(str(error))
        return 2


def look(folder: Path) -> tuple[str, bool]:
    """Return what there is to say about a run, and whether it has ended."""
    from isotherm.chains.loading import load
    from isotherm.store.lock import is_locked
    from isotherm.store.saved import parts, read_snapshot

    found = list(parts(folder))
    if not found:
        raise ValueError(f"{folder} is not the folder of a run")
    running = any(is_locked(part) for part in found)
    states = [read_snapshot(part) for part in found]
    known = [state for state in states if state is not None]
    if len(known) < len(states):
        return ("in its warm-up" if running else "ended in its warm-up"), not running
    behind = min(known, key=lambda state: state.about["step"]).about
    share = behind["step"] / max(behind["num_steps"], 1)
    done = share >= 1
    doing = "complete" if done else "under way" if running else "ended early"
    left = behind["seconds"] * (1 / share - 1) if 0 < share < 1 and running else None
    line = f"{doing}: {behind['step']:,} of {behind['num_steps']:,} steps ({share:.0%}), "
    line += f"{behind['drawn']:,} of {behind['num_draws']:,} draws per chain, {behind['seconds']:.0f} s"
    line += "" if left is None else f", about {left:.0f} s left"
    draws = load(folder)
    if draws.num_draws >= 4:
        # That it is under way is no fault of the draws so far.
        draws = dataclasses.replace(draws, record=dataclasses.replace(draws.record, interrupted=False))
        line += f"\n{draws.summary()}"
    return line, not running


_EXAMPLE = """\
example:
  isotherm sample spec.toml --out run    # in one terminal
  isotherm watch run                     # in another
"""
