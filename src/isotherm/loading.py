"""Functions that a user names on the command line: `file.py:function` or `package.module:function`."""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from isotherm.errors import must


def load_function(name: str, folder: Path) -> Callable[..., Any]:
    """Return the function `file.py:function`, with the file in `folder`, or `package.module:function`.

    The module is executed.
    """
    source, _, attribute = name.rpartition(":")
    if source.endswith(".py"):
        file = folder / source
        if not file.is_file():
            raise FileNotFoundError(f"there is no file {file}")
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[file.stem] = module  # dataclasses and jaxtyping look classes up here
        spec.loader.exec_module(module)
    else:
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        module = importlib.import_module(source)
    function = getattr(module, attribute, None)
    if not callable(function):
        raise must("function", f"the name of a function in {source}", attribute)
    return function
