"""Objects of the library as JSON and arrays, so that a run can be stored without pickle.

Only data classes of this package are built again, and without calling their constructors: nothing that a file says is
executed. Functions and the user's objects are not stored. Those that the caller has at hand, such as the posterior,
are stored by a name; all others are marked, and reading them back is refused.
"""

import dataclasses
import functools
import importlib
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from isotherm import tree

Node = Any  # what `json` can write
_PACKAGE = "isotherm."


class NotStoredError(ValueError):
    """Says that something could not be stored, such as a function."""


def encode(value: Any, known: Mapping[str, Any] | None = None) -> tuple[Node, list[np.ndarray]]:
    """Return `value` as JSON and a list of arrays. Objects in `known` are stored by their names."""
    arrays = _Arrays()
    return _encoded(value, known or {}, arrays), arrays.stored


def decode(
    node: Node,
    arrays: Sequence[np.ndarray],
    known: Mapping[str, Any] | None = None,
    like: PyTree | None = None,
) -> Any:
    """Return what `encode` was given.

    Pytrees of the user's classes come back with the structure of `like`, if their leaves have the same names, and
    otherwise as ordered dicts by leaf name, so that leaves keep their order.
    """
    return _Decoder(arrays, known or {}, like).decoded(node)


def opaque(node: Node) -> list[str]:
    """Return the names of what could not be stored in `node`."""
    if isinstance(node, dict):
        if "opaque" in node:
            return [node["opaque"]]
        return [name for value in node.values() for name in opaque(value)]
    return [name for value in node for name in opaque(value)] if isinstance(node, list) else []


class _Arrays:
    """The arrays of an object, each stored once."""

    def __init__(self) -> None:
        self.stored: list[np.ndarray] = []
        self.numbers: dict[int, int] = {}
        self.alive: list[Any] = []  # so that no other array gets the same `id`

    def number(self, value: Any, content: Any) -> int:
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.stored)
            self.stored.append(np.asarray(content))
            self.alive.append(value)
        return self.numbers[id(value)]


def _encoded(value: Any, known: Mapping[str, Any], arrays: _Arrays) -> Node:
    if value is None or isinstance(value, bool | str) or type(value) is int:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return _encoded_array(value, arrays)
    for name, other in known.items():
        if value is other:
            return {"known": name}
    inner = lambda x: _encoded(x, known, arrays)
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return {"dtype": np.dtype(value).name}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": [[key, inner(value[key])] for key in sorted(value)]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [inner(x) for x in value]}
    kind = type(value)
    if kind.__module__.startswith(_PACKAGE):
        if dataclasses.is_dataclass(value):
            fields = {f.name: inner(getattr(value, f.name)) for f in dataclasses.fields(value)}
            return {"class": f"{kind.__module__}:{kind.__qualname__}", "fields": fields}
        if isinstance(value, tuple):  # a named tuple
            return {"class": f"{kind.__module__}:{kind.__qualname__}", "items": [inner(x) for x in value]}
    leaves = tree.named_leaves(value)
    if [x for _, x in leaves] != [value] and all(_is_stored_leaf(x) for _, x in leaves):
        return {"pytree": [[name, inner(x)] for name, x in leaves]}
    return {"opaque": f"{kind.__module__}.{getattr(value, '__qualname__', kind.__qualname__)}"}


def _is_stored_leaf(x: Any) -> bool:
    return isinstance(x, jax.Array | np.ndarray) or type(x) is int


def _encoded_array(value: Any, arrays: _Arrays) -> Node:
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        number = arrays.number(value, jax.random.key_data(value))
        return {"key": number, "algorithm": str(jax.random.key_impl(value))}
    return {"jax" if isinstance(value, jax.Array) else "numpy": arrays.number(value, value)}


class _Decoder:
    """Builds objects from JSON and arrays. An array that is used in several places is put on the device once."""

    def __init__(self, arrays: Sequence[np.ndarray], known: Mapping[str, Any], like: PyTree) -> None:
        self.arrays, self.known, self.like = arrays, known, like
        self.on_device = functools.cache(lambda number: tree.put(arrays[number]))

    def decoded(self, node: Node) -> Any:
        if not isinstance(node, dict):
            return node
        inner, arrays = self.decoded, self.arrays
        match node:
            case {"float": text}:
                return float(text)
            case {"jax": number}:
                return self.on_device(number)
            case {"numpy": number}:
                return arrays[number]
            case {"key": number, "algorithm": algorithm}:
                return jax.random.wrap_key_data(jnp.asarray(arrays[number]), impl=algorithm)
            case {"known": name}:
                return self.known[name]
            case {"dtype": name}:
                return jnp.dtype(name)
            case {"dict": items}:
                return {key: inner(x) for key, x in items}
            case {"list": items}:
                return [inner(x) for x in items]
            case {"tuple": items}:
                return tuple(inner(x) for x in items)
            case {"class": name, "items": items}:
                return _class(name, tuple)(*(inner(x) for x in items))
            case {"class": name, "fields": fields}:
                return _built(_class(name, object), {field: inner(x) for field, x in fields.items()})
            case {"pytree": items}:
                names, leaves = [name for name, _ in items], [inner(x) for _, x in items]
                if self.like is not None and [name for name, _ in tree.named_leaves(self.like)] == names:
                    return jax.tree.unflatten(jax.tree.structure(self.like), leaves)
                return OrderedDict(zip(names, leaves, strict=True))
            case {"opaque": name}:
                raise NotStoredError(name)
        raise ValueError(f"unknown entry {sorted(node)}")


def _class(name: str, base: type) -> type:
    """Return a data class of this package that `name` names, or a named tuple if `base` is `tuple`."""
    module, _, qualified = name.partition(":")
    if not module.startswith(_PACKAGE) or module.endswith("__main__"):
        raise ValueError(f"{name} is not a class of isotherm")
    found = getattr(importlib.import_module(module), qualified)
    is_stored = dataclasses.is_dataclass if base is object else lambda x: issubclass(x, base)
    if not (isinstance(found, type) and is_stored(found)):
        raise ValueError(f"{name} is not a data class")
    return found


def _built(kind: type, fields: dict[str, Any]) -> Any:
    if set(fields) != {field.name for field in dataclasses.fields(kind)}:
        raise ValueError(f"{kind.__qualname__} has other fields")
    made = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made
