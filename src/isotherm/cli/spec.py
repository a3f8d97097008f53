"""Specs: what to sample, as a TOML file or a function that the user wrote."""

import dataclasses
import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isotherm.cli.messages import complain
from isotherm.draws.record import About
from isotherm.errors import must
from isotherm.loading import UnsuitableFunctionError, load_function
from isotherm.progress import Progress

if TYPE_CHECKING:
    from isotherm.tables.assembled import Regression
    from isotherm.tables.table import Table

_SMALL_BYTES = 2**28  # of the rows of a table that are loaded
_TEXT, _NAMES, _INTEGER, _NUMBER = "a string", "a list of strings", "an integer", "a number"
_SECTION, _SWITCH, _VALUE = "a section", "true or false", "a string, a number, true or false"
_VALUES = "a list of strings or numbers"
_FORMULA = 'a formula such as "y ~ x", or a list of formulas'
_TEXTS = 'strings by column, such as { day = "%d/%m/%Y" }'
_CSV = ("separator", "decimal", "encoding")  # of a CSV file
_KEYS = {
    "": {
        "title": _TEXT,
        "formula": _FORMULA,
        "model": _TEXT,
        "function": _TEXT,
        "data": _SECTION,
        "prior": _SECTION,
        "sample": _SECTION,
    },
    "data": {
        "path": _TEXT,
        **dict.fromkeys(_CSV, _TEXT),
        "target": _TEXT,
        "features": _NAMES,
        "exclude": _NAMES,
        "categorical": _NAMES,
        "missing": _TEXT,
        "missing_values": _NAMES,
        "numbers": _NAMES,
        "dates": _TEXTS,
        "positive": _VALUE,
        "exposure": _TEXT,
        "offset": _TEXT,
        "weights": _TEXT,
        "trials": _TEXT,
        "censored": _TEXT,
        "order": _VALUES,
        "quantile": _NUMBER,
        "standardize": _SWITCH,
    },
    "sample": dict.fromkeys(
        ("num_draws", "num_chains", "seed", "batch_size", "thinning", "burn_in"), _INTEGER
    ),
}


@dataclasses.dataclass(frozen=True)
class Spec:
    """The content of a spec file, with every key checked. Paths are relative to `folder`."""

    folder: Path
    title: str | None = None
    formula: str | list[str] | None = None
    model: str | None = None
    function: str | None = None
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    prior: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sample: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """The arguments of `iso.sample`, and what its draws are about."""

    posterior: Any
    data: Any
    init: Any
    about: About
    labels: dict[str, list[list[str]]]


def read_spec(name: str) -> Spec:
    """Return the spec in a TOML file, or the spec of `module:function` or `file.py:function`."""
    if not name.endswith(".toml"):
        if ":" not in name:
            raise must("SPEC", "a TOML file or module:function", name)
        return Spec(Path.cwd(), function=name)
    path = Path(name)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {name}; `isotherm check TABLE --write {name}` writes one")
    try:
        record = tomllib.loads(_text(path))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from error
    _check(record, "", _KEYS[""])
    for section in ("data", "sample"):
        _check(record.get(section, {}), section, _KEYS[section])
    if "formula" in record:
        record.setdefault("model", "linear")
    if isinstance(record.get("model"), str):
        _check(record.get("prior", {}), "prior", dict.fromkeys(_scales(record["model"]), _NUMBER))
    spec = Spec(path.resolve().parent, **record)
    if (spec.model is None) == (spec.function is None):
        raise must("model", "given, or `function` instead", spec.model, "A spec has exactly one of the two.")
    needed = {"path"} if spec.formula is not None else {"path", "target"}
    if spec.model is not None and not needed <= set(spec.data):
        raise must(
            "[data]", f"a section with {' and '.join(f'`{x}`' for x in sorted(needed))}", dict(spec.data)
        )
    return spec


def _text(path: Path) -> str:
    """Return the text of a file in UTF-8, with or without a byte-order mark, or in PowerShell's UTF-16."""
    content = path.read_bytes()
    return content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")


def make_problem(spec: Spec) -> Problem:
    """Read the data and return the problem that the spec describes.

    Rows of a large table are not loaded: they are read when they are needed.
    """
    from isotherm.tables.table import MemoryTable

    table = table_of(spec)
    source = {} if table is None else table.describe()
    labels: dict[str, list[list[str]]] = {}
    if spec.model is None:
        assert spec.function is not None
        columns = [table.columns] if isinstance(table, MemoryTable) else []
        complain(f"running code of {spec.function} in {spec.folder}")
        made = load_function(spec.function, spec.folder)(*columns)
        about = About(spec.title or f"Posterior of {spec.function}", {"function": spec.function}, source)
    else:
        assert table is not None
        made = make_regression(spec, table)
        target = made.description["target"]
        title = title_of(spec, target)
        form = {"csv": csv} if (csv := _csv(spec)) else {}  # by which `isotherm predict` reads new rows
        about, labels = About(title, made.description | form, source), made.labels
    try:
        posterior, data, init = made
    except (TypeError, ValueError) as error:
        rule = "a function that returns (posterior, data, init)"
        raise must("function", rule, made, error=UnsuitableFunctionError) from error
    return Problem(posterior, _loaded_if_small(data), init, about, labels)


def make_regression(spec: Spec, table: "Table") -> "Regression":
    """Return the regression that a spec with a `model` describes, after all rows were read and checked."""
    from isotherm.tables.families import Prior
    from isotherm.tables.regressions import regression
    from isotherm.tables.table import MemoryTable

    named = ("path", "target", "features", "separator", "encoding")
    arguments = {k: v for k, v in spec.data.items() if k not in named}
    target, features = spec.data.get("target"), spec.data.get("features")
    asked, family = (spec.model, None) if spec.formula is None else (spec.formula, spec.model)
    prior = Prior.of(spec.prior)
    assert asked is not None
    with Progress("checking the rows", show=isinstance(table, MemoryTable)):  # others show a bar
        return regression(asked, table, target, features, family=family, **arguments, prior=prior)


def title_of(spec: Spec, target: str) -> str:
    """Return the title of a run."""
    assert spec.model is not None
    return spec.title or f"{spec.model[0].upper()}{spec.model[1:]} regression of {target}"


def table_of(spec: Spec) -> "Table | None":
    """Return the table of the spec. A function of the user gets its columns in memory."""
    from isotherm.tables.csv_file import CsvFormat
    from isotherm.tables.reader import open_table, read_table

    if "path" not in spec.data:
        return None
    path = spec.data["path"]
    path = path if "://" in path else spec.folder / path
    form = CsvFormat(**_csv(spec))
    with Progress(f"reading {spec.data['path']}"):
        return open_table(path, form) if spec.function is None else read_table(path, form)


def _csv(spec: Spec) -> dict[str, str]:
    """Return the keys that say how the text of a CSV file is read."""
    return {key: value for key, value in spec.data.items() if key in _CSV}


def _loaded_if_small(data: Any) -> Any:
    """Return the rows of a small table as arrays, which chains reach faster than those of a file."""
    from isotherm.data.sources.base import row_bytes
    from isotherm.tables.encoded import EncodedSource

    if isinstance(data, EncodedSource) and data.num_rows * row_bytes(data.row) <= _SMALL_BYTES:
        return data.in_memory()
    return data


def _scales(model: str) -> list[str]:
    """Return the keys of [prior] that a model may have."""
    from isotherm.tables.families import Prior
    from isotherm.tables.families.registry import families, family_of

    own = [field.name for field in dataclasses.fields(Prior) if field.name != "others"]
    of = [*families(), family_of(model)]
    return list(
        dict.fromkeys([*own, *(x.name for family in of for x in family.auxiliaries if x.scale is not None)])
    )


def _check(section: Any, name: str, known: Mapping[str, str]) -> None:
    """Refuse values of the wrong type, and unknown keys, naming the closest known one."""
    where = f" in [{name}]" if name else ""
    for key, value in section.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"the keys are {', '.join(known)}."
            raise ValueError(f"`{key}`{where} is not a key of a spec; {hint}")
        if not _has_type(known[key], value):
            raise must(key, known[key], value)


def _has_type(kind: str, value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return {
        _TEXT: isinstance(value, str),
        _NAMES: isinstance(value, list) and all(isinstance(x, str) for x in value),
        _FORMULA: isinstance(value, str)
        or (isinstance(value, list) and all(isinstance(x, str) for x in value)),
        _INTEGER: isinstance(value, int) and number,
        _NUMBER: number,
        _SECTION: isinstance(value, dict),
        _TEXTS: isinstance(value, dict) and all(isinstance(x, str) for x in value.values()),
        _SWITCH: isinstance(value, bool),
        _VALUES: isinstance(value, list) and all(isinstance(x, str | int | float) for x in value),
        _VALUE: isinstance(value, str | bool) or number,
    }[kind]
