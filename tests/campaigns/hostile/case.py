"""One hostile call, and what it may end in: the right answer, a sentence, or an error of the user's own function."""

import dataclasses
import re
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import isotherm

GOOD = ("right", "refused", "user's own")
BAD = ("silent", "raw", "hang", "crash")

_LIBRARY = Path(isotherm.__file__).parent


class UsersError(Exception):
    """What functions of the campaign raise on purpose."""


def raises(*_: Any) -> Any:
    """A function of the user that fails."""
    raise UsersError("mine")


class Function(NamedTuple):
    """A function, and a plain one that does the same; `None` if it must be refused or raises by itself."""

    function: Callable[..., Any]
    plain: Callable[..., Any] | None = None


@dataclasses.dataclass(frozen=True)
class Case:
    """A call with hostile arguments.

    - `kind`, `label`: the row of the table, and what is hostile about the call.
    - `call`: makes it, and returns draws or arrays.
    - `plain`: makes the same call with the same numbers as plain arrays; `None` if only a refusal is right.
    - `names`: arguments, one of which a refusal must name.
    - `users`: whether a function of the user is called that may raise or not fit.
    """

    kind: str
    label: str
    call: Callable[[], Any]
    plain: Callable[[], Any] | None
    names: tuple[str, ...]
    users: bool = False


@dataclasses.dataclass(frozen=True)
class Ending:
    """What a case ended in, and the text of its error."""

    outcome: str
    text: str = ""


def judged(case: Case) -> Ending:
    """Run a case and return what it ended in."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            result = case.call()
        except Exception as error:
            return _of_error(case, error)
        if case.plain is None:
            said = [str(x.message) for x in warned if issubclass(x.category, isotherm.IsothermWarning)]
            # Chains that become non-finite end, and a warning says at which step and why.
            if isinstance(result, isotherm.Draws) and not result.complete.any() and said:
                return Ending("refused", said[-1])
            return Ending("silent", f"accepted: {_short(answer(result))}")
        got, wanted = answer(result), answer(case.plain())
    if not _equal(got, wanted):
        return Ending("silent", f"answered {_short(got)} instead of {_short(wanted)}")
    return Ending("right")


def answer(result: Any) -> list[np.ndarray]:
    """Return the numbers of a result: the draws of a run or of several, or arrays."""
    if isinstance(result, isotherm.Draws):
        result = result.posterior
    elif isinstance(result, list) and result and isinstance(result[0], isotherm.Draws):
        result = [draws.posterior for draws in result]
    return [np.asarray(x, np.float64) for x in jax.tree.leaves(result)]


def _equal(got: list[np.ndarray], wanted: list[np.ndarray]) -> bool:
    """Return whether answers agree to float32 rounding, which a dozen steps with small numbers do not amplify."""
    if len(got) != len(wanted) or any(a.shape != b.shape for a, b in zip(got, wanted, strict=True)):
        return False
    return all(
        np.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True) for a, b in zip(got, wanted, strict=True)
    )


def _of_error(case: Case, error: Exception) -> Ending:
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, UsersError):
        return Ending("user's own", text)
    notes = " ".join(getattr(error, "__notes__", ()))
    if case.users and any(f"`{name}" in notes for name in case.names):
        return Ending("user's own", f"{text} {notes}")
    frames = traceback.extract_tb(error.__traceback__)
    ours = Path(frames[-1].filename).is_relative_to(_LIBRARY)
    if ours and _is_a_sentence(str(error), case.names):
        return Ending("refused", text)
    where = f"{frames[-1].filename}:{frames[-1].lineno}"
    last = [f for f in frames if Path(f.filename).is_relative_to(_LIBRARY)]
    via = f" via {last[-1].filename}:{last[-1].lineno}" if last else ""
    return Ending("raw", f"{text} [{where}{via}]")


def _is_a_sentence(text: str, names: tuple[str, ...]) -> bool:
    """Return whether a text states one of the arguments in backticks, or a leaf of it, and ends like a sentence."""
    named = any(re.search(rf"`{re.escape(name)}[`.]", text) for name in names)
    return named and text.rstrip().endswith((".", ")", "`"))


def _short(arrays: list[np.ndarray]) -> str:
    return ", ".join(f"{x.shape} {np.array2string(x.ravel()[:4], precision=4)}" for x in arrays[:3])
