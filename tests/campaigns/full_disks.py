"""Fills the disk, or reaches a limit on the size of files, at a random place of stored runs, and resumes each.

    python tests/campaigns/full_disks.py --runs 60 --seed 1

A run must end with the sentence that says what to do. What it stored must be readable, and after room has been made
it must end in the bits of a run that was never ended. Full disks are file systems in memory of a random size, which
only root can mount; without that right all runs meet limits on the size of files.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent)]

import numpy as np

import isotherm as iso
from campaigns.kills import NO_ROOM, child, equal
from support.stored_run import ALONE

OUTCOMES = ("same", "different", "unreadable", "unclear")


def mounted(folder: Path, size: int, *options: str) -> bool:
    """Give `folder` a file system in memory of `size` bytes, or change its size; return whether that worked."""
    command = ["mount", "-t", "tmpfs", "-o", ",".join([*options, f"size={size}"]), "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True).returncode == 0


def outcome(case: str, folder: Path, whole: int, largest: int, rng: random.Random) -> tuple[str, str]:
    """Run out of room once or more in a run of `case`, then make room. Return the outcome and its reason."""
    path, result = folder / "run", folder / "result.npz"
    path.mkdir()
    is_disk = rng.random() < 0.5 and mounted(path, max(4096, int(whole * rng.uniform(0.01, 1.0))))
    try:
        end = {} if is_disk else {"largest_file": int(largest * rng.random())}
        made = child(case, path, result, end)
        if made.code not in (0, NO_ROOM):
            return "unclear", f"exit status {made.code}"
        if made.code == NO_ROOM and is_stored_state(path) and not readable(path):
            return "unreadable", "the stored draws"
        if is_disk:
            assert mounted(path, 100 * whole, "remount")
        if made.code == NO_ROOM and (code := child(case, path, result, {}).code) != 0:
            return "unclear", f"exit status {code} after room was made"
        return ("same" if equal(result, dict(np.load(folder.parent / f"{case}.npz"))) else "different"), ""
    finally:
        if is_disk:
            subprocess.run(["umount", str(path)], check=True)


def is_stored_state(path: Path) -> bool:
    """Return whether a state was written before the disk was full."""
    return any(path.glob("state-*.iso"))


def readable(path: Path) -> bool:
    """Return whether the draws so far can be loaded, and are numbers."""
    return bool(np.isfinite(np.asarray(iso.load(path).posterior)).all())


def main() -> int:
    """Run the campaign, print a table, and return 1 if a run was lost, changed or ended without the sentence."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng, counts, began = random.Random(options.seed), dict.fromkeys(OUTCOMES, 0), time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="isotherm-full-") as name:
        iso.keep_compiled(Path(name) / "programs")
        sizes = {}
        for case in ALONE:
            folder, result = Path(name) / f"{case}-whole", Path(name) / f"{case}.npz"
            made = child(case, folder, result, {})
            assert made.code == 0, Path(f"{result}.log").read_text()
            files = [x.stat().st_size for x in folder.rglob("*") if x.is_file()]
            sizes[case] = sum(files), max(files)
        for i in range(options.runs):
            case = rng.choice(ALONE)
            folder = Path(name) / f"{case}-{i}"
            folder.mkdir()
            found, why = outcome(case, folder, *sizes[case], rng)
            counts[found] += 1
            if found != "same":
                log = (folder / "result.npz.log").read_text()[-2000:]
                print(f"{i} {case}: {found}: {why}\n{log}", flush=True)
    print(
        "  ".join(f"{key}: {counts[key]}" for key in OUTCOMES) + f"  in {time.perf_counter() - began:.0f} s"
    )
    return int(counts["same"] < options.runs)


if __name__ == "__main__":
    sys.exit(main())
