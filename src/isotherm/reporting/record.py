"""A summary and a diagnosis as plain JSON, and the diagnosis back from it."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from isotherm.judging.record import Block, Diagnosis, Thermostat
from isotherm.judging.summary import Summary


def summary_to_json(summary: Summary) -> dict[str, Any]:
    """All of it; a number that is not finite is null."""
    return plain(dataclasses.asdict(summary))


def diagnosis_to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The judgement and what it rests on, block by block."""
    names = ("ok", "verdict", "problems", "notes")
    thermostat = diagnosis.thermostat
    return plain(
        {name: getattr(diagnosis, name) for name in names}
        | {"blocks": [dataclasses.asdict(block) for block in diagnosis.blocks]}
        | {"thermostat": None if thermostat is None else dataclasses.asdict(thermostat)}
    )


def diagnosis_from_json(record: Mapping[str, Any], summary: Summary) -> Diagnosis:
    """What `diagnosis_to_json` wrote, beside the summary of its draws."""
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
    """Null is NaN again where a number is due."""
    due = {f.name for f in dataclasses.fields(kind) if f.type in (float, "float")}
    known = {f.name for f in dataclasses.fields(kind)}  # another version may have had others
    return kind(**{k: math.nan if v is None and k in due else v for k, v in record.items() if k in known})


def plain(value: Any) -> Any:
    """As JSON has it: a number that is not finite is null."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
