"""Every code block of the README and the docs runs."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import jax
import matplotlib
import pytest

import isotherm as iso
from support.real_data import need

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(p for p in (ROOT / "docs").glob("*.md") if p.name != "api.md")])
WITH_CODE = [page for page in PAGES if "```python" in page.read_text()]

matplotlib.use("agg")


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert blocks
    for name in set(re.findall(r'data\.load\("([\w-]+)"\)', "".join(blocks))):
        need(name)
    namespace = {}
    with jax.numpy_rank_promotion("allow"), jax.debug_key_reuse(False):
        for block in blocks:
            exec(compile(block, page.name, "exec"), namespace)


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    """Every public name is on the API page, too."""
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        ROOT / "docs",
        tmp_path,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    listed = set(re.findall(r"^### `(\w+)`", (ROOT / "docs" / "api.md").read_text(), flags=re.MULTILINE))
    public = {name for name in dir(iso) if not name.startswith("_") and inspect.getmodule(getattr(iso, name))}
    modules = {name for name in public if inspect.ismodule(getattr(iso, name))}
    assert public - modules - listed - {"TYPE_CHECKING", "Any", "importlib"} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    """Relative links point to existing files. Links to other sites are not followed."""
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not missing
