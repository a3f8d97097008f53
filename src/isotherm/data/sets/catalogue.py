"""The data sets that `load` knows: their files, checksums of the uncompressed content, origins and licences."""

import dataclasses

_MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist"
_PMLB = "https://github.com/EpistasisLab/pmlb/raw/253138e2aa4098734fb9154ec3570fbcad5f4197/datasets"
_LETTER = (
    "https://raw.githubusercontent.com/LarryHH/absa-svm/d09d5360d81c20487af738785707fc962354f2d9/datasets"
)
_A9A = "https://raw.githubusercontent.com/djurikom/BudgetedSVM/cce05ffcf9720fdb0201d804335d09cdd82a7e92"
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/vehicle"
_COVERTYPE = (
    "https://raw.githubusercontent.com/scikit-multiflow/scikit-multiflow/v0.4.1/src/skmultiflow/data/datasets"
)


@dataclasses.dataclass(frozen=True)
class File:
    """One file, named without a compression suffix: `a.gz`, `a.xz` and `a.bz2` can all stand for `a`.

    `size` and `sha256` describe the uncompressed content. A file without a checksum is read only if the user has put
    one beside it.
    """

    name: str
    url: str
    size: int | None = None
    sha256: str | None = None

    @property
    def about(self) -> str:
        """The size of the file in words."""
        return "size unknown" if self.size is None else f"{self.size:,} bytes uncompressed"


@dataclasses.dataclass(frozen=True)
class Entry:
    """The description of a data set: files, training and test rows, features, classes, source and licence."""

    files: tuple[File, ...]
    train: int
    test: int
    features: int
    classes: int
    source: str
    licence: str


_MNIST_FILES = (
    File(
        "mnist/train-images-idx3-ubyte",
        f"{_MNIST}/train-images-idx3-ubyte.gz",
        47_040_016,
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    File(
        "mnist/train-labels-idx1-ubyte",
        f"{_MNIST}/train-labels-idx1-ubyte.gz",
        60_008,
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    File(
        "mnist/t10k-images-idx3-ubyte",
        f"{_MNIST}/t10k-images-idx3-ubyte.gz",
        7_840_016,
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    File(
        "mnist/t10k-labels-idx1-ubyte",
        f"{_MNIST}/t10k-labels-idx1-ubyte.gz",
        10_008,
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)
_MNIST_SOURCE = "MNIST handwritten digits (Y. LeCun, C. Cortes)"

ENTRIES: dict[str, Entry] = {
    "mnist-7v9": Entry(_MNIST_FILES, 12_214, 2_037, 784, 2, _MNIST_SOURCE, "CC BY-SA 3.0"),
    "mnist": Entry(_MNIST_FILES, 60_000, 10_000, 784, 10, _MNIST_SOURCE, "CC BY-SA 3.0"),
    "connect-4": Entry(
        (
            File(
                "connect-4/connect_4.tsv",
                f"{_PMLB}/connect_4/connect_4.tsv.gz",
                5_810_035,
                "8209a4bca4de6c0073d781d31751dc07b57a38d5c75196ef5b69f2c87374c1a9",
            ),
        ),
        54_046,
        13_511,
        126,
        3,
        "UCI Connect-4 (J. Tromp), as in PMLB",
        "CC BY 4.0",
    ),
    "letter": Entry(
        (
            File(
                "letter/letter.scale.tr",
                f"{_LETTER}/letter.scale.tr",
                1_841_833,
                "701e46fa614770d41849b5df32268515df49559463887d50f00d6e1aeeaee7b9",
            ),
            File(
                "letter/letter.scale.t",
                f"{_LETTER}/letter.scale.t",
                877_223,
                "07522ccbf54187fae6d560d1712b88c41ea1f7e8d19491c5adcc22ee37a075da",
            ),
        ),
        10_500,
        5_000,
        16,
        26,
        "UCI Letter Recognition (D. Slate), scaled and split by LIBSVM",
        "CC BY 4.0",
    ),
    "acoustic": Entry(
        (
            File("acoustic/acoustic", f"{_LIBSVM}/acoustic.bz2"),
            File("acoustic/acoustic.t", f"{_LIBSVM}/acoustic.t.bz2"),
        ),
        78_823,
        19_705,
        50,
        3,
        "SensIT Vehicle, acoustic (M. Duarte, Y. H. Hu), as in LIBSVM",
        "not stated",
    ),
    "covertype": Entry(
        (
            File(
                "covertype/covtype.csv",
                f"{_COVERTYPE}/covtype.csv",
                75_170_064,
                "ea35ca6820fcbe0bdc6707e9ed31e11a9de84f07d88da73b511c737383c271a6",
            ),
        ),
        464_810,
        116_202,
        54,
        7,
        "UCI Covertype (J. Blackard), as in scikit-multiflow",
        "CC BY 4.0",
    ),
    "a9a": Entry(
        (
            File(
                "a9a/a9a",
                f"{_A9A}/a9a_train.txt",
                2_329_875,
                "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
            ),
            File(
                "a9a/a9a.t",
                f"{_A9A}/a9a_test.txt",
                1_164_628,
                "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
            ),
        ),
        32_561,
        16_281,
        123,
        2,
        "UCI Adult (B. Becker, R. Kohavi), as encoded by J. Platt for LIBSVM",
        "CC BY 4.0",
    ),
}
