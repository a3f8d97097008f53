"""Summaries and diagnoses as plain JSON, and diagnoses read back from it."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from isotherm.judging.diagnosis import Block, Diagnosis, Thermostat
from isotherm.judging.summary import Summary
from isotherm.typed_json import typed


def summary_to_json(summary: Summary) -> dict[str, Any]:
    """The whole summary. Numbers that are not finite become null."""
    return plain(dataclasses.asdict(summary))


def diagnosis_to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The verdict and the evidence for it, block by block."""
    fields = {field.name: getattr(diagnosis, field.name) for field in dataclasses.fields(_Stored)}
    return plain(dataclasses.asdict(_Stored(**fields)))


def diagnosis_from_json(record: Mapping[str, Any], summary: Summary) -> Diagnosis:
    """The diagnosis that `diagnosis_to_json` wrote. `summary` is that of the same draws.

    Raises a `ValueError` if a field is missing or has a wrong type.
    """
    stored = typed(_Stored, dict(record), "diagnosis", null_is_nan=True, skip_unknown=True)
    fields = {field.name: getattr(stored, field.name) for field in dataclasses.fields(stored)}
    return Diagnosis(**fields, summary=summary, heat=None, halving=None, modes=None)


@dataclasses.dataclass(frozen=True)
class _Stored:
    """The part of a `Diagnosis` that is stored."""

    ok: bool
    verdict: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    blocks: tuple[Block, ...]
    thermostat: Thermostat | None


def plain(value: Any) -> Any:
    """The value in types that JSON has. Numbers that are not finite become null."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
