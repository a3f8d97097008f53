"""Damage to JSON: other values, duplicate keys, NaN, text that is not UTF-8; with the old checksum or a new one."""

import copy
import json
import random
from pathlib import Path
from typing import Any

from campaigns.damaged.bytes_damage import Damage
from campaigns.damaged.originals import Original
from isotherm import files

FORGED = "forged: "  # begins the label of damage with checksums that fit it

HOSTILE = (
    None, True, -1, 0, 1, 3, 10**12, 2**63, 10**400, 0.5, float("nan"), float("inf"), "", "x", "nan", "\ud800",
    "../..", [], {}, [[]], [10**6, 10**6], {"x": 1}, "float128", "object", "bfloat16", "isotherm.cli.__main__:main",
)  # fmt: skip


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in JSON."""
    found = [path] if path else []
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, x in items:
        found += places(x, (*path, key))
    return found


def changed(rng: random.Random, record: Any) -> tuple[Any, str]:
    """Return JSON with a value replaced, removed, repeated or renamed at random, and what was done."""
    record = copy.deepcopy(record)
    *above, last = rng.choice(places(record))
    node = record
    for key in above:
        node = node[key]
    what, where = rng.choice(("replaced", "near", "removed", "doubled")), ".".join(map(str, (*above, last)))
    if what == "near" and type(node[last]) is int:
        node[last] += rng.choice((-1, 1, 10))
    elif what == "removed":
        del node[last]
    elif what == "doubled" and isinstance(node, list):
        node.insert(last, copy.deepcopy(node[last]))
    else:
        node[last] = rng.choice(HOSTILE)
        return record, f"{where} replaced by {str(node[last])[:20]!r}"
    return record, f"{where} {what}"


def _parsed(path: Path) -> dict[str, Any] | None:
    try:
        record = json.loads(path.read_text())
    except (ValueError, RecursionError):
        return None  # damaged before
    return record if isinstance(record, dict) and record else None


def change_a_value(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Change a value. The checksum remains."""
    if (record := _parsed(path)) is None:
        return None
    record, what = changed(rng, record)
    path.write_text(json.dumps(record), encoding="utf-8", errors="surrogatepass")
    return what


def forge(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Change a value, and make the checksum fit."""
    record = _parsed(path)
    if record is None or "sha256" not in record:
        return None
    del record["sha256"]
    record, what = changed(rng, record)
    record["sha256"] = files._digest(record)
    path.write_text(json.dumps(record))
    return FORGED + what


def repeat_a_key(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Write a key twice, first with another value or last."""
    if (record := _parsed(path)) is None:
        return None
    key, text = rng.choice(list(record)), json.dumps(record)
    extra = f"{json.dumps(key)}: {json.dumps(rng.choice((None, 1, 'x')))}"
    first = rng.random() < 0.5
    path.write_text(f"{{{extra}, {text[1:]}" if first else f"{text[:-1]}, {extra}}}")
    return f"key {key} {'before' if first else 'after'} the other"


def write_strange_text(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Write text that is no JSON object, or in another encoding."""
    if (record := _parsed(path)) is None:
        return None
    text = json.dumps(record)
    name, content = rng.choice((
        ("UTF-16", text.encode("utf-16")),
        ("with a byte order mark", text.encode("utf-8-sig")),
        ("with invalid UTF-8", text.replace('"', '"\udc80', 1).encode("utf-8", "surrogateescape")),
        ("in a list", f"[{text}]".encode()),
        ("a million brackets", b"[" * 10**6),
        ("a million objects", b'{"x":' * 10**6),
        ("a million digits", b'{"sha256": ' + b"9" * 10**6 + b"}"),
        ("NaN", text.replace(":", ": NaN, \"x\":", 1).encode()),
        ("null", b"null"),
    ))  # fmt: skip
    path.write_bytes(content)
    return name


JSON: tuple[Damage, ...] = (change_a_value, forge, forge, repeat_a_key, write_strange_text)
