"""`isotherm bench`: its statistics, its rows, what it writes, and that it runs. Speeds are not tested."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
from rich.console import Console

import isotherm as iso
from isotherm.cli import main
from isotherm.studies.bench import (
    bench,
    chains,
    figure,
    memory,
    methods,
    others,
    peers,
    programs,
    quality,
    steps,
    turns,
)
from isotherm.studies.bench.problems import logistic, network
from isotherm.studies.bench.sizes import FULL, QUICK, TINY
from isotherm.studies.validation.record import Record

pytestmark = pytest.mark.usefixtures("quick_compilation")


def console():
    return Console(record=True, width=160)


def test_ratios_are_paired_by_round():
    """The ratio does not change if the machine slows down in the middle of a run."""
    base = [1.0, 1.0, 4.0, 4.0, 4.0]
    ratio = turns.paired([2.0, 2.2, 8.0, 7.2, 8.8], base)
    assert (ratio.low, ratio.median, ratio.high) == pytest.approx((2.0, 2.0, 2.2))
    assert str(ratio) == "2.00 (2.00 to 2.20)"
    row = turns.to_json([2.0, 2.2, 8.0, 7.2, 8.8], base)
    assert row["steps_per_second"] == pytest.approx(1 / 7.2)
    assert len(row["seconds_per_step"]) == 5
    assert turns.fastest({"a": [3.0, 1.0, 3.0], "b": [2.0, 2.0, 2.0]}) == "b"


@pytest.mark.parametrize(
    ("one", "seconds", "cycle", "expected"),
    [(0.1, 0.25, 1, 3), (1.0, 0.2, 1, 1), (0.1, 0.25, 8, 8), (0.1, 0.9, 8, 16)],
)
def test_a_round_is_long_enough_and_a_multiple_of_the_cycle(one, seconds, cycle, expected):
    assert turns.calls(one, seconds, cycle) == expected


def test_programs_take_turns_and_all_rounds_are_kept():
    seen = []
    programs = [turns.Program(name, 5, lambda name=name: seen.append(name)) for name in "abc"]
    times = turns.take_turns(programs, rounds=3, seconds=0.0)
    assert {name: len(x) for name, x in times.items()} == {"a": 3, "b": 3, "c": 3}
    assert "".join(seen) == "aabbcc" + "abc" + "bca" + "cab"


def test_rows_are_selected_by_name():
    names = [m.name for m in steps.methods("network", FULL, "")]
    assert names[0] == "SGNHT, euler"
    assert {
        f"CCAdL {c}, {s}" for c in ("Diagonal", "DiagonalLowRank", "MatrixFree") for s in quality.STEPS
    } < {*names}
    assert "CCAdL Dense exact, euler" in [m.name for m in steps.methods("logistic", FULL, "")]
    assert steps.methods("exact", QUICK, "") == []
    assert [m.name for m in steps.methods("logistic", FULL, "logistic: SGHMC")] == [
        "SGNHT, euler",
        "SGHMC Dense, euler",
    ]


def test_the_networks_have_the_stated_sizes():
    count = lambda layers: sum(a * b + b for a, b in itertools.pairwise(layers))
    assert network(TINY.layers, 10, 2).dimension == count(TINY.layers)
    assert count(FULL.layers) == 478_410
    assert count(FULL.wide_layers) > 10**7


def test_which_parts_are_planned():
    assert bench.plan(FULL, "") == ["network", "logistic", "peers", "memory"]  # `chains` needs a GPU
    assert bench.plan(FULL, "memory: ") == ["memory"]
    assert bench.plan(FULL, "BlackJAX") == ["peers"]
    assert bench.plan(FULL, "no such row") == []


def test_quality_of_exact_draws_is_right():
    target = quality._target()
    x = target.draw(np.random.default_rng(0), 64 * 500).reshape(64, 500, -1)
    record = Record(x, x, np.full((64, 500), 1.5 * quality.FRICTION))
    summary = quality.summarise(record, 0.25)
    assert summary.xi.value == pytest.approx(0.5)
    for figure_ in (summary.variance, summary.worst):
        assert abs(figure_.value) < 6 * figure_.error < 0.1
    wide = dataclasses.replace(record, position=target.mean + 2 * (x - target.mean))
    assert quality.summarise(wide, 0.25).variance.value == pytest.approx(3, abs=0.1)
    broken = dataclasses.replace(record, xi=np.full((64, 500), np.nan))
    assert quality.summarise(broken, 1.0) == quality.Quality(1.0, False)


def test_quality_uses_the_step_size_of_its_s():
    """s is h^2 times the largest eigenvalue of the whitened noise."""
    target, h = quality._target(), quality.settings(0.25).step_size
    root = np.sqrt(target.mass)
    assert h**2 * np.linalg.eigvalsh(quality._noise() / np.outer(root, root))[-1] == pytest.approx(0.25)


def test_cells_of_a_row():
    right = {"value": 0.012, "error": 0.005}
    q = {"s": 0.25, "finite": True, "xi": None, "variance": right, "worst": {"value": -0.4, "error": 0.02}}
    assert steps.quality_cells(q) == ("no xi", "+1.2±0.5 %", "-40.0±2.0 %")
    assert steps.quality_cells(q | {"finite": False}) == ("not finite",) * 3
    assert steps.quality_cells(None) == ("", "", "")
    row = {"name": "SGHMC Dense, euler", "cost": 1.234, "quality": [q]}
    assert figure.annotation(row) == "1.23   s = 0.25: no xi, worst variance -40.0±2.0 %"
    assert figure.style_of("SGHMC Dense, euler") != figure.style_of("SGHMC, euler")


def test_memory_is_counted_beyond_sgnht():
    assert memory.beyond(total=4 * 700, base=4 * 300, parameters=100, batch=8) == {
        "per_parameter": 4.0,
        "of_n_d": 0.5,
    }


def test_bytes_that_must_move():
    problem = logistic(64, 4, 8)
    assert chains.bytes_of_step(problem, chains=3, state=100) == 3 * 8 * (4 + 1) * 4 + 200


def test_missing_libraries_are_named_with_their_extra(monkeypatch):
    def missing(*_):
        raise ImportError("no such module")

    monkeypatch.setattr(others, "import_blackjax", missing)
    monkeypatch.setattr(others, "import_torch", missing)
    chosen = [others.BLACKJAX_SCAN, others.POSTERIORS]
    available, absent = peers.available(chosen, logistic(64, 4, 8), 1, say=lambda what: None)
    assert available == []
    assert absent == [
        "BlackJAX SGNHT, scan was not run. `BlackJAX` needs the extra `bench`: pip install 'isotherm[bench]'.",
        "posteriors SGNHT, torch on CPU was not run. "
        "`posteriors` needs the extra `bench`: pip install 'isotherm[bench]'.",
    ]
    assert peers.comparison({"isotherm SGNHT, euler": [1.0]}, 1) == []


def test_isotherm_is_compared_with_the_fastest_other_library():
    times = {peers.BASE_NAME: [1.0, 2.0], others.BLACKJAX_SCAN: [1.5, 3.0], others.BLACKJAX_LOOP: [9.0, 9.0]}
    (sentence,) = peers.comparison(times, 4)
    assert "4 chains" in sentence
    assert "1.50 (1.50 to 1.50) times as many steps per second as BlackJAX SGNHT, scan" in sentence


def test_a_program_does_not_change_the_problem():
    """The state is donated and updated in place; the start of the problem is not."""
    problem = logistic(64, 4, 8)
    running = programs.Chains(programs.kernel_of(methods.BASE, problem), problem, steps=2, chains=3)
    running()
    assert np.asarray(running().step).tolist() == [4, 4, 4]
    assert running.finite()
    assert np.all(np.isfinite(problem.start))


def test_without_matplotlib_a_line_replaces_the_figure(monkeypatch, tmp_path):
    def missing():
        raise ImportError("Figures need matplotlib: pip install 'isotherm[plots]'.")

    monkeypatch.setattr(bench.plots, "require_matplotlib", missing)
    assert bench._draw([], tmp_path).endswith("pip install 'isotherm[plots]'.")


@pytest.mark.slow
def test_the_command_from_end_to_end(tmp_path, capsys):
    """The smallest sizes, with one covariance and the baseline; checks the output and the files."""
    only = "logistic: CCAdL Diagonal, euler"
    assert main(["bench", "--tiny", "--only", only, "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    results = json.loads((tmp_path / "bench.json").read_text())
    assert set(results) == {"parts", "settings", "seconds", "device", "versions"}
    assert results["versions"]["isotherm"] == iso.__version__
    assert results["device"]["platform"] == "cpu"
    (part,) = results["parts"].values()
    assert part["title"] in shown
    assert [row["name"] for row in part["rows"]] == ["SGNHT, euler", "CCAdL Diagonal, euler"]
    assert part["rows"][0]["cost"] == 1
    for row in part["rows"]:
        assert len(row["seconds_per_step"]) == TINY.rounds
        assert row["finite"]
        assert row["cost"] > 0
        assert [q["s"] for q in row["quality"]] == [0.25]
    assert (tmp_path / "figures" / "bench.png").stat().st_size > 0


@pytest.mark.slow
def test_the_network_at_both_batch_sizes():
    part = steps.network_part(TINY, {}, "CCAdL Diagonal exact", say=lambda what: None)
    assert [row["name"] for row in part.rows] == ["SGNHT, euler, n = 4", "CCAdL Diagonal exact, euler, n = 4"]
    assert all(len(line) == len(part.header) for line in part.lines)
    assert part.rows[0]["cost"] == 1


@pytest.mark.slow
def test_memory_of_compiled_steps():
    """The memory includes the running variances. At these sizes it cannot show that they do not grow with n."""
    part = memory.memory_part(TINY, "memory: CCAdL Diagonal, euler", say=lambda what: None)
    assert [row["batch_size"] for row in part.rows] == [4, 8, 4, 8]
    assert [row["beyond"]["per_parameter"] for row in part.rows[:2]] == [0, 0]
    assert all(row["beyond"]["per_parameter"] >= 1 for row in part.rows[2:])
    assert [len(line) for line in part.lines] == [7, 7]


@pytest.mark.slow
def test_peers_from_end_to_end_and_json(tmp_path, capsys):
    only = "peers: BlackJAX SGNHT, scan, 1"
    assert main(["bench", "--tiny", "--only", only, "--out", str(tmp_path), "--json"]) == 0
    results = json.loads(capsys.readouterr().out)
    names = [row["name"] for row in results["parts"]["peers"]["rows"]]
    notes = results["parts"]["peers"]["notes"]
    assert names[0] == "isotherm SGNHT, euler, 1 chain"
    assert names[1:] == ["BlackJAX SGNHT, scan, 1 chain"] or "was not run" in notes[0]


@pytest.mark.slow
def test_many_chains_and_a_wide_network():
    """The part for a GPU, at sizes that a CPU can run."""
    part = chains.chains_part(TINY, "chains: CCAdL Di", say=lambda what: None)
    assert [row["chains"] for row in part.rows] == [1, 3, 3]
    assert all(row["finite"] and row["bytes_per_step"] > 0 for row in part.rows)
    screen = console()
    bench.show(part, screen)
    assert "chain-steps/s" in screen.export_text()


def test_a_row_that_does_not_exist(capsys):
    assert main(["bench", "--tiny", "--only", "no such row"]) == 2
    assert "no row has 'no such row'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_network_of_other_widths(tmp_path, capsys):
    command = ["bench", "--tiny", "--only", "network: SGNHT, euler", "--out", str(tmp_path), "--json"]
    assert main([*command, "--layers", "5-4-3"]) == 0
    assert "network 5-4-3, 39 parameters" in json.loads(capsys.readouterr().out)["parts"]["network"]["title"]
    with pytest.raises(SystemExit, match="2"):
        main(["bench", "--layers", "5"])
    assert "must be two or more widths" in capsys.readouterr().err
