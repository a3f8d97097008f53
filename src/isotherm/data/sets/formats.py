"""Readers of the formats in which data sets are published, from uncompressed content to arrays."""

import io
from typing import Any

import numpy as np

from isotherm.errors import missing_extra


def idx(content: bytes) -> np.ndarray:
    """MNIST's: two zero bytes, the type 8 of unsigned bytes, the number of axes, their lengths, the bytes."""
    if content[:3] != b"\0\0\x08":
        raise ValueError(f"an idx file of bytes starts with 00 00 08; this one with {content[:3].hex(' ')}.")
    axes = content[3]
    shape = np.frombuffer(content, ">u4", count=axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)


def libsvm(content: bytes, features: int) -> tuple[np.ndarray, np.ndarray]:
    """LIBSVM's text, `label index:value ...` with indices from 1: dense rows and labels."""
    try:
        from sklearn.datasets import load_svmlight_file
    except ImportError as error:
        raise missing_extra("iso.data.load", "datasets") from error
    read: Any = load_svmlight_file
    rows, labels = read(io.BytesIO(content), n_features=features, dtype=np.float32, zero_based=False)
    return rows.toarray(), labels.astype(np.int32)


def table(content: bytes, separator: str) -> np.ndarray:
    """Whole numbers under a line of names."""
    return np.loadtxt(io.BytesIO(content), delimiter=separator, skiprows=1, dtype=np.int32)


def one_hot(x: np.ndarray, values: int) -> np.ndarray:
    """Each column in `values` columns, of which one is 1."""
    return (x[:, :, None] == np.arange(values)).reshape(len(x), -1).astype(np.float32)
