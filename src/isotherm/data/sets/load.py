"""Data sets by name, split as in the CCAdL paper."""

import dataclasses
from collections.abc import Callable

import numpy as np

from isotherm.data.sets.catalogue import ENTRIES, Entry
from isotherm.data.sets.fetch import fetch
from isotherm.data.sets.formats import idx, libsvm, libsvm_reader, one_hot, table
from isotherm.errors import must

_SEED = 0  # of the splits of data sets that are published without one
Part = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class DataSet:
    """Training and test rows. `x` is float32; `y` is -1 or 1 for two classes, and 0, 1, ... for more."""

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    source: str
    licence: str

    @property
    def train(self) -> dict[str, np.ndarray]:
        """The training rows, as `iso.sample` takes them."""
        return {"x": self.x_train, "y": self.y_train}

    @property
    def test(self) -> dict[str, np.ndarray]:
        """The test rows."""
        return {"x": self.x_test, "y": self.y_test}

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return ENTRIES[self.name].classes

    def __repr__(self) -> str:
        rows = f"{len(self.x_train):,} + {len(self.x_test):,} rows of {self.x_train.shape[1]}"
        return f"DataSet({self.name}: {rows}, {self.num_classes} classes; {self.source}, {self.licence})"


def load(name: str) -> DataSet:
    """Return a data set by its name; `isotherm data` lists the names.

    Files are looked for in the folder that the environment variable ISOTHERM_DATA_DIR names, then in the user's
    cache; otherwise they are downloaded into the cache. The uncompressed content of each is checked by its checksum.

    - `"mnist-7v9"`: pixels in [0, 1]; sevens are 1 and nines -1.
    - `"mnist"`: pixels in [0, 1].
    - `"connect-4"`: 42 squares, three columns each; split by a seeded permutation into the paper's sizes.
    - `"letter"`, `"acoustic"`, `"a9a"`: LIBSVM's files and split. They need the extra `datasets`.
    - `"covertype"`: the ten measured columns are standardised by the training rows; split by a seeded permutation,
      four fifths for training.
    """
    if name not in ENTRIES:
        raise must("name", f"one of {', '.join(map(repr, ENTRIES))}", name)
    entry, reader = ENTRIES[name], _READERS[name]
    if reader is _libsvm:
        libsvm_reader()  # report a missing extra before anything is downloaded
    (x_train, y_train), (x_test, y_test) = reader(entry, [fetch(file) for file in entry.files])
    for part, x, rows in (("training", x_train, entry.train), ("testing", x_test, entry.test)):
        if x.shape != (rows, entry.features):
            raise OSError(
                f"the files of {name} must hold {rows:,} rows of {entry.features} features for {part}; they hold "
                f"{x.shape[0]:,} of {x.shape[1]}. One of {', '.join(f.name for f in entry.files)} is truncated or "
                "is the wrong file."
            )
    return DataSet(name, x_train, y_train, x_test, y_test, entry.source, entry.licence)


def _mnist(entry: Entry, contents: list[bytes]) -> tuple[Part, Part]:
    del entry
    images, labels, test_images, test_labels = map(idx, contents)
    return _pixels(images, labels), _pixels(test_images, test_labels)


def _pixels(images: np.ndarray, labels: np.ndarray) -> Part:
    return images.reshape(len(images), -1).astype(np.float32) / 255, labels.astype(np.int32)


def _sevens_and_nines(entry: Entry, contents: list[bytes]) -> tuple[Part, Part]:
    def sevens_and_nines(part: Part) -> Part:
        x, y = part
        keep = (y == 7) | (y == 9)
        return x[keep], np.where(y[keep] == 7, 1, -1).astype(np.int32)

    train, test = _mnist(entry, contents)
    return sevens_and_nines(train), sevens_and_nines(test)


def _connect_4(entry: Entry, contents: list[bytes]) -> tuple[Part, Part]:
    rows = table(contents[0], "\t")
    return _split(one_hot(rows[:, :-1], 3), rows[:, -1], entry.train)


def _covertype(entry: Entry, contents: list[bytes]) -> tuple[Part, Part]:
    rows = table(contents[0], ",")
    (x, y), (x_test, y_test) = _split(rows[:, :-1].astype(np.float32), rows[:, -1] - 1, entry.train)
    mean, sd = x[:, :10].mean(axis=0, dtype=np.float64), x[:, :10].std(axis=0, dtype=np.float64)
    for part in (x, x_test):
        part[:, :10] = (part[:, :10] - mean) / sd
    return (x, y), (x_test, y_test)


def _libsvm(entry: Entry, contents: list[bytes]) -> tuple[Part, Part]:
    train, test = (libsvm(content, entry.features) for content in contents)
    # Classes are numbered from 1; two classes are -1 and 1 already.
    shift = 0 if entry.classes == 2 else 1
    return (train[0], train[1] - shift), (test[0], test[1] - shift)


def _split(x: np.ndarray, y: np.ndarray, train: int) -> tuple[Part, Part]:
    order = np.random.default_rng(_SEED).permutation(len(x))
    return (x[order[:train]], y[order[:train]]), (x[order[train:]], y[order[train:]])


_READERS: dict[str, Callable[[Entry, list[bytes]], tuple[Part, Part]]] = {
    "mnist-7v9": _sevens_and_nines,
    "mnist": _mnist,
    "connect-4": _connect_4,
    "letter": _libsvm,
    "acoustic": _libsvm,
    "covertype": _covertype,
    "a9a": _libsvm,
}
