"""The planted mistakes still fit the code they are planted in."""

import ast
import re
from pathlib import Path

import pytest

from planted.bug import test_file as find
from planted.bugs import BUGS

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "isotherm"


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_mistake_can_be_planted(bug):
    """Its old text occurs exactly once, its new text differs and is still Python."""
    path, wrong = bug.planted(SOURCE)
    assert ast.dump(ast.parse(wrong)) != ast.dump(ast.parse(path.read_text()))
    assert bug.mistake.endswith(".")
    for file, _, name in (test.partition("::") for test in bug.likely):
        assert f"def {name}" in (TESTS / find(TESTS, file)).read_text()


def test_names_are_unique():
    assert len({bug.name for bug in BUGS}) == len(BUGS)


def test_the_page_and_those_that_quote_it_agree():
    """The page is written by a run over all mistakes and says whether one was not caught."""
    docs = TESTS.parent / "docs"
    page = (docs / "planted-bugs.md").read_text()
    listed = set(re.findall(r"^\| ([\w-]+) \| ", page, flags=re.MULTILINE)) - {"planted"}
    assert listed == {bug.name for bug in BUGS}
    assert "All were caught." in page
    for text in (page, (docs / "validation.md").read_text(), (TESTS.parent / "README.md").read_text()):
        assert f"{len(listed)} " in text
