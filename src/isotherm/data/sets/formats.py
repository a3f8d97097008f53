"""Readers for the formats of the data sets, from uncompressed content to arrays."""

import io
from typing import Any

import numpy as np

from isotherm.errors import missing_extra


def idx(content: bytes) -> np.ndarray:
    """Return the array in a file of MNIST's format.

    It holds two zero bytes, the type 8 of unsigned bytes, the number of axes, their lengths, and the data.
    """
    if content[:3] != b"\0\0\x08":
        raise ValueError(f"an idx file of bytes must start with 00 00 08; got {content[:3].hex(' ')}.")
    axes = content[3]
    shape = np.frombuffer(content, ">u4", count=axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)


def libsvm_reader() -> Any:
    """Return scikit-learn's reader of LIBSVM's text format; raise an error if the extra `datasets` is missing."""
    try:
        from sklearn.datasets import load_svmlight_file
    except ImportError as error:
        raise missing_extra("iso.data.load", "datasets") from error
    return load_svmlight_file


def libsvm(content: bytes, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return dense rows and labels from LIBSVM's text, `label index:value ...` with indices from 1."""
    read = libsvm_reader()
    rows, labels = read(io.BytesIO(content), n_features=features, dtype=np.float32, zero_based=False)
    return rows.toarray(), labels.astype(np.int32)


def table(content: bytes, separator: str) -> np.ndarray:
    """Return a table of integers whose first line holds names."""
    return np.loadtxt(io.BytesIO(content), delimiter=separator, skiprows=1, dtype=np.int32)


def one_hot(x: np.ndarray, values: int) -> np.ndarray:
    """Return `values` columns for each column of x; in every row one of them is 1, the others are 0."""
    return (x[:, :, None] == np.arange(values)).reshape(len(x), -1).astype(np.float32)
