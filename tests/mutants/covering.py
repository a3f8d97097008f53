"""The test files that should notice a mutant: those that run its lines, in the order in which they are tried."""

import ast
import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from mutants.coverage_map import Covered, digest
from mutants.places import Mutant

_START_SECONDS = 3.0  # added to the seconds of a file, so that quick files are tried in the order of nearness


def covering(mutant: Mutant, package: Path, entries: Iterable[Covered]) -> list[Covered]:
    """Return the entries whose tests run the mutant: fast ones before slow ones, near and quick files first."""
    shown = lines_that_show(mutant, package)
    return sorted(
        (entry for entry in entries if entry.can_run and _runs(entry, shown, package)),
        key=lambda entry: (
            entry.slow,
            (_START_SECONDS + entry.seconds) / _nearness(mutant, entry),
            entry.file,
        ),
    )


def lines_that_show(mutant: Mutant, package: Path) -> dict[str, set[int]]:
    """Return the lines, by file, of which one must run for the mutant to make a difference.

    Inside a function they are those of the statement. What is outside of functions runs on import, under every test:
    of the default of an argument they are the body of the function, of an attribute the methods of the class and
    the functions that name the class, and of a constant the functions that name it.
    """
    tree = _parsed(package)[mutant.file]
    function, owner = None, None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.lineno <= mutant.line <= node.end_lineno:
            if isinstance(node, ast.ClassDef):
                owner = node
            else:
                function = node
    if function is not None:
        body = _body(function)
        inside = mutant.line >= function.body[0].lineno
        return {mutant.file: set(range(mutant.line, mutant.last_line + 1)) if inside else body}
    if owner is not None:
        shown = _that_name({owner.name}, package)
        shown[mutant.file] |= set().union(*map(_body, _functions(owner)))
        return {file: lines for file, lines in shown.items() if lines} or {mutant.file: _all_bodies(tree)}
    names = {
        node.id
        for statement in tree.body
        if statement.lineno <= mutant.line <= statement.end_lineno
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return dict(_that_name(names, package)) or {mutant.file: _all_bodies(tree)}


def _runs(entry: Covered, shown: Mapping[str, set[int]], package: Path) -> bool:
    """Whether tests run one of the lines. Of a file that has changed since they were measured, any line counts."""
    return any(
        not lines.isdisjoint(ran)
        or _digest(package / file) != entry.sources.get(file, _digest(package / file))
        for file, lines in shown.items()
        if (ran := entry.lines.get(file))
    )


@functools.cache
def _digest(path: Path) -> str:
    return digest(path)


def _nearness(mutant: Mutant, entry: Covered) -> float:
    folder, _, name = entry.file.removeprefix("tests/").rpartition("/")
    stem = Path(mutant.file).stem
    return (4 if mutant.folder == (folder.partition("/")[0] or ".") else 1) * (4 if stem in name else 1)


def _that_name(names: set[str], package: Path) -> defaultdict[str, set[int]]:
    """Return the lines of the functions, of all files, that use one of these names."""
    shown: defaultdict[str, set[int]] = defaultdict(set)
    for file, tree in _parsed(package).items():
        for function in _functions(tree):
            used = {x.id if isinstance(x, ast.Name) else x.attr for x in _names(function)}
            if used & names:
                shown[file] |= _body(function)
    return shown


def _names(node: ast.AST) -> list[ast.Name | ast.Attribute]:
    return [x for x in ast.walk(node) if isinstance(x, ast.Name | ast.Attribute)]


def _functions(node: ast.AST) -> list[ast.FunctionDef]:
    return [x for x in ast.walk(node) if isinstance(x, ast.FunctionDef)]


def _body(function: ast.FunctionDef) -> set[int]:
    return set(range(function.body[0].lineno, (function.end_lineno or 0) + 1))


def _all_bodies(tree: ast.AST) -> set[int]:
    return set().union(*map(_body, _functions(tree)))


@functools.cache
def _parsed(package: Path) -> Mapping[str, ast.Module]:
    files = sorted(package.rglob("*.py"))
    return {path.relative_to(package).as_posix(): ast.parse(path.read_text()) for path in files}
