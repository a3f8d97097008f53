"""The documentation site: the pages of this folder, and one made of the docstrings of all public names.

Docstrings are Markdown, as the pages are, so that the one page of them is written here rather than by autodoc.
"""

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import latex2mathml.converter
import nbformat
from docutils import nodes
from nbconvert import MarkdownExporter

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "src"))

import isotherm  # noqa: E402

project, author, release = "isotherm", "the isotherm developers", isotherm.__version__
extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
html_theme = "furo"
html_math_renderer = "mathml"
html_title = "isotherm"
html_static_path, html_css_files = ["_static"], ["site.css"]
exclude_patterns = ["_build"]
templates_path: list[str] = []

GROUPS = {
    "The target": (
        *("Posterior", "Group"),
        *("Positive", "Scale", "Bounded", "Ordered", "Simplex", "Correlations"),
    ),
    "Sampling": ("sample", "warmup", "setup", "Setup", "sweep", "reference_posterior", "keep_compiled"),
    "Draws and how far to trust them": ("Draws", "load", "resume", "diagnose", "report", "IsothermWarning"),
    "Predictions": ("predict", "log_likelihood", "with_log_likelihood"),
    "Samplers": ("CCAdL", "SGNHT", "SGHMC", "ModifiedSGLD", "SGLD", "ModifiedCCAdL"),
    "Noise covariance": ("Dense", "Diagonal", "DiagonalLowRank", "MatrixFree"),
    "Minibatches": (*("WithReplacement", "WithoutReplacement", "RandomBlocks", "Reshuffled"),),
    "Gradients": ("Minibatch", "ControlVariate", "FullData"),
    "Coordinates": (
        "DensePreconditioner",
        "DiagonalPreconditioner",
        "LowRankPreconditioner",
    ),
}
MODULES = {
    "isotherm.scores": ("classification", "regression"),
    "isotherm.plots": ("traces", "marginals", "pairs", "temperatures", "convergence", "calibration"),
    "isotherm.interop.numpyro": ("posterior", "Model"),
    "isotherm.interop.flax": ("posterior",),
    "isotherm.interop.equinox": ("posterior",),
    "isotherm.networks": ("fit", "NetworkFit"),
    "isotherm.estimators": ("BayesianRegressor", "BayesianClassifier"),
    "isotherm.data": (
        *("load", "Weighted", "sparse_rows", "sparse_dot"),
        *("Source", "arrays", "npy", "parquet", "zarr", "generated"),
    ),
    "isotherm.tables": ("regression", "forecast"),
    "isotherm.tables.families": (
        *("Prior", "Family", "LocationFamily", "Target", "Auxiliary", "Law"),
        *("Link", "Effect", "Facts", "Together"),
    ),
    "isotherm.judging.diagnosis": ("Diagnosis",),
    "isotherm.draws.record": ("RunRecord",),
    "isotherm.prediction.record": ("Prediction",),
    "isotherm.prediction.likelihood": ("LogLikelihood",),
    "isotherm.extend": (
        *("Sampler", "LangevinSampler", "MomentumSampler", "AdaptiveLangevin", "Traits", "Thermostat"),
        *("Gradient", "Covariance", "Operator", "MinibatchPlan", "Preconditioner", "Kernel", "Visit"),
        *("Batch", "Needs", "GradientEstimate", "State", "Info", "Temperatures", "Status", "status_of"),
    ),
}


def entry(name: str, thing: Any) -> str:
    """Heading, signature and docstring."""
    doc = inspect.cleandoc(thing.__doc__ or "")
    doc = re.sub(r"\$\$(.+?)\$\$", r"\n$$\n\1\n$$\n", doc, flags=re.DOTALL)
    return f"### `{name}`\n\n```python\n{name}{signature(thing)}\n```\n\n{doc}\n\n{methods(thing)}\n"


def methods(thing: Any) -> str:
    """A line for each documented method and property that a class has of its own."""
    if not inspect.isclass(thing):
        return ""
    lines = []
    for name, member in vars(thing).items():
        doc = inspect.getdoc(member)
        if (
            name.startswith("_")
            or not doc
            or not (inspect.isfunction(member) or isinstance(member, property))
        ):
            continue
        call = (
            ""
            if isinstance(member, property)
            else signature(member).replace("(self, ", "(").replace("(self)", "()")
        )
        first = " ".join(doc.split("\n\n")[0].split())
        lines.append(f"- `.{name}{' '.join(call.split())}`: {first}")
    return "\n".join(lines) + "\n" if lines else ""


def signature(thing: Any) -> str:
    """As it is called, without annotations, which are long; a line an argument where it is long all the same."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return ""
    shown, starred = [], False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not starred:
            shown, starred = [*shown, "*"], True
        shown_as = p.default.__name__ if callable(p.default) else repr(p.default)
        default = "" if p.default is p.empty else f"={shown_as}"
        shown.append(f"{p.name}{default}" if p.kind is not p.VAR_POSITIONAL else f"*{p.name}")
    line = ", ".join(shown)
    return f"({line})" if len(line) < 70 else "(\n    " + ",\n    ".join(shown) + ",\n)"


def write_api(*_: object) -> None:
    """`api.md`, from the docstrings."""
    parts = ["# Public names\n\n`import isotherm as iso`; all of these are `iso.NAME`.\n"]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n")
        parts += [entry(name, getattr(isotherm, name)) for name in names]
    for module, names in MODULES.items():
        parts.append(f"## `{module}`\n")
        parts += [entry(name, getattr(importlib.import_module(module), name)) for name in names]
    text = "\n".join(parts)
    path = HERE / "api.md"
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def write_notebooks(*_: object) -> None:
    """A page of Markdown for each notebook, with the outputs that are stored in it."""
    for path in sorted((HERE / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
            data = output.get("data", {})
            if "text/html" in data:  # as Markdown, HTML would end at its first empty line
                output["data"] = {"text/markdown": f"```{{raw}} html\n{data['text/html']}\n```"}
        text, resources = MarkdownExporter().from_notebook_node(
            notebook, resources={"output_files_dir": f"{path.stem}_files"}
        )
        path.with_suffix(".md").write_text(text.replace("![png]", "![Figure made by the code above]"))
        for name, content in resources["outputs"].items():
            file = path.parent / name
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(content)


def mathml(translator: Any, node: Any) -> None:
    """A formula as the browser draws it by itself: no script, no network."""
    display = "block" if node.tagname == "math_block" else "inline"
    translator.body.append(latex2mathml.converter.convert(node.astext(), display=display))
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("config-inited", write_api)
    app.connect("config-inited", write_notebooks)
    app.add_html_math_renderer("mathml", inline_renderers=(mathml, None), block_renderers=(mathml, None))
