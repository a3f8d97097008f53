"""Error messages for bad input, in one form: argument, rule, value, repair."""

from typing import Any

import jax
import numpy as np


class IsothermWarning(UserWarning):
    """Warns that the run continues but its result may not be what was asked for."""


class DamagedFileError(OSError, ValueError):
    """Raised for a file that is damaged, or is not of the kind and format that is read. The message names the file.

    It is a `ValueError`, since the content is bad, and an `OSError`, as for a file that cannot be read at all.
    """


def describe(value: Any) -> str:
    """A short form of `value` for an error message."""
    if hasattr(value, "shape") and getattr(value, "ndim", 0) > 0:
        return f"an array of shape {tuple(value.shape)} and dtype {value.dtype}"
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return repr(value.item())
    return repr(value)


def must(
    name: str, rule: str, value: Any, repair: str = "", *, error: type[Exception] = ValueError
) -> Exception:
    """The exception "`name` must be RULE; got VALUE. REPAIR"."""
    text = f"`{name}` must be {rule}; got {describe(value)}."
    return error(f"{text} {repair}".rstrip())


def check_count(name: str, value: Any, *, minimum: int, repair: str = "") -> int:
    """The value as an `int`. Raises unless it is an integer of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise must(name, "an integer", value, repair, error=TypeError)
    if value < minimum:
        raise must(name, f"an integer of at least {minimum}", value, repair)
    return int(value)


def is_traced(value: Any) -> bool:
    """Whether `value` is a JAX tracer, whose value cannot be checked."""
    return isinstance(value, jax.core.Tracer)


def missing_extra(what: str, extra: str) -> ImportError:
    """The exception that names the extra that `what` needs."""
    return ImportError(f"`{what}` needs the extra `{extra}`: pip install 'isotherm[{extra}]'.")
