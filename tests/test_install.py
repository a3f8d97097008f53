"""What a user installs: a complete wheel, a core that needs no extra, and errors that name a missing extra."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Packages that only extras install, and the parts of isotherm that need them.
EXTRAS = {
    "matplotlib": ("plots", "iso.plots.traces(draws)"),
    "blackjax": ("nuts", "iso.reference_posterior(posterior, x, jnp.zeros(()))"),
    "numpyro": ("numpyro", "iso.interop.numpyro"),
    "flax": ("flax", "iso.interop.flax"),
    "sklearn": ("datasets", "iso.data.load('a9a')"),
}

CORE = """
import sys

sys.modules.update(dict.fromkeys({packages!r}))  # as if they were not installed
import jax.numpy as jnp, numpy as np
import isotherm as iso

x = np.random.default_rng(0).normal(size=500).astype(np.float32)
posterior = iso.Posterior(lambda m, row: -0.5 * (row - m) ** 2)
draws = iso.sample(posterior, x, jnp.zeros(()), num_draws=50, num_chains=2, progress=False)
assert draws.complete.all()
for code in {codes!r}:
    try:
        eval(code)
    except ImportError as error:
        print(error)
    else:
        print("no error from", code)
"""


@pytest.mark.slow
def test_the_core_samples_without_any_extra_and_each_is_named():
    codes = [code for _, code in EXTRAS.values()]
    script = CORE.format(packages=tuple(EXTRAS), codes=codes)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for (extra, _), line in zip(EXTRAS.values(), done.stdout.splitlines(), strict=True):
        assert f"pip install 'isotherm[{extra}]'" in line


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return wheel and sdist, built by the back end that pip would call."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


@pytest.mark.slow
def test_wheel_and_sdist_hold_what_they_should(built):
    wheel, sdist = built
    modules = {str(p.relative_to(ROOT / "src")) for p in (ROOT / "src" / "isotherm").rglob("*.py")}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert modules | {"isotherm/py.typed"} <= names
    assert not [n for n in names if not n.startswith(("isotherm/", "isotherm-"))]
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "src/isotherm/py.typed"} <= names
    assert not [n for n in names if n.startswith((".venv", "out", ".carry", ".pytest_cache", "docs/_build"))]


@pytest.mark.slow
def test_types_hold_for_users(built, tmp_path):
    """A user's type checker reads the annotations of the wheel: right calls pass, and two mistakes are found."""
    with zipfile.ZipFile(built[0]) as archive:
        archive.extractall(tmp_path / "site")
    (tmp_path / "pyrefly.toml").write_text("")
    script = tmp_path / "script.py"
    script.write_text(
        "import isotherm as iso\n"
        "posterior = iso.Posterior(lambda m, row: -0.5 * (row - m) ** 2)\n"
        "draws: iso.Draws = iso.sample(posterior, [1.0, 2.0], 0.0, num_draws=5)\n"
        "verdict: str = draws.summary().verdict\n"
        "wrong: int = draws.summary().verdict\n"
        'iso.sample(posterior, [1.0], 0.0, num_draws="five")\n'
    )
    command = [
        str(Path(sys.executable).parent / "pyrefly"),
        "check",
        "--output-format",
        "min-text",
        str(script),
    ]
    options = ["--search-path", str(tmp_path / "site"), "--python-interpreter-path", sys.executable]
    done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
    errors = [line for line in done.stdout.splitlines() if line.startswith("ERROR")]
    assert len(errors) == 2, done.stdout + done.stderr
    assert "script.py:5:" in errors[0]
    assert "script.py:6:" in errors[1]
