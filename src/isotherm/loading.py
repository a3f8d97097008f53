"""Functions that a user names on the command line: `file.py:function` or `package.module:function`."""

import difflib
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from isotherm.errors import must
from isotherm.text import visible


class UnsuitableFunctionError(ValueError):
    """Raised for a function that is not there or not of the kind that is needed. Its message suffices."""


def load_function(name: str, folder: Path) -> Callable[..., Any]:
    """Return the function `file.py:function`, with the file in `folder`, or `package.module:function`.

    The module is executed. No file in `folder` replaces a module of Python or of an installed package.
    """
    source, _, attribute = name.rpartition(":")
    module = _from_file(folder / source) if source.endswith(".py") else _from_package(source, folder)
    function = getattr(module, attribute, None)
    if not callable(function):
        names = [name for name, x in vars(module).items() if callable(x) and not name.startswith("_")]
        near = difflib.get_close_matches(attribute, names, n=1)
        hint = f"Did you mean `{near[0]}`?" if near else ""
        raise must(
            "function", f"the name of a function in {source}", attribute, hint, error=UnsuitableFunctionError
        )
    return function


def _from_file(file: Path) -> ModuleType:
    """Execute a file as a module whose name no import statement can mean, whatever the file is called."""
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {visible(str(file))}")
    module_name = f"{file.stem} of {hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(module_name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and jaxtyping look classes up here
    spec.loader.exec_module(module)
    return module


def _from_package(name: str, folder: Path) -> ModuleType:
    """Import a module, which is searched for in `folder` after all other places."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there, and imports another that is not
        rule = "file.py:function or module:function, with a module that Python finds"
        raise must("function", rule, name, error=UnsuitableFunctionError) from error
