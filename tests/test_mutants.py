"""Random mistakes: how the source is changed, which are drawn, and which tests are run for them."""

import ast
import re
from pathlib import Path

import pytest

from mutants.coverage_map import Covered
from mutants.covering import covering, lines_that_show
from mutants.draw import draw, shares
from mutants.judge import CAUGHT, SURVIVED, UNFINISHED, Outcome, parts
from mutants.places import LEFT_OUT, core, nodes
from mutants.reasons import EQUIVALENT
from mutants.results import load, save, table

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "isotherm"
EXAMPLE = '''"""Text with a 1 + 1."""

LIMIT = 0.5  # of x


def first(x: int = 3, *, wide: bool = True) -> "1 + 1":
    """More text: 2 < 3."""
    if x < 2 and not wide:
        raise ValueError(f"x is {x + 1}, not {2}")
    elif x == 2:
        x = -x
    return x + LIMIT if wide else jnp.sum(x, axis=0)


def second(y):
    return first(y, wide=False)
'''


@pytest.fixture
def package(tmp_path):
    (tmp_path / "example.py").write_text(EXAMPLE)
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "left_out.py").write_text("x = 1 + 1\n")
    return tmp_path


def test_every_kind_of_change_and_no_change_of_text_or_types(package):
    found = {(m.kind, m.old, m.new) for mutants in nodes(package) for m in mutants}
    line = "x + LIMIT if wide else jnp.sum(x, axis=0)"
    assert found == {
        ("constant", "0.5", "(0.75)"),
        ("constant", "3", "(4)"),
        ("constant", "3", "(6)"),
        ("constant", "True", "(False)"),
        ("branch", "if x < 2 and (not wide)", "if False"),
        ("and/or", "x < 2 and (not wide)", "(x < 2 or not wide)"),
        ("condition dropped", "x < 2 and (not wide)", "(not wide)"),
        ("condition dropped", "x < 2 and (not wide)", "(x < 2)"),
        ("comparison", "x < 2", "(x <= 2)"),
        ("comparison", "x < 2", "(x > 2)"),
        ("constant", "2", "(3)"),
        ("constant", "2", "(4)"),
        ("not removed", "not wide", "(wide)"),
        ("branch", "elif x == 2", "elif False"),
        ("branch", "elif x == 2", "elif True"),
        ("comparison", "x == 2", "(x != 2)"),
        ("sign", "-x", "(x)"),
        ("branch", line, "(x + LIMIT)"),
        ("branch", line, "(jnp.sum(x, axis=0))"),
        ("operator", "x + LIMIT", "(x - LIMIT)"),
        ("term dropped", "x + LIMIT", "(x)"),
        ("term dropped", "x + LIMIT", "(LIMIT)"),
        ("function", "jnp.sum(x, axis=0)", "(jnp.mean(x, axis=0))"),
        ("keyword dropped", "jnp.sum(x, axis=0)", "(jnp.sum(x))"),
        ("constant", "0", "(1)"),
        ("constant", "False", "(True)"),
        ("keyword dropped", "first(y, wide=False)", "(first(y))"),
    }


@pytest.mark.slow
def test_all_mutants_of_the_library_are_python_that_differs():
    """Each is the old text, in its place, replaced by another; names are unique."""
    texts = {path.relative_to(SOURCE).as_posix(): path.read_bytes() for path in core(SOURCE)}
    assert not any(file.startswith(LEFT_OUT) for file in texts)
    mutants = [m for group in nodes(SOURCE) for m in group]
    assert len({m.name for m in mutants}) == len(mutants) > 10_000
    for m in mutants:
        old = texts[m.file][m.begin : m.end].decode()
        if m.kind == "branch" and m.new.endswith((" False", " True")):
            assert old.startswith(("if ", "elif ", "while "))
            continue
        is_expression = isinstance(ast.parse(m.old).body[0], ast.Expr)
        found = ast.dump(ast.parse(f"({old}\n)" if is_expression else old))
        assert found == ast.dump(ast.parse(m.old)) != ast.dump(ast.parse(m.new))


def test_a_sample_is_repeatable_and_each_folder_has_its_share():
    assert shares({"a": 60, "b": 25, "c": 15}, 10) == {"a": 6, "b": 3, "c": 1}
    assert shares({"a": 2, "b": 1}, 50) == {"a": 2, "b": 1}
    first, again, larger, other = (
        {m.name for m in draw(SOURCE, count=count, seed=seed)}
        for count, seed in ((60, 1), (60, 1), (90, 1), (60, 2))
    )
    assert first == again
    assert len(first - larger) < 5
    assert len(first & other) < 5
    only = draw(SOURCE, count=20, seed=1, only=("samplers", "kernel.py"))
    assert len(only) == 20
    assert {m.folder for m in only} == {"samplers", "."}
    assert {m.file for m in only if m.folder == "."} == {"kernel.py"}


def entry(file, *, slow=False, lines=(), seconds=1.0):
    return Covered(file, slow, "", {"example.py": list(lines)}, {f"{file}::test": seconds}, [])


def test_tests_that_run_the_line_are_tried_near_and_quick_and_fast_ones_first(package):
    mutants = {f"{m.old} -> {m.new}": m for group in nodes(package) for m in group}
    entries = [
        entry("tests/test_long.py", lines=[11], seconds=60.0),
        entry("tests/test_other.py", lines=[1, 3, 6]),
        entry("tests/test_slow.py", slow=True, lines=[11]),
        entry("tests/data/test_far.py", lines=[11]),
        entry("tests/test_example.py", lines=[11], seconds=5.0),
    ]
    files = lambda name: [e.file.rpartition("/")[2] for e in covering(mutants[name], package, entries)]
    assert files("elif x == 2 -> elif True") == []
    assert files("-x -> (x)") == ["test_example.py", "test_far.py", "test_long.py", "test_slow.py"]
    # What is computed on import is shown by the functions that use it.
    assert lines_that_show(mutants["0.5 -> (0.75)"], package) == {"example.py": set(range(7, 13))}
    assert lines_that_show(mutants["3 -> (6)"], package) == {"example.py": set(range(7, 13))}
    assert lines_that_show(mutants["False -> (True)"], package) == {"example.py": {16}}


def test_parts_are_a_minute_long_and_of_one_kind():
    entries = [entry(str(i), seconds=25.0) for i in range(4)] + [entry("slow", slow=True)]
    assert [[e.file for e in part] for part in parts(entries)] == [["0", "1", "2"], ["3"], ["slow"]]


def test_outcomes_are_kept_and_counted(tmp_path):
    make = lambda name, folder, kind, test: Outcome(name, "sign", folder, 1, kind, test, 1.0, ("a fast",))
    outcomes = [
        make("a", "data", CAUGHT, "tests/test_a.py::test"),
        make("b", "data", SURVIVED, None),
        make("c", ".", SURVIVED, None),
        make("d", ".", UNFINISHED, None),
    ]
    path = tmp_path / "out" / "results.json"
    save(path, seed=1, count=4, outcomes=outcomes, failing={"tests/test_b.py::test"})
    kept, failing = load(path)
    assert list(kept.values()) == outcomes
    assert failing == ["tests/test_b.py::test"]
    rows = table(outcomes, {"c"}).splitlines()[2:]
    assert rows == [
        "| root modules | 2 | 0 | 1 | 1 | 1 |  |",
        "| `data/` | 2 | 1 | 1 | 0 | 0 | 50 % |",
        "| all | 4 | 1 | 2 | 1 | 1 |  |",
    ]


def test_reasons_are_for_mutants_that_exist_and_the_page_lists_them():
    names = {m.name for group in nodes(SOURCE) for m in group}
    assert set(EQUIVALENT) <= names
    assert all(reason.endswith(".") for reason in EQUIVALENT.values())
    page = (TESTS.parent / "docs" / "mutants.md").read_text()
    listed = re.findall(r"^\| `(.+)` \| (.+) \|$", page, flags=re.MULTILINE)
    assert "no reason" not in page
    assert {
        name.replace("\\|", "|"): reason for name, reason in listed if "::" in name
    }.items() <= EQUIVALENT.items()
