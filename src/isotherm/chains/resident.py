"""A kernel and rows in memory by which its noise can be measured, wherever the rows of the run come from."""

import dataclasses

from jaxtyping import Array, Key, PyTree

from isotherm.data.fed import Pool
from isotherm.data.stream import Stream
from isotherm.kernel import Kernel


def resident(kernel: Kernel, data: PyTree[Array] | Stream, *, key: Key[Array, ""]) -> tuple[Kernel, PyTree[Array]]:
    """Return a kernel and arrays whose batches have the noise of `kernel` on `data`.

    For arrays they are that kernel and the rows as its plan arranges them. For a stream, batches are drawn from rows
    that its plan has drawn before.
    """
    if not isinstance(data, Stream):
        return kernel, kernel.minibatch.arrange(data, key=key)
    pool = kernel.minibatch.pool_of(data)
    return dataclasses.replace(kernel, minibatch=Pool(pool.weights)), pool.rows
