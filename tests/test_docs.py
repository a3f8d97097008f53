"""Every code block of the README and the docs is run."""

import re
from pathlib import Path

import jax
import matplotlib
import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
WITH_CODE = [page for page in PAGES if "```python" in page.read_text()]

matplotlib.use("agg")


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert blocks
    namespace = {}
    with jax.numpy_rank_promotion("allow"), jax.debug_key_reuse(False):
        for block in blocks:
            exec(compile(block, page.name, "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    """Relative links point to files that are there; links to other pages are not followed."""
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not missing
