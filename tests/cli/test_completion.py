"""`isotherm completion`: scripts that name every command and option, and complete them in bash."""

import shutil
import subprocess

import pytest

from isotherm.cli import main
from isotherm.tables.families import MODELS


def script(shell, capsys):
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_name_commands_options_and_choices(shell, capsys):
    text = script(shell, capsys)
    for word in ("check", "sample", "resume", "convert", "encoding", "shuffle", "negative-binomial"):
        assert word in text
    assert "--tiny" not in text
    assert "-l tiny" not in text


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_what_was_begun(capsys, tmp_path):
    (tmp_path / "s.bash").write_text(script("bash", capsys))

    def completed(*words):
        command = (
            'source s.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _isotherm; echo "${COMPREPLY[@]}"'
        )
        done = subprocess.run(
            ["bash", "-c", command, "bash", *words], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return done.stdout.split()

    assert completed("isotherm", "sa") == ["sample"]
    assert completed("isotherm", "check", "t.csv", "--ta") == ["--target"]
    assert completed("isotherm", "sample", "--example", "") == list(MODELS)
    assert "convert" in completed("isotherm", "data", "")
    assert completed("isotherm", "data", "convert", "--sh") == ["--shuffle"]
    assert completed("isotherm", "predict", "--missing", "") == ["refuse", "empty"]
    assert completed("isotherm", "completion", "") == ["bash", "zsh", "fish", "-h", "--help"]
