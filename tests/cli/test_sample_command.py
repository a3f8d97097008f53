"""`isotherm sample` and `isotherm report`: specs, files, exit codes, and what they print."""

import dataclasses
import json
import sys
import tomllib
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import isotherm as iso
import isotherm.sampling.resume  # before a test replaces what it imports
from isotherm.cli import cost, main
from isotherm.cli.commands import COMMANDS
from isotherm.cli.cost import Cost
from isotherm.cli.examples import example
from isotherm.cli.spec import make_problem, read_spec
from isotherm.tables.families import MODELS, Prior, family_of
from support.laws import target
from support.made_run import made_diagnosis, made_draws

COMMAND_NAMES = (
    *("check", "priors", "sample", "resume", "watch", "predict", "effects"),
    *("report", "reproduce", "validate", "bench", "data", "completion"),
)
SPEC = """
model = "linear"
[data]
path = "t.csv"
target = "y"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with a table and a spec, which is the working directory of the command."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": rng.normal(5, 2, 40), "b": rng.choice(["u", "v"], 40), "y": rng.normal(size=40)}
    )
    frame.to_csv("t.csv", index=False)
    (tmp_path / "spec.toml").write_text(SPEC)
    return tmp_path


class Run:
    """Replaces the sampler: records how it was called, and returns made-up draws."""

    def __init__(self, monkeypatch):
        self.draws, self.cost, self.stopped = made_draws(2), 5.0, False
        self.asked = {}
        monkeypatch.setattr(
            "isotherm.sampling.sampled.setup_of", lambda *args, **_: self.note("setup", args[2])
        )
        monkeypatch.setattr("isotherm.sampling.sampled.sampled", self.sample)
        monkeypatch.setattr("isotherm.chains.stored.save_setup", lambda *_: None)
        monkeypatch.setattr(iso, "diagnose", self.diagnose, raising=False)
        monkeypatch.setattr(cost, "measure", lambda *_, **__: Cost(self.cost, "about 5 s: all of it"))

    def note(self, name, options):
        self.asked[name] = options

    def sample(self, posterior, data, call, **_):
        self.note("sample", call)
        return self.draws

    def diagnose(self, draws, **options):
        self.note("diagnose", options)
        if self.stopped:
            raise KeyboardInterrupt
        return made_diagnosis(draws)


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # figures are drawn in another test
    return Run(monkeypatch)


def test_a_run_writes_its_folder_and_says_so(folder, run, capsys):
    assert main(["sample", "spec.toml"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Linear regression of y\nabout 5 s: all of it\n")
    assert "No fault found" in out
    assert "report    run/report.html" in out
    names = {path.name for path in (folder / "run").iterdir()}
    assert names == {
        "draws.iso",
        "summary.json",
        "diagnosis.json",
        "report.html",
        "settings.json",
        "store",
    }
    draws = iso.load(folder / "run" / "draws.iso")
    assert draws.labels == {"coefficients": [["intercept", "a", "b=v"]]}
    assert (draws.about.data["file"], draws.about.data["rows"]) == ("t.csv", 40)
    assert run.asked["setup"] is run.asked["sample"]
    assert run.asked["sample"].num_draws == 1000
    assert run.asked["diagnose"] == {"effort": 1.0, "seed": 0}


def test_settings_reach_the_sampler(folder, run):
    (folder / "spec.toml").write_text(
        SPEC + "[sample]\nnum_draws = 800\nbatch_size = 8\nseed = 3\nnum_chains = 2\n"
    )
    assert main(["sample", "spec.toml", "--quick", "--seed", "7", "--json"]) == 0
    call = run.asked["sample"]
    assert (call.num_draws, call.batch_size, call.num_chains) == (200, 8, 2)
    assert jax.random.key_data(call.key).tolist() == [0, 7]
    assert run.asked["diagnose"] == {"effort": 0.25, "seed": 7}


def test_json_is_one_object_and_nothing_else(folder, run, capsys):
    assert main(["sample", "spec.toml", "--json", "--out", "new"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["exit_code"] == 0
    assert record["ok"] is True
    assert record["estimated_seconds"] == 5.0
    assert [row["name"] for row in record["parameters"]][:2] == ["intercept", "a"]
    assert "new/report.html" in record["files"]
    assert main(["sample", "absent.toml", "--json", "--force"]) == 2
    record = json.loads(capsys.readouterr().out)
    assert record["exit_code"] == 2
    assert "absent.toml" in record["error"]


def test_the_exit_code_is_the_verdict(folder, run, capsys):
    run.draws = made_draws(2, shift=3.0)
    assert main(["sample", "spec.toml"]) == 1
    assert "Do not trust these draws yet" in capsys.readouterr().out
    run.draws = made_draws(2, interrupted=True)
    assert main(["sample", "spec.toml", "--force"]) == 130
    assert not (folder / "run" / "diagnosis.json").exists()  # the one of the earlier run is gone
    run.draws, run.stopped = made_draws(2), True
    assert main(["sample", "spec.toml", "--out", "other"]) == 130
    assert (folder / "other" / "draws.iso").exists()
    assert (folder / "other" / "report.html").exists()


def test_a_folder_is_overwritten_only_with_force(folder, run, capsys):
    (folder / "run").mkdir()
    assert main(["sample", "spec.toml"]) == 0  # an empty one is fine
    before = (folder / "run" / "draws.iso").read_bytes()
    assert main(["sample", "spec.toml"]) == 2
    assert "--force" in capsys.readouterr().err
    assert (folder / "run" / "draws.iso").read_bytes() == before
    assert main(["sample", "spec.toml", "--force"]) == 0


@pytest.mark.parametrize(
    ("arguments", "terminal", "answer", "code"),
    [
        ([], True, "n", 130),
        ([], True, "", 130),
        ([], True, "y", 0),
        (["--yes"], True, None, 0),
        (["--limit", "60"], True, None, 0),
        ([], False, None, 0),
    ],
)
def test_a_long_run_is_asked_about_on_a_terminal(arguments, terminal, answer, code, folder, run, monkeypatch):
    def reply(_):
        assert answer is not None
        return answer

    run.cost = 1200.0
    monkeypatch.setattr("builtins.input", reply)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: terminal, raising=False)
    assert main(["sample", "spec.toml", *arguments]) == code
    assert ("sample" in run.asked) is (code == 0)


def test_a_report_is_written_again_without_the_data(folder, run, capsys):
    assert main(["sample", "spec.toml"]) == 0
    (folder / "t.csv").unlink()
    page = folder / "run" / "report.html"
    before = page.read_text()
    page.unlink()
    assert main(["report", "run"]) == 0
    assert page.read_text() == before
    assert main(["report", "nowhere"]) == 2
    assert "it has no draws.iso" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            SPEC.replace("target", "tagret"),
            r"`tagret` in \[data\] is not a key of a spec; did you mean `target`\?",
        ),
        (SPEC + "[sampel]\n", r"`sampel` is not a key of a spec; did you mean `sample`\?"),
        (SPEC + "[sample]\nxyz = 1\n", r"`xyz` in \[sample\] is not a key of a spec; the keys are num_draws"),
        (SPEC + "[sample]\nnum_draws = 1.5\n", "`num_draws` must be an integer; got 1.5"),
        (SPEC + "standardize = 1\n", "`standardize` must be true or false; got 1"),
        (SPEC + 'features = "a"\n', "`features` must be a list of strings; got 'a'"),
        (SPEC + "[prior]\nsigma = true\n", "`sigma` must be a number; got True"),
        (SPEC + "[prior]\nsigma = -1\n", "`sigma` must be a positive number; got -1"),
        ("prior = 1\n", "`prior` must be a section; got 1"),
        ('function = "f.py:g"\n' + SPEC, "A spec has exactly one of the two"),
        ('title = "x"\n', "A spec has exactly one of the two"),
        ('model = "linear"\n', r"`\[data\]` must be a section with `path` and `target`"),
        ("model = linear\n", "is not valid TOML"),
        (SPEC.replace("linear", "cauchit"), "`model` must be one of linear"),
        (SPEC.replace("t.csv", "u.csv"), r"there is no file .*u\.csv"),
        (SPEC.replace('"y"', '"z"'), "`target` must be a column of the table; got 'z'"),
        ('function = "f.py:g"\n', r"there is no file .*f\.py"),
        ('function = "own.py:absent"\n', "the name of a function in own.py; got 'absent'"),
        ('function = "own.py:wrong"\n', r"a function that returns \(posterior, data, init\); got 3"),
    ],
)
def test_bad_specs_are_refused_before_anything_is_run(text, message, folder, capsys, run):
    (folder / "spec.toml").write_text(text)
    (folder / "own.py").write_text("def wrong():\n    return 3\n")
    with pytest.raises((ValueError, OSError), match=message):
        make_problem(read_spec("spec.toml"))
    assert main(["sample", "spec.toml"]) == 2
    assert capsys.readouterr().out == ""
    assert run.asked == {}
    assert not (folder / "run").exists()


def test_a_function_gets_the_columns(folder):
    (folder / "own.py").write_text("def make(columns=None):\n    return 'posterior', columns, 'init'\n")
    (folder / "spec.toml").write_text('function = "own.py:make"\ntitle = "Mine"\n[data]\npath = "t.csv"\n')
    problem = make_problem(read_spec("spec.toml"))
    assert (problem.posterior, problem.init, problem.about.title) == ("posterior", "init", "Mine")
    assert list(problem.data) == ["a", "b", "y"]
    assert make_problem(read_spec("own.py:make")).data is None
    (folder / "own_module.py").write_text("def make():\n    return 1, 2, 3\n")
    assert make_problem(read_spec("own_module:make")).data == 2
    with pytest.raises(ValueError, match="`SPEC` must be a TOML file or module:function"):
        read_spec("spec")


def test_refusals_name_a_function_as_the_way_out(folder, capsys):
    (folder / "spec.toml").write_text(SPEC.replace("linear", "cauchit"))
    assert main(["sample", "spec.toml"]) == 2
    assert "`function` in place of `model` names a function" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("my_model.py:mak", "a function in my_model.py; got 'mak'. Did you mean `make`?"),
        ("my_modl.py:make", "there is no file"),
        ("no_such_module:make", "with a module that Python finds; got 'no_such_module'"),
        ("my_model:make.it", "a function in my_model; got 'make.it'"),
    ],
)
def test_a_misspelt_function_is_named_without_a_traceback(name, words, folder, capsys):
    (folder / "my_model.py").write_text("def make():\n    return None\n")
    (folder / "own.toml").write_text(f'function = "{name}"\n')
    assert main(["sample", "own.toml"]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert "Traceback" not in err


def test_an_error_in_the_users_function_is_shown_with_its_traceback(folder, capsys):
    (folder / "own.py").write_text("def make():\n    raise RuntimeError('mine')\n")
    assert main(["sample", "own.py:make"]) == 2
    err = capsys.readouterr().err
    assert "own.py" in err
    assert err.endswith("isotherm: mine\n")


@pytest.mark.parametrize("model", MODELS)
def test_examples_are_specs(model, folder, capsys):
    assert main(["sample", "--example", model]) == 0
    text = capsys.readouterr().out
    assert text == example(model) + "\n"
    (folder / "spec.toml").write_text(text)
    assert read_spec("spec.toml").model == model
    # The lines that are commented out must be valid too.
    lines = [line.removeprefix("# ") for line in text.splitlines()]
    (folder / "spec.toml").write_text("\n".join(lines))
    Prior.of(tomllib.loads("\n".join(lines))["prior"]).check(family_of(model))
    read_spec("spec.toml")


@pytest.mark.parametrize("model", MODELS)
def test_an_example_describes_a_model_of_a_table(model, folder):
    """The density is finite where chains start, for a table that has what the example names."""
    y, n = target(model, 40), np.full(40, 30)
    y = np.searchsorted(np.unique(y), y) if family_of(model).target.is_ordered else y
    columns = {"a": np.linspace(-1, 1, 40), "y": y} | ({"n": n} if model == "binomial" else {})
    pd.DataFrame(columns).to_csv(folder / "table.csv", index=False)
    (folder / "spec.toml").write_text(example(model))
    found = make_problem(read_spec("spec.toml"))
    rows = {name: jnp.asarray(x) for name, x in found.data.items()}
    assert np.isfinite(found.posterior.row_log_likelihoods(found.init, rows)).all()
    assert found.labels["coefficients"][-1] == ["intercept", "a"]


@pytest.mark.parametrize("command", COMMAND_NAMES)
def test_help_ends_with_an_example(command, capsys):
    with pytest.raises(SystemExit) as done:
        main([command, "--help"])
    assert done.value.code == 0
    assert f"  isotherm {command}" in capsys.readouterr().out.split("\nexample")[-1]
    assert len(COMMANDS) + 1 == len(COMMAND_NAMES)


def test_sample_without_a_spec_names_the_example(capsys):
    assert main(["sample"]) == 2
    assert "--example" in capsys.readouterr().err


def test_the_cost_grows_with_the_steps_and_not_with_the_fixed_costs(monkeypatch):
    """A run takes 2 s plus 1 ms per step, and compilation takes no time: 9 s for 7,000 steps."""
    asked = []

    def sample(*_, num_draws, **options):
        asked.append(num_draws)
        assert options == {"burn_in": 0, "thinning": 1, "progress": False, "num_chains": 2}
        draws = made_draws()
        record = dataclasses.replace(draws.record, seconds=2 + 0.001 * num_draws)
        return dataclasses.replace(draws, record=record)

    monkeypatch.setattr(iso, "sample", sample, raising=False)
    tuned = SimpleNamespace(batch_size=32, thinning=7, burn_in=0, passes=12.0, seconds=3.0, refresh_every=0)
    problem = SimpleNamespace(posterior=None, data=None)
    estimate = cost.measure(problem, tuned, {"num_chains": 2}, effort=0.0)
    assert estimate.seconds == pytest.approx(9.0, rel=0.01)
    assert estimate.text == (
        "about 9 s left: sampling takes about 9 s (2 x 1,000 draws x 7 steps of 32 rows); "
        "the warm-up took 12 passes over the data, 3 s"
    )
    assert asked == [1, 8, 64, 512]
    assert cost.measure(problem, tuned, {"num_chains": 2}, effort=0.25).seconds == pytest.approx(
        13.5, rel=0.02
    )


def test_steps_on_rows_that_are_not_in_memory_are_not_timed(monkeypatch):
    """Each trial would read the data again."""
    monkeypatch.setattr(iso, "sample", None)
    problem = SimpleNamespace(posterior=None, data=iso.data.arrays({"x": np.ones(3)}))
    tuned = SimpleNamespace(batch_size=32, thinning=7, burn_in=0, passes=12.0, seconds=30.0)
    estimate = cost.measure(problem, tuned, {}, effort=1.0)
    assert estimate == Cost(
        30.0, "the warm-up took 12 passes over the data, 30 s; the rest is likely to take about as long"
    )


def test_durations_are_in_a_suitable_unit():
    assert [cost.duration(s) for s in (0.2, 40.0, 100.0, 4000.0, 10000.0)] == [
        "about 1 s",
        "about 40 s",
        "about 1.7 min",
        "about 67 min",
        "about 2.8 h",
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_specs_as_other_systems_write_them(encoding, tmp_path):
    """PowerShell redirects into UTF-16, and some editors start UTF-8 with a byte-order mark."""
    path = tmp_path / "spec.toml"
    path.write_text(example("logistic"), encoding=encoding)
    assert read_spec(str(path)).model == "logistic"
