"""Design matrices: the columns of a table as a standardised matrix with named columns and coded categories."""

import dataclasses
import difflib
import warnings
from collections.abc import Mapping, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from isotherm.errors import IsothermWarning, must

_MAX_LEVELS = 100  # of a category: text with more is usually a mistake in a column of numbers
FAR = 1e4  # largest distance of a mean from zero, in sd: beyond it, 32 bits cannot hold the intercept
_DEPENDENT = 1e-6  # eigenvalue of the correlation matrix below which columns are linearly dependent
_MAX_COLUMNS, _ROWS = 2000, 65536  # most columns that are checked for dependence; rows per block


class Standardized(eqx.Module):
    r"""A transform from coefficients of standardised columns to coefficients in the units of the columns.

    With m and s the mean and scale of the columns, and o and u the origin and unit of the response, intercept a and
    coefficients b become

    $$\beta_j = u b_j / s_j, \qquad \alpha = o + u a - \sum_j \beta_j m_j.$$

    The last axis of a vector holds the intercept, then the coefficients.
    """

    center: Float[Array, " F"]
    scale: Float[Array, " F"]
    origin: float = 0.0
    unit: float = 1.0

    def __call__(self, x: Float[Array, "*rows K"]) -> Float[Array, "*rows K"]:
        """Return coefficients per unit of the column."""
        slopes = self.unit * x[..., 1:] / self._broadcast(self.scale, x)
        intercept = self.origin + self.unit * x[..., :1] - self._shift(slopes)
        return jnp.concatenate([intercept, slopes], axis=-1)

    def inv(self, y: Float[Array, "*rows K"]) -> Float[Array, "*rows K"]:
        """Return coefficients per standard deviation of the column."""
        slopes = y[..., 1:]
        intercept = (y[..., :1] + self._shift(slopes) - self.origin) / self.unit
        return jnp.concatenate([intercept, slopes * self._broadcast(self.scale, y) / self.unit], axis=-1)

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """Return the log of the volume change at each vector, which is a constant."""
        del y
        volume = x.shape[-1] * jnp.log(self.unit) - jnp.sum(jnp.log(self.scale))
        return jnp.broadcast_to(volume.astype(x.dtype), x.shape[:-1])

    def _shift(self, slopes: Array) -> Array:
        return jnp.sum(slopes * self._broadcast(self.center, slopes), axis=-1, keepdims=True)

    def _broadcast(self, row: Array, like: Array) -> Array:
        return row.astype(like.dtype).reshape((1,) * (like.ndim - 1) + (-1,))


@dataclasses.dataclass(frozen=True, eq=False)
class Design:
    """A matrix of standardised columns, (x - center) / scale, with their names and the levels of each category.

    The first level is the reference level. The scale is the standard deviation or, for a column of two values, the
    distance between them.
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
    """Return the matrix of `features`. Text and `categorical` columns become one column per level but the first."""
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
            # If one of two values is rare, the standard deviation is small and a prior in its units absurdly wide.
            ends = values.min(), values.max()
            binary = bool(np.all((values == ends[0]) | (values == ends[1])))
            center[i], scale[i] = mean, ends[1] - ends[0] if binary else sd
        x[:, i] = (values - center[i]) / scale[i]
    _warn_if_dependent(x, [name for name, _ in parts])
    return Design(x, tuple(name for name, _ in parts), center, scale, categories)


def _warn_if_dependent(x: Float[np.ndarray, "N F"], names: Sequence[str]) -> None:
    """Warn if some columns are linearly dependent: only the prior then tells their coefficients apart."""
    if x.shape[1] > min(_MAX_COLUMNS, len(x) - 1):
        return
    total, square = np.zeros(x.shape[1]), np.zeros((x.shape[1],) * 2)
    for begin in range(0, len(x), _ROWS):
        part = x[begin : begin + _ROWS].astype(np.float64)
        total, square = total + part.sum(axis=0), square + part.T @ part
    covariance = square / len(x) - np.outer(total, total) / len(x) ** 2
    sd = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(sd, sd))
    if values[0] < _DEPENDENT:
        sizes = np.abs(vectors[:, 0])
        dependent = [
            f"`{name}`" for name, size in zip(names, sizes, strict=True) if size > 0.01 * sizes.max()
        ]
        more = f" and {len(dependent) - 10} more" if len(dependent) > 10 else ""
        warnings.warn(
            f"The columns {', '.join(dependent[:10])}{more} are linearly dependent, like shares that sum to one: "
            "only the prior tells their coefficients apart. Leave one of them out to compare the others with it.",
            IsothermWarning,
            stacklevel=4,
        )


def complete(columns: Mapping[str, np.ndarray]) -> Bool[np.ndarray, " N"]:
    """Return which rows have a value in every column; at least one must."""
    is_complete = ~np.any([is_missing(values) for values in columns.values()], axis=0)
    if not is_complete.any():
        gaps = {name: int(is_missing(values).sum()) for name, values in columns.items()}
        worst = max(gaps, key=lambda name: gaps[name])
        raise ValueError(
            f"the table must have a row without missing values; `{worst}` lacks {gaps[worst]} values."
        )
    return is_complete


def is_missing(values: np.ndarray) -> Bool[np.ndarray, " N"]:
    """Return which rows of a column have no value."""
    import pandas as pd

    gaps = np.asarray(pd.isna(values))
    return np.asarray(gaps.reshape(len(gaps), -1).any(axis=1))


def check_column(role: str, name: str, columns: Mapping[str, np.ndarray]) -> None:
    """Refuse a name that is not a column, suggesting the closest one that is."""
    if name not in columns:
        near = difflib.get_close_matches(name, columns, n=1)
        hint = f"Did you mean `{near[0]}`?" if near else f"The columns are {', '.join(list(columns)[:30])}."
        raise must(role, "a column of the table", name, hint)


def numbers(name: str, values: np.ndarray) -> Float[np.ndarray, " N"]:
    """Return a column of finite numbers as floats; refuse any other."""
    if values.dtype == object or values.dtype.kind not in "biuf" or values.ndim != 1:
        example = next((v for v in values if not _is_number(v)), values[0]) if values.ndim == 1 else values
        raise must(name, "a column of numbers", example, f"It is in row {_row(values, example)}.")
    floats = values.astype(np.float64)
    bad = ~np.isfinite(floats)
    if bad.any():
        raise _missing(name, bad, "infinite" if np.isinf(floats[bad][0]) else "missing")
    return floats


def positive_numbers(name: str, values: np.ndarray) -> Float[np.ndarray, " N"]:
    """Return a column of positive numbers as floats; refuse any other."""
    floats = numbers(name, values)
    return _checked("positive numbers", name, floats, floats > 0)


def counts(name: str, values: np.ndarray) -> Float[np.ndarray, " N"]:
    """Return a column of counts as floats; refuse any other."""
    floats = numbers(name, values)
    return _checked("counts: 0, 1, 2, ...", name, floats, (floats >= 0) & (floats == np.round(floats)))


def factor(name: str, values: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Return the sorted levels of a column, and the index of the level in each row."""
    import pandas as pd

    codes, levels = pd.factorize(values, sort=values.dtype != object)
    if (codes < 0).any():
        raise _missing(name, codes < 0, "missing")
    if len(levels) > _MAX_LEVELS:
        example = next((v for v in values if not _is_number(v)), values[0])
        rule = f"a column of numbers, or of text with at most {_MAX_LEVELS} different values"
        repair = (
            f"The column has {len(levels)}, such as this one in row {_row(values, example)}. If it holds names, list "
            "it in `exclude`."
        )
        raise must(name, rule, example, repair)
    texts = [level_text(level) for level in levels]
    if len(set(texts)) < len(texts):
        texts = [repr(level) for level in levels.tolist()]
    order = np.argsort(texts) if values.dtype == object else np.arange(len(levels))
    return [texts[i] for i in order], np.argsort(order)[codes]


def level_text(level: object) -> str:
    """Return a level as a file shows it, and a number with all the digits that tell it from other numbers."""
    short = f"{level:g}" if isinstance(level, float) else str(level)
    return short if not isinstance(level, float) or float(short) == level else str(level)


def _checked(rule: str, name: str, values: np.ndarray, valid: np.ndarray) -> np.ndarray:
    if not valid.all():
        row = int(np.argmax(~valid))
        raise must(name, f"a column of {rule}", float(values[row]), f"It is in row {row + 1}.")
    return values


def _constant(name: str, value: object) -> Exception:
    return must(name, "a column that varies", value, "All rows have this value: leave the column out.")


def _missing(name: str, bad: np.ndarray, kind: str) -> Exception:
    count = int(bad.sum())
    drop = 'Use `missing = "drop"` to leave such rows out, or `exclude` to leave out the column.'
    return ValueError(
        f"column `{name}` must have a value in every row; the value in row {int(np.argmax(bad)) + 1} is {kind} "
        f"({count} of {len(bad)} rows). {drop if kind == 'missing' else 'Correct the table.'}"
    )


def _is_number(value: object) -> bool:
    try:
        float(value)  # pyrefly: ignore
    except (TypeError, ValueError):
        return value is None
    return True


def _row(values: np.ndarray, example: object) -> int:
    return 1 + next((i for i, v in enumerate(values) if v is example), 0)
