"""Cases: an original, the damage to a copy of it, and how the copy is read. All follow from a seed and a number."""

import dataclasses
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from campaigns.damaged.bytes_damage import BYTES, PLACES, Damage, files
from campaigns.damaged.json_damage import JSON
from campaigns.damaged.originals import Original
from campaigns.damaged.reading import OPTIONAL, READERS, Answer, Ending, judged
from campaigns.damaged.zip_damage import ZIP

_SEVERAL = 0.2  # share of cases in which several files or places are damaged
_WEIGHTS = {"draws": 2, "run": 4, "ended": 4, "tuned": 1, "sampled": 3, "data": 1, "passes": 1, "part": 1}


@dataclasses.dataclass(frozen=True)
class Case:
    """A damaged copy of an original.

    - `kind`, `label`: the row of the table; reader, file and damage.
    - `damaged`: the names of the damaged files.
    """

    kind: str
    label: str
    folder: Path
    original: Original
    reader: str
    damaged: list[str]


def kind_of(original: Original, path: Path) -> str:
    """Return the row of the table that a file belongs to."""
    if original.name in ("data", "passes", "part"):
        return "checksum" if path.suffix == ".sha256" else original.name
    if path.suffix == ".iso":
        return path.stem.split("-")[0] if original.name != "draws" else "draws"
    if "draws.zarr" in path.parts:
        return "chunk" if path.suffix != ".json" and path.parent.name not in ("chain", "draw") else "zarr"
    return path.stem


class Cases:
    """Makes cases in a folder, and judges them."""

    def __init__(self, originals: list[Original], folder: Path) -> None:
        self.originals, self.copy = originals, folder / "copy" / "it"
        self.expected: dict[tuple[Path, str], list[Answer]] = {}

    def expect(self) -> None:
        """Read every original in every way."""
        for original in self.originals:
            for name, read in READERS[original.name].items():
                self._copied(original)
                answers = [read(self.copy)]
                for gone in OPTIONAL.get(name, ()):
                    if (self.copy / gone).exists():
                        self._copied(original)
                        (self.copy / gone).unlink()
                        answers.append(read(self.copy))
                self.expected[original.folder, name] = answers
                if original.name == "sampled":
                    answers += self._of_another(original, name, read)

    def _of_another(self, original: Original, name: str, read: Callable[[Path], Answer]) -> list[Answer]:
        """Return answers from whole files of another run that nothing tells from those of this one.

        They are settings, of which a resumption checks the posterior and the data, and draws without a diagnosis.
        """
        self._copied(dataclasses.replace(original, folder=original.other))
        for gone in OPTIONAL.get(name, ()):
            (self.copy / gone).unlink()
        return [read(self.copy)]

    def _copied(self, original: Original) -> None:
        shutil.rmtree(self.copy.parent, ignore_errors=True)
        shutil.copytree(original.folder, self.copy)
        if (table := original.folder.parent / "new.csv").exists():
            shutil.copy(table, self.copy.parent)

    def case(self, seed: int, number: int) -> Case:
        """Return a case, whose files are in the only folder for copies."""
        rng = random.Random(f"{seed} {number}")
        weights = [_WEIGHTS[x.name] for x in self.originals]
        (original,) = rng.choices(self.originals, weights)
        reader = rng.choice(list(READERS[original.name]))
        self._copied(original)
        count = rng.randint(2, 4) if rng.random() < _SEVERAL else 1
        labels, damaged, kind = [], [], ""
        while len(labels) < count:
            left = [x for x in files(self.copy) if str(x.relative_to(self.copy)) not in damaged]
            if not left:
                break
            kinds = {path: kind_of(original, path.relative_to(self.copy)) for path in left}
            chosen = rng.choice(sorted(set(kinds.values())))  # most files are metadata of Zarr
            path = rng.choice([x for x in left if kinds[x] == chosen])
            kind = kind or chosen
            damage = rng.choice(_damages(rng, path))
            name = str(path.relative_to(self.copy))
            if (what := damage(rng, self.copy, path, original)) is not None:
                labels.append(f"{name} {what}")
                damaged.append(name)
                if what.startswith("swapped with "):
                    damaged.append(what.removeprefix("swapped with "))
        label = f"{original.name} read by {reader}: {'; '.join(labels)}"
        return Case(kind, label, self.copy, original, reader, damaged)

    def judged(self, case: Case) -> Ending:
        """Read the copy and return what that ended in."""
        expected = self.expected[case.original.folder, case.reader]
        read = READERS[case.original.name][case.reader]
        return judged(read, case.folder, expected, case.damaged, case.label)


def _damages(rng: random.Random, path: Path) -> tuple[Damage, ...]:
    """Return one family of damage that can be done to a file."""
    inner = {".iso": ZIP, ".json": JSON}.get(path.suffix)
    families = [BYTES, BYTES, PLACES] if inner is None else [BYTES, PLACES, inner, inner]
    return rng.choice(families)
