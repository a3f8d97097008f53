"""The value of arithmetic of columns, without running it as Python."""

import ast
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

ELEMENTWISE: dict[str, Callable[[Any], Any]] = {
    "log": np.log,
    "log1p": np.log1p,
    "log10": np.log10,
    "log2": np.log2,
    "exp": np.exp,
    "expm1": np.expm1,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "sin": np.sin,
    "cos": np.cos,
    "I": lambda x: x,
}
OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}


@dataclasses.dataclass(frozen=True)
class Expression:
    """An expression that was checked.

    - `columns`: those that it reads, and `categories`, those that it reads as categories.
    - `elementwise`: whether the value of a row depends on that row alone, and is one number.
    - `arguments`: of functions that learn from the data, the elementwise expressions that they are applied to.
    - `width`: the number of matrix columns that it makes at most; a category counts as one.
    """

    text: str
    columns: tuple[str, ...]
    categories: tuple[str, ...]
    elementwise: bool
    arguments: tuple["Expression", ...]
    width: int
    node: ast.expr = dataclasses.field(repr=False, compare=False)
    names: Mapping[str, str] = dataclasses.field(repr=False, compare=False)

    @property
    def plain(self) -> str | None:
        """The column, if the expression is its name and nothing else."""
        is_name = isinstance(self.node, ast.Name) or (
            isinstance(self.node, ast.Call) and ast.unparse(self.node.func) == "Q"
        )
        return self.columns[0] if is_name else None

    def __call__(self, columns: Mapping[str, Float[np.ndarray, " n"]]) -> Float[np.ndarray, " n"]:
        """Return the value of an elementwise expression in each row."""
        with np.errstate(all="ignore"):
            return np.asarray(
                _value(self.node, {name: columns[x] for name, x in self.names.items()}), np.float64
            )


def _value(node: ast.expr, columns: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return columns[node.id]
    if isinstance(node, ast.Constant):
        return float(node.value)  # pyrefly: ignore
    if isinstance(node, ast.UnaryOp):
        value = _value(node.operand, columns)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](_value(node.left, columns), _value(node.right, columns))
    if isinstance(node, ast.Compare):
        left, right = _value(node.left, columns), _value(node.comparators[0], columns)
        found = np.asarray(OPERATORS[type(node.ops[0])](left, right), np.float64)
        return np.where(np.isnan(left) | np.isnan(right), np.nan, found)
    assert isinstance(node, ast.Call)
    name = ast.unparse(node.func)
    if name == "Q":
        return columns[node.args[0].value]  # pyrefly: ignore
    return ELEMENTWISE[name.removeprefix("np.")](_value(node.args[0], columns))
