"""Functions of the user's files: no file replaces a module that something else imports."""

import subprocess
import sys

import pytest

from isotherm.loading import load_function

SHADOWS = ("html", "random", "json", "types", "ast", "numpy", "rich", "jax", "isotherm", "pandas")

SCRIPT = """
import sys
from pathlib import Path
from isotherm.loading import load_function
folder = Path(sys.argv[1])
for name in {names!r}:
    assert load_function(f"{{name}}.py:make", folder)() == name
assert load_function("own_package.models:make", folder)() == "own"
import html, random, json, types, ast, numpy, rich, jax, isotherm, pandas
for module in (html, random, json, types, ast, numpy, rich, jax, isotherm, pandas):
    assert not Path(module.__file__).is_relative_to(folder), module.__file__
print(html.escape("<"), isotherm.Posterior.__name__)
"""


@pytest.fixture
def folder(tmp_path):
    """Return a folder full of files that are named as modules are."""
    for name in SHADOWS:
        (tmp_path / f"{name}.py").write_text(f"def make():\n    return {name!r}\n")
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package" / "models.py").write_text("def make():\n    return 'own'\n")
    return tmp_path


def test_files_named_as_modules_do_not_replace_them(folder, tmp_path_factory):
    script = tmp_path_factory.mktemp("elsewhere") / "script.py"
    script.write_text(SCRIPT.format(names=SHADOWS))
    done = subprocess.run(
        [sys.executable, script, folder], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "&lt; Posterior\n", done.stderr


def test_files_of_one_name_in_two_folders_are_two_modules(tmp_path):
    made = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        text = f"import dataclasses\n@dataclasses.dataclass\nclass One:\n    x: 'int' = {len(made)}\nmake = One\n"
        (tmp_path / name / "model.py").write_text(text)
        made.append(load_function("model.py:make", tmp_path / name))
    assert [make().x for make in made] == [0, 1]
    assert sys.modules[made[0].__module__].One is made[0]
    assert made[0].__module__ != made[1].__module__


def test_the_command_runs_beside_files_named_as_modules(folder):
    """With `-m`, Python itself puts the working directory first; the command as installed does not."""
    (folder / "spec.toml").write_text('function = "html.py:make"\n')
    code = "import sys; sys.path.remove(''); from isotherm.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "sample", "spec.toml"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"isotherm: running code of html.py:make in {folder}\n")
    assert "must be a function that returns (posterior, data, init); got 'html'" in done.stderr
