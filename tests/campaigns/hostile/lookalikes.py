"""Classes that behave like arrays of libraries that the tests do not install: torch, polars, CuPy and others."""

from typing import Any

import numpy as np


class Tensor:
    """A tensor of torch: it has a dtype of its own, and converts itself unless it needs a gradient."""

    def __init__(self, x: np.ndarray, *, grad: bool = False, device: str = "cpu") -> None:
        self.x, self.shape, self.ndim, self.dtype = x, x.shape, x.ndim, "torch.float32"
        self.requires_grad, self.device = grad, device

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self.requires_grad:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        if self.device != "cpu":
            raise TypeError("can't convert cuda:0 device type tensor to numpy.")
        return np.asarray(self.x, dtype)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: Any) -> "Tensor":
        return Tensor(self.x[index])

    def detach(self) -> "Tensor":
        return Tensor(self.x)

    def item(self) -> float:
        return float(self.x)


class Frame:
    """A frame of polars: a shape, columns by name, and a matrix as its array."""

    def __init__(self, x: np.ndarray) -> None:
        self.x, self.shape = x, x.shape
        self.columns, self.dtypes = [f"column_{i}" for i in range(x.shape[1])], ["Float32"] * x.shape[1]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.x, dtype)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.x[:, self.columns.index(name)]

    def item(self) -> float:
        raise ValueError("can only call `.item()` if the dataframe is of shape (1, 1)")


class LazyFrame:
    """A lazy frame of polars, which has no numbers yet."""

    def __init__(self, x: np.ndarray) -> None:
        self.columns = ["a", "b"]

    def __bool__(self) -> bool:
        raise TypeError("the truth value of a LazyFrame is ambiguous")


class OnDevice:
    """An array of CuPy, which refuses an implicit conversion."""

    def __init__(self, x: np.ndarray) -> None:
        self.shape, self.dtype, self.ndim = x.shape, x.dtype, x.ndim

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`.")


class ByInterface:
    """An array by its memory alone."""

    def __init__(self, x: np.ndarray) -> None:
        self.x = np.ascontiguousarray(x)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.x.__array_interface__


class ForJax:
    """An object with the method that JAX asks for."""

    def __init__(self, x: np.ndarray) -> None:
        self.x = x

    def __jax_array__(self) -> Any:
        import jax.numpy as jnp

        return jnp.asarray(self.x)


class Sequence:
    """Rows by number alone."""

    def __init__(self, x: np.ndarray) -> None:
        self.x = x

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> list[float]:
        return self.x[i].tolist()


class Mapping(dict):
    """A dictionary of a class of its own, which JAX does not take apart."""


LOOKALIKES = {
    "torch": Tensor,
    "torch with a gradient": lambda x: Tensor(x, grad=True),
    "torch on a GPU": lambda x: Tensor(x, device="cuda:0"),
    "polars": Frame,
    "lazy polars": LazyFrame,
    "CuPy": OnDevice,
    "array interface": ByInterface,
    "array for JAX": ForJax,
    "sequence": Sequence,
    "mapping": lambda x: Mapping(x=x),
}
