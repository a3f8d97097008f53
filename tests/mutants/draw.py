"""A random sample of mutants, in which each folder has its share of the places that can be mutated."""

import hashlib
from collections import defaultdict
from pathlib import Path

from mutants.places import Mutant, nodes


def draw(package: Path, *, count: int, seed: int, only: tuple[str, ...] = ()) -> list[Mutant]:
    """Return `count` mutants of different nodes, drawn with a seed.

    The order of nodes follows from hashes of their names: a larger sample contains almost all of a smaller one, and a
    change of the source leaves most of the others drawn.
    """
    by_folder: dict[str, list[list[Mutant]]] = defaultdict(list)
    for mutants in nodes(package):
        if not only or mutants[0].folder in only or mutants[0].file in only:
            by_folder[mutants[0].folder].append(mutants)
    counts = shares({folder: len(places) for folder, places in by_folder.items()}, count)
    drawn = []
    for folder, places in by_folder.items():
        places.sort(key=lambda mutants: _hash(seed, mutants[0].name))
        drawn += [min(mutants, key=lambda m: _hash(seed, m.name)) for mutants in places[: counts[folder]]]
    return sorted(drawn, key=lambda mutant: _hash(seed, mutant.name))


def shares(sizes: dict[str, int], count: int) -> dict[str, int]:
    """Return how many of `count` each folder gets: its share, rounded so that the sum is right."""
    total = sum(sizes.values())
    count = min(count, total)
    exact = {folder: count * size / total for folder, size in sizes.items()}
    whole = {folder: int(x) for folder, x in exact.items()}
    by_remainder = sorted(exact, key=lambda folder: whole[folder] - exact[folder])
    for folder in by_remainder[: count - sum(whole.values())]:
        whole[folder] += 1
    return whole


def _hash(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed} {name}".encode()).digest()
