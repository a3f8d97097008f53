"""Dataclasses and named tuples read back from JSON, with the type of every field checked."""

import dataclasses
import functools
import math
import sys
import types
import typing
from typing import Any


def typed(kind: Any, value: Any, name: str, *, null_is_nan: bool = False, skip_unknown: bool = False) -> Any:
    """Return `value`, plain JSON, as an instance of the type `kind`.

    Raises a `ValueError` that names the first wrong field. A field with a default may be missing. With
    `null_is_nan`, null is NaN in fields of floats. Fields that `kind` does not have are refused, or ignored with
    `skip_unknown`.
    """
    return _Reader(null_is_nan, skip_unknown).read(kind, value, name)


@dataclasses.dataclass(frozen=True)
class _Reader:
    null_is_nan: bool
    skip_unknown: bool

    def read(self, kind: Any, value: Any, name: str) -> Any:
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if kind is Any:
            return value
        if kind is float and value is None and self.null_is_nan:
            return math.nan
        if kind in (int, float, str, bool, type(None)):
            return _scalar(kind, value, name)
        if origin in (types.UnionType, typing.Union):
            return self._union(arguments, value, name)
        if origin is dict:
            items = _expected(dict, value, name).items()
            return {k: self.read(arguments[1], v, f"{name}.{k}") for k, v in items}
        if origin is list:
            return [self.read(arguments[0], v, name) for v in _expected(list, value, name)]
        if origin is tuple:
            return self._tuple(arguments, _expected(list, value, name), name)
        if dataclasses.is_dataclass(kind):
            return self._fields(kind, _expected(dict, value, name), name)
        hints = _hints(kind)  # of a named tuple
        return kind(*self._tuple(tuple(hints.values()), _expected(list, value, name), name))

    def _union(self, kinds: tuple[Any, ...], value: Any, name: str) -> Any:
        """Return an optional value: null, or one of the other type."""
        if value is None and type(None) in kinds:
            return None
        (kind,) = (k for k in kinds if k is not type(None))
        return self.read(kind, value, name)

    def _tuple(self, kinds: tuple[Any, ...], values: list[Any], name: str) -> tuple[Any, ...]:
        if len(kinds) == 2 and kinds[1] is ...:
            return tuple(self.read(kinds[0], v, name) for v in values)
        if len(kinds) != len(values):
            raise ValueError(f"`{name}` must have {len(kinds)} entries; it has {len(values)}")
        return tuple(self.read(k, v, name) for k, v in zip(kinds, values, strict=True))

    def _fields(self, kind: Any, record: dict[str, Any], name: str) -> Any:
        fields, hints = {field.name: field for field in dataclasses.fields(kind)}, _hints(kind)
        if unknown := sorted(set(record) - set(fields)):
            if not self.skip_unknown:
                raise ValueError(f"`{name}` must not have a field {unknown[0]!r}")
            record = {k: v for k, v in record.items() if k in fields}
        for field in fields.values():
            if field.name not in record and not _has_default(field):
                raise ValueError(f"`{name}` must have a field {field.name!r}")
        return kind(**{k: self.read(hints[k], v, f"{name}.{k}") for k, v in record.items()})


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _has_default(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is not missing or field.default_factory is not missing


def _scalar(kind: type, value: Any, name: str) -> Any:
    # A whole number may stand for a float, as in Python; `True` is no number.
    allowed = (int, float) if kind is float else (kind,)
    if type(value) not in allowed:
        raise ValueError(f"`{name}` must be of type {kind.__name__}; it is of type {type(value).__name__}")
    if kind is float and type(value) is int and abs(value) > sys.float_info.max:
        raise ValueError(f"`{name}` must be a floating-point number; it has {len(str(abs(value)))} digits")
    return value


def _expected(kind: type, value: Any, name: str) -> Any:
    if not isinstance(value, (list, tuple) if kind is list else kind):
        what = "an object" if kind is dict else "a list"
        raise ValueError(f"`{name}` must be {what}; it is of type {type(value).__name__}")
    return kind(value)
