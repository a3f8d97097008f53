"""From columns of a table to a matrix: categories against a reference level, standardised, with names."""

import dataclasses
import difflib
import warnings
from collections.abc import Mapping, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from isotherm.errors import IsothermWarning, must

_LEVELS = 100  # of a category; text with more is a mistake in a column of numbers more often than not
FAR = 1e4  # standard deviations between a column and zero: more, and 32 bits do not hold its intercept
_DEPENDENT = 1e-6  # eigenvalue of the correlations below which columns depend on each other
_MOST, _ROWS = 2000, 65536  # columns for which that is looked at; rows taken at a time


class Standardized(eqx.Module):
    r"""Coefficients in the units of their columns, from those of standardised ones: a transform of vectors.

    With columns of mean m and scale s and a response of origin o and unit u, from intercept a and coefficients b

    $$\beta_j = u b_j / s_j, \qquad \alpha = o + u a - \sum_j \beta_j m_j.$$

    The vector is the intercept and the coefficients, along the last axis.
    """

    center: Float[Array, " F"]
    scale: Float[Array, " F"]
    origin: float = 0.0
    unit: float = 1.0

    def __call__(self, x: Float[Array, "*rows K"]) -> Float[Array, "*rows K"]:
        """Per unit of the column."""
        slopes = self.unit * x[..., 1:] / self._wide(self.scale, x)
        intercept = self.origin + self.unit * x[..., :1] - self._shift(slopes)
        return jnp.concatenate([intercept, slopes], axis=-1)

    def inv(self, y: Float[Array, "*rows K"]) -> Float[Array, "*rows K"]:
        """Per standard deviation of the column."""
        slopes = y[..., 1:]
        intercept = (y[..., :1] + self._shift(slopes) - self.origin) / self.unit
        return jnp.concatenate([intercept, slopes * self._wide(self.scale, y) / self.unit], axis=-1)

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """Of each vector: a constant."""
        del y
        volume = x.shape[-1] * jnp.log(self.unit) - jnp.sum(jnp.log(self.scale))
        return jnp.broadcast_to(volume.astype(x.dtype), x.shape[:-1])

    def _shift(self, slopes: Array) -> Array:
        return jnp.sum(slopes * self._wide(self.center, slopes), axis=-1, keepdims=True)

    def _wide(self, row: Array, like: Array) -> Array:
        return row.astype(like.dtype).reshape((1,) * (like.ndim - 1) + (-1,))


@dataclasses.dataclass(frozen=True, eq=False)
class Design:
    """Columns as a matrix, (x - center) / scale of each, their names, and the levels of each category.

    The first level is the one that the others are compared with. The scale is the standard deviation or, of a column
    of two values, what lies between them.
    """

    x: Float[np.ndarray, "N F"]
    names: tuple[str, ...]
    center: Float[np.ndarray, " F"]
    scale: Float[np.ndarray, " F"]
    levels: dict[str, list[str]]


def design(
    columns: Mapping[str, np.ndarray],
    features: Sequence[str],
    *,
    categorical: Sequence[str] = (),
    standardize: bool = True,
) -> Design:
    """The matrix of `features`: numbers, and text or `categorical` columns as one column a level but the first."""
    parts: list[tuple[str, np.ndarray]] = []
    categories = {}
    for name in features:
        values = columns[name]
        if name in categorical or values.dtype.kind in "OUS":
            levels, codes = factor(name, values)
            if len(levels) < 2:
                raise _constant(name, levels[0])
            categories[name] = levels
            parts += [(f"{name}={level}", codes == i) for i, level in enumerate(levels) if i > 0]
        elif values.ndim == 2:
            parts += [(f"{name}.{i}", numbers(f"{name}.{i}", values[:, i])) for i in range(values.shape[1])]
        else:
            parts.append((name, numbers(name, values)))
    x = np.empty((len(parts[0][1]), len(parts)), np.float32)
    center, scale = np.zeros(len(parts)), np.ones(len(parts))
    for i, (name, values) in enumerate(parts):
        values = values.astype(np.float64)
        mean, sd = values.mean(), values.std()
        if not sd > 0:
            raise _constant(name, values[0])
        if abs(mean) > FAR * sd:
            rule = f"within {FAR:g} standard deviations of zero"
            raise must(name, rule, float(mean), "Subtract a round number near its mean.")
        if standardize:
            # Of two values, a rare one would make the standard deviation small and its prior absurdly wide.
            ends = values.min(), values.max()
            two = bool(np.all((values == ends[0]) | (values == ends[1])))
            center[i], scale[i] = mean, ends[1] - ends[0] if two else sd
        x[:, i] = (values - center[i]) / scale[i]
    _warn_of_dependent(x, [name for name, _ in parts])
    return Design(x, tuple(name for name, _ in parts), center, scale, categories)


def _warn_of_dependent(x: Float[np.ndarray, "N F"], names: Sequence[str]) -> None:
    """Where a column follows from others, only the prior tells their coefficients apart."""
    if x.shape[1] > min(_MOST, len(x) - 1):
        return
    total, square = np.zeros(x.shape[1]), np.zeros((x.shape[1],) * 2)
    for begin in range(0, len(x), _ROWS):
        part = x[begin : begin + _ROWS].astype(np.float64)
        total, square = total + part.sum(axis=0), square + part.T @ part
    covariance = square / len(x) - np.outer(total, total) / len(x) ** 2
    sd = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(sd, sd))
    if values[0] < _DEPENDENT:
        part = np.abs(vectors[:, 0])
        own = [f"`{name}`" for name, size in zip(names, part, strict=True) if size > 0.01 * part.max()]
        more = f" and {len(own) - 10} more" if len(own) > 10 else ""
        warnings.warn(
            f"The columns {', '.join(own[:10])}{more} depend on each other, such as shares that sum to one: only the "
            "prior tells their coefficients apart. Leave one of them out to compare the others with it.",
            IsothermWarning,
            stacklevel=4,
        )


def complete(columns: Mapping[str, np.ndarray]) -> Bool[np.ndarray, " N"]:
    """Which rows have a value in every column."""
    whole = ~np.any([lacking(values) for values in columns.values()], axis=0)
    if not whole.any():
        gaps = {name: int(lacking(values).sum()) for name, values in columns.items()}
        worst = max(gaps, key=lambda name: gaps[name])
        raise ValueError(f"the table must have a row without gaps; `{worst}` lacks {gaps[worst]} values.")
    return whole


def lacking(values: np.ndarray) -> Bool[np.ndarray, " N"]:
    """Which rows of a column lack a value."""
    import pandas as pd

    gaps = np.asarray(pd.isna(values))
    return np.asarray(gaps.reshape(len(gaps), -1).any(axis=1))


def check_column(role: str, name: str, columns: Mapping[str, np.ndarray]) -> None:
    """Refuse a name that no column has, with the nearest that one has."""
    if name not in columns:
        near = difflib.get_close_matches(name, columns, n=1)
        hint = f"Did you mean `{near[0]}`?" if near else f"There are {', '.join(list(columns)[:30])}."
        raise must(role, "a column of the table", name, hint)


def numbers(name: str, values: np.ndarray) -> Float[np.ndarray, " N"]:
    """One column of finite numbers."""
    if values.dtype == object or values.dtype.kind not in "biuf" or values.ndim != 1:
        example = next((v for v in values if not _is_number(v)), values[0]) if values.ndim == 1 else values
        raise must(name, "a column of numbers", example, f"It stands in row {_row(values, example)}.")
    found = values.astype(np.float64)
    bad = ~np.isfinite(found)
    if bad.any():
        raise _missing(name, bad, "infinite" if np.isinf(found[bad][0]) else "missing")
    return found


def positive_numbers(name: str, values: np.ndarray) -> Float[np.ndarray, " N"]:
    """One column of positive numbers."""
    found = numbers(name, values)
    return _held("positive numbers", name, found, found > 0)


def counts(name: str, values: np.ndarray) -> Float[np.ndarray, " N"]:
    """One column of counts."""
    found = numbers(name, values)
    return _held("counts: 0, 1, 2, ...", name, found, (found >= 0) & (found == np.round(found)))


def factor(name: str, values: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The levels of a column in order, and the number of the level in each row."""
    import pandas as pd

    codes, levels = pd.factorize(values, sort=values.dtype != object)
    if (codes < 0).any():
        raise _missing(name, codes < 0, "missing")
    if len(levels) > _LEVELS:
        example = next((v for v in values if not _is_number(v)), values[0])
        rule = f"a column of numbers, or of text with at most {_LEVELS} different values"
        repair = (
            f"It has {len(levels)}, such as this in row {_row(values, example)}. Leave a column of names out: "
            "`exclude` names such columns."
        )
        raise must(name, rule, example, repair)
    texts = [level_text(level) for level in levels]
    if len(set(texts)) < len(texts):
        texts = [repr(level) for level in levels.tolist()]
    order = np.argsort(texts) if values.dtype == object else np.arange(len(levels))
    return [texts[i] for i in order], np.argsort(order)[codes]


def level_text(level: object) -> str:
    """A level as a file shows it; of a number all digits, so that no other number has this text."""
    short = f"{level:g}" if isinstance(level, float) else str(level)
    return short if not isinstance(level, float) or float(short) == level else str(level)


def _held(rule: str, name: str, values: np.ndarray, good: np.ndarray) -> np.ndarray:
    if not good.all():
        row = int(np.argmax(~good))
        raise must(name, f"a column of {rule}", float(values[row]), f"It stands in row {row + 1}.")
    return values


def _constant(name: str, value: object) -> Exception:
    return must(name, "a column that varies", value, "All rows have this value: leave the column out.")


def _missing(name: str, bad: np.ndarray, what: str) -> Exception:
    count = int(bad.sum())
    drop = '`missing = "drop"` leaves such rows out, and `exclude` leaves out the column.'
    return ValueError(
        f"column `{name}` must have a value in every row; row {int(np.argmax(bad)) + 1} is {what} ({count} of "
        f"{len(bad)} rows). {drop if what == 'missing' else 'Mend the table.'}"
    )


def _is_number(value: object) -> bool:
    try:
        float(value)  # pyrefly: ignore
    except (TypeError, ValueError):
        return value is None
    return True


def _row(values: np.ndarray, example: object) -> int:
    return 1 + next((i for i, v in enumerate(values) if v is example), 0)
