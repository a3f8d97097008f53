"""The spec that a check proposes, as TOML."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from isotherm.tables.csv_file import CsvFormat
from isotherm.tables.inspection.target import Guess
from isotherm.text import visible

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_WIDTH = 80


@dataclasses.dataclass(frozen=True)
class Proposal:
    """What the spec says: the keys of `[data]`, and the model."""

    guess: Guess
    target: str
    form: CsvFormat
    exclude: Sequence[str]
    numbers: Sequence[str]
    missing_values: Sequence[str]
    dates: Mapping[str, str]
    drops: bool

    @property
    def model(self) -> str:
        """The model, of which there must be one."""
        assert self.guess.model is not None
        return self.guess.model

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `regression` that are not at their defaults."""
        given = {
            "exclude": list(self.exclude),
            "numbers": list(self.numbers),
            "missing_values": list(self.missing_values),
            "dates": dict(self.dates),
        }
        given = {name: value for name, value in given.items() if value}
        given |= {} if self.form.decimal == "." else {"decimal": self.form.decimal}
        return given | ({"missing": "drop"} if self.drops else {})

    def toml(self, path: str) -> str:
        """Return the spec of a table at `path`."""
        csv = {name: value for name, value in dataclasses.asdict(self.form).items() if value is not None}
        csv = {name: value for name, value in csv.items() if value != getattr(CsvFormat(), name)}
        data = {"path": path, **csv, "target": self.target, **self.arguments()}
        why = f"# {self.target}: {self.guess.why}"
        other = f"# or {self.guess.alternative}" if self.guess.alternative else ""
        lines = [visible(text) for text in (why, other) if text]
        lines += [f"model = {_string(self.model)}", "", "[data]"]
        return "\n".join([*lines, *(_entry(name, value) for name, value in data.items())]) + "\n"


def _entry(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(key)} = {_string(x)}" for key, x in value.items())
        return f"{name} = {{ {inside} }}"
    if isinstance(value, str):
        return f"{name} = {_string(value)}"
    line = f"{name} = [{', '.join(map(_string, value))}]"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"{name} = [", *(f"    {_string(x)}," for x in value), "]"])


def _key(name: str) -> str:
    return name if name and set(name) <= _BARE else _string(name)


def _string(text: str) -> str:
    r"""Return a basic string of TOML, whose escapes are those of JSON apart from DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
