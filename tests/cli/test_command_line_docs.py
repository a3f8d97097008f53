"""The commands in docs/command-line.md, run on a table whose posterior is known."""

import contextlib
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import isotherm as iso
from isotherm.cli import main
from support.monte_carlo import LIMIT

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
N = 2000


def table():
    """Return a table with columns far from zero in very different units, and a target that is linear in them."""
    rng = np.random.default_rng(3)
    age, dose, sex = rng.normal(50, 12, N), rng.gamma(2, 3e-3, N), rng.choice(["f", "m"], N)
    pressure = 100 + 0.5 * age - 1000 * dose + 4 * (sex == "m") + rng.normal(0, 12, N)
    return pd.DataFrame({"age": age, "dose": dose, "sex": sex, "pressure": pressure})


def exact(frame):
    """Return mean and sd of the coefficients, which are normal given sigma.

    Sigma is known up to 1/sqrt(2N); taking it as known changes means and sds by less than 1/N of the sd.
    """
    x = np.stack([frame.age, frame.dose, frame.sex == "m"], axis=1).astype(float)
    m, s, o, u = x.mean(axis=0), x.std(axis=0), frame.pressure.mean(), frame.pressure.std(ddof=0)
    X = np.concatenate([np.ones((N, 1)), (x - m) / s], axis=1)
    y = (frame.pressure.to_numpy() - o) / u
    variance = np.sum((y - X @ np.linalg.lstsq(X, y)[0]) ** 2) / (N - 4)
    precision = X.T @ X / variance + np.diag([1 / 25, 1 / 6.25, 1 / 6.25, 1 / 6.25])
    b, C = np.linalg.solve(precision, X.T @ y / variance), np.linalg.inv(precision)
    back = np.block([[np.ones((1, 1)), -(m / s)[None]], [np.zeros((3, 1)), np.diag(1 / s)]]) * u
    return back @ b + [o, 0, 0, 0], np.sqrt(np.diag(back @ C @ back.T))


def shell(line):
    """Run an `isotherm` command and return its exit code; `> FILE` redirects its output."""
    name, *arguments = shlex.split(line)
    assert name == "isotherm"
    with contextlib.ExitStack() as stack:
        if ">" in arguments:
            *arguments, _, file = arguments
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(open(file, "w"))))
        return main(arguments)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
def test_the_commands_run_and_give_the_exact_posterior(tmp_path, monkeypatch):
    """A block that names a file in its first line is written to that file; commands run in order."""
    monkeypatch.chdir(tmp_path)
    frame = table()
    frame.to_csv("patients.csv", index=False)
    new = frame.drop(columns="pressure")[:50]
    new.to_csv("new_patients.csv", index=False)
    count = 0
    for kind, text in re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE):
        if kind == "sh":
            for line in text.splitlines():
                count += 1
                assert shell(line) == 0, line
        elif kind != "console":
            name = re.match(r"# (\S+)\n", text)
            assert name is not None
            Path(name.group(1)).write_text(text)
    assert count == 8
    summary = iso.load("run/draws.iso").summary()
    for name, mean, sd in zip(("intercept", "age", "dose", "sex=m"), *exact(frame), strict=True):
        row = summary[name]
        assert abs(row.mean - mean) < LIMIT * row.mcse + sd / N
        assert abs(row.sd / sd - 1) < LIMIT * (2 * row.ess_bulk) ** -0.5 + 1 / N
    assert {path.name for path in Path("run/figures").iterdir()} == {
        "traces.png",
        "marginals.png",
        "temperatures.png",
    }
    large = iso.load("large/draws.iso").summary()  # of the same rows in another order
    for name, mean, sd in zip(("intercept", "age", "dose", "sex=m"), *exact(frame), strict=True):
        assert abs(large[name].mean - mean) < LIMIT * large[name].mcse + sd / N
    found, (mean, _) = pd.read_csv("predictions.csv"), exact(frame)
    expected = mean[0] + np.stack([new.age, new.dose, new.sex == "m"], axis=1).astype(float) @ mean[1:]
    # The posterior sd of the expected response is 0.5; its mean over draws has an error of 5 % of that.
    assert np.abs(found["mean"] - expected).max() < 0.2
    # The width has a standard error of 2 % from 2,000 outcomes and of 1.6 % from sigma.
    assert np.abs((found.high - found.low) / (2 * 1.645 * 12) - 1).max() < 0.15
    for folder in ("run", "own", "large"):
        assert "passed" in Path(folder, "report.html").read_text()
