"""Ends stored runs again and again, resumes each, and compares the draws with those of a run that was never ended.

    python tests/campaigns/kills.py --kills 200 --terms 50 --interrupts 50 --seed 1

A run is ended at a random time, or inside a random operation on the disk, several times before it may come to its
end. Every number in its result must then be the same, bit for bit. Children are forked from a process that has
imported everything but started no device, which saves most of the time. A `pair` is a run by two processes: one of
them, or both, are ended, and then the other.
"""

import argparse
import dataclasses
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent)]

import jax
import numpy as np

import isotherm as iso
import isotherm.chains.loading
import isotherm.sampling.resume
from support import several, stored_run
from support.stored_run import CASES

OUTCOMES = ("same", "different", "lost", "crash", "hang")
_DRAWS = 3000
_LIMIT = 300.0  # seconds for one child
NO_ROOM = 98  # exit status of a child that could not write, and said what to do


@dataclasses.dataclass
class Child:
    """How a child was started and how it ended. `code` is negative for a signal."""

    code: int
    seconds: float


def child(case: str, folder: Path, result: Path, end: dict[str, float | int]) -> Child:
    """Run `case` in a forked process, and end it by a signal after some seconds, or in some operation."""
    stored = stored_run.is_stored(case, folder)
    if case != "pair":
        return waited(forked(case, folder, result, end, stored=stored), end)
    port = several.free_port()
    other = {k: v for k, v in end.items() if k != "operation"}
    second = forked(case, folder, Path(f"{result}.other"), other, stored=stored, process=(1, port))
    first = waited(forked(case, folder, result, end, stored=stored, process=(0, port)), end)
    if first.code < 0:
        os.kill(second, signal.SIGKILL)  # as a scheduler does when one of its processes is lost
    waited(second, {})
    return first


def forked(
    case: str,
    folder: Path,
    result: Path,
    end: dict[str, float | int],
    *,
    stored: bool,
    process: tuple[int, str] | None = None,
) -> int:
    """Start `case` in a forked process, as one of two if it is given its number and their port."""
    pid = os.fork()
    if pid == 0:
        try:
            log = os.open(f"{result}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1), os.dup2(log, 2)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if "operation" in end:
                stored_run.die_in_operation(int(end["operation"]))
            if "largest_file" in end:
                resource.setrlimit(resource.RLIMIT_FSIZE, (int(end["largest_file"]),) * 2)
            if process is not None:
                jax.distributed.initialize(f"localhost:{process[1]}", 2, process[0])
            stored_run.main(case, str(folder), str(_DRAWS), str(result), stored=stored)
            os._exit(0)
        except SystemExit as error:
            os._exit(int(error.code or 0))
        except KeyboardInterrupt:
            os._exit(130)
        except OSError as error:
            print(error, flush=True)
            os._exit(NO_ROOM if "Make room" in str(error) else 99)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(99)
    return pid


def waited(pid: int, end: dict[str, float | int]) -> Child:
    """Wait for a process, and end it when it is due."""
    began, sent = time.perf_counter(), False
    while time.perf_counter() - began < _LIMIT:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return Child(os.waitstatus_to_exitcode(status), time.perf_counter() - began)
        if "seconds" in end and not sent and time.perf_counter() - began > end["seconds"]:
            os.kill(pid, int(end["signal"]))
            sent = True
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return Child(-999, _LIMIT)


def ends(number: signal.Signals, whole: float, rng: random.Random) -> dict[str, float | int]:
    """Return when and how a child is ended."""
    if number == signal.SIGKILL and rng.random() < 0.5:
        return {"operation": rng.randint(1, 120)}
    return {"seconds": rng.uniform(0.0, whole), "signal": int(number)}


def equal(result: Path, expected: dict[str, np.ndarray]) -> bool:
    """Return whether a file of results holds the expected arrays, bit for bit."""
    found = dict(np.load(result))
    return found.keys() == expected.keys() and all(
        np.array_equal(found[k], expected[k], equal_nan=True) for k in expected
    )


def campaign(case: str, kills: list[signal.Signals], seed: int, folder: Path) -> dict[str, int]:
    """End runs of `case` by each of the signals in turn; return counts of outcomes."""
    rng, counts = (
        random.Random(f"{case} {seed}"),
        dict.fromkeys(OUTCOMES, 0),
    )
    reference = folder / f"{case}.npz"
    child(case, folder / f"{case}-warm", folder / f"{case}-warm.npz", {})  # fills the cache of programs
    first = child(case, folder / f"{case}-whole", reference, {})
    assert first.code == 0, Path(f"{reference}.log").read_text()
    expected = dict(np.load(reference))
    todo, run = list(kills), 0
    while todo:
        path, result, ended, run = folder / f"{case}-{run}", folder / f"{case}-{run}.npz", [], run + 1
        rounds = [todo.pop() for _ in range(min(len(todo), rng.randint(1, 6)))]
        bad = None
        for number in rounds:
            if result.exists():
                break
            made = child(case, path, result, ends(number, first.seconds, rng))
            ended.append(made.code)
            if made.code not in (0, 130, 143, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT):
                bad = "hang" if made.code == -999 else "crash"
        if not result.exists():
            made = child(case, path, result, {})
            ended.append(made.code)
        if bad is None and not result.exists():
            bad = "lost"
        if bad is None:
            bad = "same" if equal(result, expected) else "different"
        counts[bad] += len(rounds)
        if bad != "same":
            print(
                f"{case} {run}: {bad}, ended {ended}\n{Path(f'{result}.log').read_text()[-3000:]}", flush=True
            )
        else:
            shutil.rmtree(path, ignore_errors=True)
    return counts


def main() -> int:
    """Run the campaign, print a table, and return 1 if a run was lost or changed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--terms", type=int, default=50)
    parser.add_argument("--interrupts", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    options = parser.parse_args()
    signals = [signal.SIGKILL] * options.kills + [signal.SIGTERM] * options.terms
    signals += [signal.SIGINT] * options.interrupts
    random.Random(options.seed).shuffle(signals)
    worst = 0
    with tempfile.TemporaryDirectory(prefix="isotherm-kills-") as name:
        folder = Path(name)
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder / "programs"))
        iso.keep_compiled(folder / "programs")
        began = time.perf_counter()
        print(f"{'case':10}" + "".join(f"{x:>11}" for x in ("ended", *OUTCOMES)))
        for i, case in enumerate(options.cases):
            mine = signals[i :: len(options.cases)]
            counts = campaign(case, mine, options.seed, folder)
            worst += len(mine) - counts["same"]
            row = [len(mine), *(counts[k] for k in OUTCOMES)]
            print(f"{case:10}" + "".join(f"{x:>11}" for x in row), flush=True)
        print(f"{time.perf_counter() - began:.0f} s")
    return int(worst > 0)


if __name__ == "__main__":
    sys.exit(main())
