"""The notebooks of the documentation run, and a browser shows all of them."""

import importlib.util
import re
from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter

from support.browser import look

FOLDER = Path(__file__).parent.parent / "docs" / "notebooks"
PATHS = sorted(FOLDER.glob("*.ipynb"))
# What a notebook must show: figures, tables of isotherm, and bars of progress.
SHOWN = {"quick-start": (3, 6, 2), "groups": (3, 2, 1)}


def _run():
    spec = importlib.util.spec_from_file_location("run_notebooks", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RUN = _run()


def counts(notebook):
    """Return the numbers of figures, of tables of isotherm and of bars of progress among the outputs."""
    data = [output.data for output in RUN.outputs(notebook) if "data" in output]
    html = [x.get("text/html", "") for x in data]
    figures = sum("image/png" in x for x in data)
    ours = sum("border-collapse" in text for text in html)
    return figures, ours, sum("<progress" in text for text in html)


def text_of(notebook):
    return "".join(str(output.get("data") or output.text) for output in RUN.outputs(notebook))


def checked(notebook, name):
    """Raise unless the outputs are those that a reader should see, and nothing else."""
    assert counts(notebook) == SHOWN[name]
    assert all(output.get("name", "stdout") == "stdout" for output in RUN.outputs(notebook))  # no warnings
    assert "No fault found" in text_of(notebook)
    assert "Do not trust" not in text_of(notebook)
    assert "<Figure" not in "".join(o.text for o in RUN.outputs(notebook) if "text" in o)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_stored_outputs_are_complete_and_links_lead_somewhere(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    checked(notebook, path.stem)
    assert [c.execution_count for c in notebook.cells if c.cell_type == "code"] == [
        i + 1 for i in range(sum(c.cell_type == "code" for c in notebook.cells))
    ]
    words = "".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    targets = re.findall(r"\]\(([^)#\s]+)", words)
    assert targets
    assert all((path.parent / target).exists() for target in targets)
    assert path.stat().st_size < 400_000


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_a_browser_shows_all_of_it(path, tmp_path):
    notebook = RUN.executed(path, tmp_path)
    checked(notebook, path.stem)
    figures, _, bars = SHOWN[path.stem]
    for dark in (False, True):
        page, folder = tmp_path / f"{path.stem}.html", tmp_path / f"dark-{dark}"
        folder.mkdir()
        html, _ = HTMLExporter(theme="dark" if dark else "light").from_notebook_node(notebook)
        page.write_text(re.sub(r"<script[^>]* src=[^>]*></script>", "", html))  # from the network
        (screen,), console = look(page, folder, widths=(1200,), dark=dark)
        assert console == []
        assert html.count("<progress") == bars
        assert screen["scroll"] <= screen["width"]
        assert len(screen["figures"]) == figures
        for figure in screen["figures"]:
            assert figure["natural"] > 0
            assert figure["inside"]
            assert 400 < figure["width"] <= 1000
            assert figure["height"] > 200
        assert screen["contrast"] >= 4.5  # WCAG AA
        assert (screen["ground"] == "rgb(255, 255, 255)") is not dark
