"""Draws in the schema of ArviZ."""

import importlib
from collections.abc import Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from isotherm.errors import must

if TYPE_CHECKING:
    from isotherm.draws.draws import Draws

Arrays = Mapping[str, Any]


def to_arviz(
    draws: "Draws",
    more: Mapping[str, Arrays],
    coords: Mapping[str, Any] | None,
    dims: Mapping[str, list[str]] | None,
) -> Any:
    """Return the draws, their statistics and `more` groups as a `DataTree`, or as what an older ArviZ takes."""
    import arviz_base

    known_dims, known_coords = {}, {}
    for name, axes in draws.labels.items():
        known_dims[name] = [f"{name}_{i}" for i in range(len(axes))]
        known_coords |= dict(zip(known_dims[name], axes, strict=True))
    groups = {
        "posterior": {name: _number(x) for name, x in {**draws.flat(), **draws.derived}.items()},
        "sample_stats": {name: x for name, x in draws.stats.items() if x.ndim == 2},
        **more,
    }
    tree = arviz_base.from_dict(
        {group: _renamed(arrays) for group, arrays in groups.items() if arrays},
        coords=_renamed({**known_coords, **(coords or {})}),
        dims={name: list(map(_name, x)) for name, x in _renamed({**known_dims, **(dims or {})}).items()},
    )
    tree["posterior"].attrs.update(_attributes(draws))
    older = _older_arviz()
    return tree if older is None else older.InferenceData.from_datatree(tree)


def checked_predictive(
    draws: "Draws", predictive: Arrays | None, observed: Arrays | None
) -> dict[str, dict[str, np.ndarray]]:
    """Return the groups of predictions and of data. Raises unless shapes fit the draws and each other."""
    groups = {"posterior_predictive": predictive, "observed_data": observed}
    for group, arrays in groups.items():
        if arrays is not None and not (
            isinstance(arrays, Mapping) and all(isinstance(k, str) for k in arrays)
        ):
            raise must(group, "arrays by name, such as `{'y': y}`", arrays, error=TypeError)
    found = {group: {k: np.asarray(x) for k, x in (arrays or {}).items()} for group, arrays in groups.items()}
    per_draw = (draws.num_chains, draws.num_draws)
    for name, x in found["posterior_predictive"].items():
        if x.shape[:2] != per_draw:
            rule = f"an array (chain, draw, ...) that begins with {per_draw}"
            raise must(f"posterior_predictive[{name!r}]", rule, x, "Map a function over `draws.posterior`.")
        y = found["observed_data"].get(name)
        if y is not None and y.shape != x.shape[2:]:
            raise must(f"observed_data[{name!r}]", f"of the shape {x.shape[2:]} of its predictions", y)
    return found


def _attributes(draws: "Draws") -> dict[str, str | float]:
    """Return the record of the run as attributes that a netCDF file can hold: numbers and text, no booleans."""
    record = draws.record
    plain = {k: int(v) if isinstance(v, bool) else v for k, v in record.to_json().items()}
    return {
        "inference_library": "isotherm",
        "inference_library_version": record.versions.get("isotherm", ""),
        "sampling_time": record.seconds,
        "isotherm_sampler": record.sampler.name,
        **{f"isotherm_{k}": v for k, v in plain.items() if isinstance(v, int | float | str)},
    }


def _name(name: str) -> str:
    """Return a name that a `DataTree` and a netCDF file accept: both take a slash for a path."""
    return name.replace("/", ".")


def _renamed(items: Mapping[str, Any]) -> dict[str, Any]:
    return {_name(name): x for name, x in items.items()}


def _number(x: Any) -> Any:
    """Return an array whose booleans are 0 and 1: ArviZ takes differences and quantiles."""
    return np.asarray(x, np.int8) if x.dtype == bool else x


def _older_arviz() -> Any:
    """Return the package `arviz` if one is installed that is older than 1.0, which takes no `DataTree`."""
    try:
        version = metadata.version("arviz")
    except metadata.PackageNotFoundError:
        return None
    return importlib.import_module("arviz") if int(version.split(".")[0]) < 1 else None
