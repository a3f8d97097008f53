"""The package as a user sees it: light to import, with all public names documented."""

import subprocess
import sys
import tomllib
from pathlib import Path

import isotherm as iso
from isotherm import keys

CONTRACT = (
    *("Posterior", "WithReplacement", "WithoutReplacement", "RandomBlocks", "Reshuffled"),
    *("Minibatch", "FullData", "ControlVariate", "Diagonal", "Dense", "DiagonalLowRank", "MatrixFree"),
    *("SGLD", "ModifiedSGLD", "SGHMC", "SGNHT", "CCAdL", "ModifiedCCAdL"),
    *("sample", "sweep", "warmup", "setup", "Setup", "Draws", "load", "reference_posterior"),
    *("diagnose", "report", "predict", "log_likelihood", "with_log_likelihood", "IsothermWarning"),
    *("data", "extend", "interop", "plots", "scores", "tables"),
)
FOR_EXTENSIONS = (
    *("Sampler", "LangevinSampler", "MomentumSampler", "AdaptiveLangevin", "Traits", "Thermostat"),
    *("Gradient", "Covariance", "Operator", "MinibatchPlan", "Preconditioner"),
    *("Kernel", "Batch", "GradientEstimate", "Needs", "State", "Info", "Temperatures", "Status"),
)

HEAVY = (
    "arviz",
    "arviz_base",
    "arviz_stats",
    "xarray",
    "pandas",
    "scipy",
    "matplotlib",
    "blackjax",
    "optax",
    "rich",
)


def test_public_names_are_there_and_documented():
    for name in CONTRACT:
        assert getattr(iso, name).__doc__, name
    for name in FOR_EXTENSIONS:
        assert getattr(iso.extend, name).__doc__, name


def test_folds_of_keys_are_all_different():
    folds = [value for name, value in vars(keys).items() if name.isupper()]
    assert len(folds) == len(set(folds)) > 10
    assert min(folds) >= 2**31


def test_importing_it_loads_nothing_heavy():
    code = f"import sys, isotherm; print([m for m in {HEAVY!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    # JAX itself may import SciPy; nothing else may.
    baseline = f"import sys, jax, jax.numpy; print([m for m in {HEAVY!r} if m in sys.modules])"
    jax_alone = subprocess.run(
        [sys.executable, "-c", baseline], capture_output=True, text=True, check=True
    ).stdout
    assert out == jax_alone


def test_the_version_is_stated_once():
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    assert iso.__version__ == project["version"]


def test_samplers_are_leaves_and_equations():
    """Hyper-parameters are array leaves, as `vmap` and sweeps require."""
    import jax

    sampler = iso.CCAdL(step_size=0.1, friction=2, covariance=iso.Dense(), thermal_mass=3.0, temperature=0.5)
    assert [float(x) for x in jax.tree.leaves(sampler) if hasattr(x, "dtype")] == [
        float(jax.numpy.float32(x)) for x in (0.1, 2.0, 1.0, 3.0, 0.5)
    ]


def test_the_package_is_the_command():
    command = [sys.executable, "-m", "isotherm", "--version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == f"isotherm {iso.__version__}"
