"""Error messages for bad input, in one form: argument, rule, value, repair."""

import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from isotherm.text import visible


class IsothermWarning(UserWarning):
    """Warns that the run continues but its result may not be what was asked for."""


class DamagedFileError(OSError, ValueError):
    """Raised for a file that is damaged, or is not of the kind and format that is read. The message names the file.

    It is a `ValueError`, since the content is bad, and an `OSError`, as for a file that cannot be read at all.
    """


_LONGEST = 200  # characters of a value in a message


def describe(value: Any) -> str:
    """A short form of `value` for an error message, whatever `value` is."""
    try:
        text = _described(value)
    except Exception:  # `value` may be an object of any library, and its text may be too long to make
        text = f"an object of type `{type(value).__name__}`"
    return visible(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")


def _described(value: Any) -> str:
    if isinstance(value, type | types.ModuleType) or not hasattr(value, "shape"):
        return repr(value)
    if value.shape:
        dtype = getattr(value, "dtype", None)
        kind = f"an array of shape {tuple(value.shape)}"
        return (
            f"a `{type(value).__name__}` of shape {tuple(value.shape)}"
            if dtype is None
            else f"{kind} and dtype {dtype}"
        )
    return repr(value.item()) if hasattr(value, "item") else repr(value)


def must(
    name: str, rule: str, value: Any, repair: str = "", *, error: type[Exception] = ValueError
) -> Exception:
    """The exception "`name` must be RULE; got VALUE. REPAIR"."""
    text = f"`{name}` must be {rule}; got {describe(value)}."
    return error(visible(f"{text} {repair}".rstrip()))


def check_count(name: str, value: Any, *, minimum: int, below: int | None = None, repair: str = "") -> int:
    """The value as an `int`. Raises unless it is an integer of at least `minimum`, and less than `below`."""
    # NumPy counts spans of time among the integers.
    if isinstance(value, bool | np.timedelta64) or not isinstance(value, int | np.integer):
        raise must(name, "an integer", value, repair, error=TypeError)
    if value < minimum:
        raise must(name, f"an integer of at least {minimum}", value, repair)
    if below is not None and value >= below:
        shown = f"2^{below.bit_length() - 1}" if below.bit_count() == 1 else str(below)
        raise must(name, f"an integer below {shown}", value, repair)
    return int(value)


def check_flag(name: str, value: Any) -> bool:
    """The value as a `bool`. Raises unless it is `True` or `False`."""
    if not isinstance(value, bool | np.bool_):
        raise must(name, "`True` or `False`", value, error=TypeError)
    return bool(value)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise unless the value is one of the words in `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise must(name, " or ".join(f'"{choice}"' for choice in choices), value)


def is_traced(value: Any) -> bool:
    """Whether `value` is a JAX tracer, whose value cannot be checked."""
    import jax  # takes a second, and commands that only show their help do without

    return isinstance(value, jax.core.Tracer)


def missing_extra(what: str, extra: str) -> ImportError:
    """The exception that names the extra that `what` needs."""
    return ImportError(f"`{what}` needs the extra `{extra}`: pip install 'isotherm[{extra}]'.")
