"""All places of the library that can be mutated, found in its syntax trees."""

import ast
import dataclasses
import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from mutants.operators import changes

LEFT_OUT = ("studies", "cli", "plots", "reporting")  # folders of `src/isotherm` that are not its core
_SHORT = 12  # characters: a change of less is named with its line
_TEXT = {"warn", "warning", "info", "debug", "print", "__repr__", "__str__", "TypeVar", "NewType"}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change of the source.

    - `name`: has the file, the function and the change, so that it is the same after changes elsewhere.
    - `kind`: such as "operator".
    - `file`: relative to `src/isotherm`; `line`, `last_line`: of the statement that is changed.
    - `begin`, `end`: the bytes, with the text `old`, that `new` replaces.
    """

    name: str
    kind: str
    file: str
    line: int
    last_line: int
    begin: int
    end: int
    old: str
    new: str

    @property
    def folder(self) -> str:
        """The folder of `src/isotherm` that holds the file, or `.`."""
        return self.file.partition("/")[0] if "/" in self.file else "."

    def planted(self, package: Path) -> str:
        """Return the text of the file with the mistake in it."""
        source = (package / self.file).read_bytes()
        return (source[: self.begin] + self.new.encode() + source[self.end :]).decode()


def core(package: Path) -> list[Path]:
    """Return the files of the library that are mutated."""
    files = sorted(package.rglob("*.py"))
    return [path for path in files if path.relative_to(package).parts[0] not in LEFT_OUT]


@functools.cache
def nodes(package: Path) -> tuple[list[Mutant], ...]:
    """Return the mutants of each node that has any."""
    return tuple(_nodes(package))


def _nodes(package: Path) -> Iterator[list[Mutant]]:
    defaults = defaults_of_functions(package)
    for path in core(package):
        seen: Counter[str] = Counter()
        source = path.read_text()
        starts, lines = _starts_of_lines(source), source.splitlines()
        for node, statement, scope in _walk(ast.parse(source), None, ()):
            if not hasattr(node, "lineno"):
                continue
            begin, end, last_line = _span(source, starts, node, statement)
            word = source.encode()[begin:].split(None, 1)[0].decode()
            mutants = []
            for kind, changed in changes(node, defaults):
                old, new = _texts(node, changed, word)
                file = path.relative_to(package).as_posix()
                name = f"{file}::{'.'.join(scope)}: {old} -> {new}"
                if len(old) < _SHORT:
                    name += f" in {lines[node.lineno - 1].strip()}"
                seen[name] += 1
                name = name if seen[name] == 1 else f"{name} ({seen[name]})"
                mutants.append(Mutant(name, kind, file, statement.lineno, last_line, begin, end, old, new))
            if mutants:
                yield mutants


def defaults_of_functions(package: Path) -> Mapping[str, set[str]]:
    """Return the keywords with a default of each function whose name is unique in the library."""
    found: dict[str, list[set[str]]] = {}
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                given = node.args
                by_place = [*given.posonlyargs, *given.args][-len(given.defaults) or len(given.args) + 1 :]
                by_name = [
                    a for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is not None
                ]
                found.setdefault(node.name, []).append({arg.arg for arg in (*by_place, *by_name)})
    return {name: sets[0] for name, sets in found.items() if len(sets) == 1 and sets[0]}


def _walk(
    node: ast.AST, statement: ast.stmt | None, scope: tuple[str, ...]
) -> Iterator[tuple[ast.AST, ast.stmt, tuple[str, ...]]]:
    if isinstance(node, ast.stmt):
        statement = node
    if _is_left_out(node):
        return
    if statement is not None and not _is_type(node, scope):
        yield node, statement, scope
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        scope = (*scope, node.name)
    for child in _children(node):
        yield from _walk(child, statement, scope)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children without annotations, decorators, base classes and types."""
    match node:
        case ast.FunctionDef():
            yield from (x for x in (*node.args.defaults, *node.args.kw_defaults) if x is not None)
            yield from node.body
        case ast.ClassDef():
            yield from node.body
        case ast.AnnAssign(value=value):
            yield from () if value is None else (value,)
        case ast.Call(func=ast.Name(id="cast" | "isinstance" as name), args=[first, second]):
            yield first if name == "isinstance" else second
        case ast.Lambda(args=given, body=body):
            yield from (*given.defaults, *(x for x in given.kw_defaults if x is not None), body)
        case _:
            yield from ast.iter_child_nodes(node)


def _is_left_out(node: ast.AST) -> bool:
    """Whether a node is about messages, types or internal checks."""
    match node:
        case (
            ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.MatchValue() | ast.Import() | ast.ImportFrom()
        ):
            return True
        case ast.FunctionDef(name=name) | ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _TEXT or name.endswith(("Error", "Warning"))
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
            return True
    return False


def _is_type(node: ast.AST, scope: tuple[str, ...]) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and not scope


def _starts_of_lines(source: str) -> list[int]:
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _span(source: str, starts: list[int], node: ast.AST, statement: ast.stmt) -> tuple[int, int, int]:
    """Return the bytes of a node, and the last line of its statement or of the head of a compound statement."""
    begin = starts[node.lineno - 1] + node.col_offset
    if isinstance(node, ast.If | ast.While):
        end = source.encode().index(b":", starts[node.test.end_lineno - 1] + node.test.end_col_offset)
        return begin, end, node.test.end_lineno
    end = starts[node.end_lineno - 1] + node.end_col_offset
    last = node.end_lineno if hasattr(statement, "body") else statement.end_lineno
    return begin, end, last


def _texts(old: ast.AST, new: ast.AST, word: str) -> tuple[str, str]:
    """Return the old and the new text. `word` is the first of the old text, such as `elif`."""
    if isinstance(new, ast.If | ast.While):
        return f"{word} {ast.unparse(old.test)}", f"{word} {ast.unparse(new.test)}"
    text = ast.unparse(ast.fix_missing_locations(new))
    return ast.unparse(old), text if isinstance(new, ast.stmt) else f"({text})"
