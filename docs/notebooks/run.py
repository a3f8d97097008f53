"""Run the notebooks of this folder, or those named, and write them with their outputs: `make notebooks`."""

import base64
import io
import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image

HERE = Path(__file__).parent
_COLOURS = 64  # of a stored image, which makes it several times smaller


def executed(path: Path, folder: Path) -> nbformat.NotebookNode:
    """The notebook with fresh outputs. It runs in `folder`; a cell that fails raises."""
    notebook = nbformat.read(path, as_version=4)
    options = {"timeout": 600, "record_timing": False, "resources": {"metadata": {"path": str(folder)}}}
    # NumPyro's progress bars, which the notebooks do not use, ask for a package.
    environment = {**os.environ, "PYTHONWARNINGS": "ignore:IProgress not found"}
    NotebookClient(notebook, **options).execute(env=environment)
    for cell in notebook.cells:
        if "outputs" in cell:  # what has disappeared leaves an empty one
            cell.outputs = [x for x in cell.outputs if x.get("data", {}).get("text/html") != ""]
    notebook.metadata = {"kernelspec": notebook.metadata.kernelspec, "language_info": {"name": "python"}}
    return notebook


def outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """The outputs of all cells."""
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


def smaller(png: str) -> str:
    """An image in base64 with few colours."""
    image = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    file = io.BytesIO()
    image.quantize(_COLOURS, dither=Image.Dither.NONE).save(file, "png", optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def main(names: list[str]) -> None:
    """Run the notebooks of these names, without their endings, or all of them."""
    for path in sorted(HERE.glob("*.ipynb")):
        if names and path.stem not in names:
            continue
        notebook = executed(path, HERE)
        for output in outputs(notebook):
            if "image/png" in output.get("data", ()):
                output.data["image/png"] = smaller(output.data["image/png"])
        nbformat.write(notebook, path)
        print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
