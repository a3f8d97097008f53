"""Summaries and diagnoses as plain JSON, and diagnoses read back from it."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from isotherm.judging.diagnosis import Block, Diagnosis, Thermostat
from isotherm.judging.summary import Summary


def summary_to_json(summary: Summary) -> dict[str, Any]:
    """The whole summary. Numbers that are not finite become null."""
    return plain(dataclasses.asdict(summary))


def diagnosis_to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The verdict and the evidence for it, block by block."""
    names = ("ok", "verdict", "problems", "notes")
    thermostat = diagnosis.thermostat
    return plain(
        {name: getattr(diagnosis, name) for name in names}
        | {"blocks": [dataclasses.asdict(block) for block in diagnosis.blocks]}
        | {"thermostat": None if thermostat is None else dataclasses.asdict(thermostat)}
    )


def diagnosis_from_json(record: Mapping[str, Any], summary: Summary) -> Diagnosis:
    """The diagnosis that `diagnosis_to_json` wrote. `summary` is that of the same draws."""
    thermostat = record["thermostat"]
    return Diagnosis(
        ok=record["ok"],
        verdict=record["verdict"],
        problems=tuple(record["problems"]),
        notes=tuple(record["notes"]),
        blocks=tuple(_filled(Block, block) for block in record["blocks"]),
        thermostat=None if thermostat is None else _filled(Thermostat, thermostat),
        summary=summary,
        heat=None,
        halving=None,
        modes=None,
    )


def _filled(kind: Any, record: Mapping[str, Any]) -> Any:
    """An instance of `kind`. Null becomes NaN in fields that hold a float."""
    floats = {f.name for f in dataclasses.fields(kind) if f.type in (float, "float")}
    known = {f.name for f in dataclasses.fields(kind)}  # another version may have written other fields
    return kind(**{k: math.nan if v is None and k in floats else v for k, v in record.items() if k in known})


def plain(value: Any) -> Any:
    """The value in types that JSON has. Numbers that are not finite become null."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
