"""The record of one deliberate mistake, and how its place in the source is found."""

import ast
import dataclasses
import functools
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Bug:
    """A small, silent mistake: the library still runs, and its answers are wrong.

    - `mistake`: one sentence for a reader of the documentation.
    - `within`: the function, method or class that holds the text, such as `Kernel.step`, in any file.
    - `old`, `new`: the right text, which occurs exactly once in that definition, and the wrong text.
    - `also`: further pairs, for a mistake that needs several changes in the same file.
    - `likely`: the test files, or single tests `file::name`, that should notice it first.
    """

    name: str
    mistake: str
    within: str
    old: str
    new: str
    likely: tuple[str, ...]
    also: tuple[tuple[str, str], ...] = ()

    def planted(self, package: Path) -> tuple[Path, str]:
        """Return the file of the mistake under `package`, and its text with the mistake in it."""
        places = [
            (path, text.index(self.old, begin))
            for path, text in sources(package)
            for begin, end in spans(text, self.within)
            for _ in range(text[begin:end].count(self.old))
        ]
        if len(places) != 1 or self.old == self.new:
            raise ValueError(
                f"`{self.name}`: {self.old!r} must occur once in {self.within}; it occurs {len(places)} times"
            )
        ((path, at),) = places
        text = path.read_text()
        text = text[:at] + self.new + text[at + len(self.old) :]
        for old, new in self.also:
            if text.count(old) != 1:
                raise ValueError(f"`{self.name}`: {old!r} must occur once in {path}; it does not")
            text = text.replace(old, new)
        return path, text


@functools.lru_cache(maxsize=8)
def sources(package: Path) -> list[tuple[Path, str]]:
    """Return all files of the package and their texts."""
    return [(path, path.read_text()) for path in sorted(package.rglob("*.py"))]


def spans(text: str, within: str) -> list[tuple[int, int]]:
    """Return where the definitions called `within`, such as `Kernel` or `Kernel.step`, begin and end in a text."""
    return [span for name, span in definitions(text) if name == within]


@functools.lru_cache(maxsize=1000)
def definitions(text: str) -> list[tuple[str, tuple[int, int]]]:
    """Return the qualified names of all definitions of a text, and where they begin and end."""
    begins = [0]
    for line in text.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    found = []

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                assert node.end_lineno is not None
                found.append((prefix + node.name, (begins[first - 1], begins[node.end_lineno])))
                collect(node.body, f"{prefix}{node.name}.")

    collect(ast.parse(text).body, "")
    return found


@functools.lru_cache(maxsize=1000)
def test_file(tests: Path, name: str) -> str:
    """Return the path of a test file relative to `tests`. `name` may end in `::test`."""
    file, separator, rest = name.partition("::")
    (path,) = tests.rglob(file)
    return f"{path.relative_to(tests)}{separator}{rest}"
