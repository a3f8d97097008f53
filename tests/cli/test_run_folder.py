"""The folder of `isotherm sample`: its files must belong together."""

import dataclasses
import shutil

import pytest

from isotherm.cli.folder import DIAGNOSIS, DRAWS, read_run, read_settings, write_run
from isotherm.draws.record import About
from isotherm.errors import DamagedFileError
from support.made_run import made_diagnosis, made_draws


def written(folder, draws):
    folder.mkdir()
    draws.save(folder / DRAWS)
    write_run(folder, draws, draws.summary(), made_diagnosis(draws))
    return folder


def test_a_store_of_python_is_named_as_such(tmp_path):
    (tmp_path / "call.iso").touch()
    for read in (read_run, read_settings):
        with pytest.raises(FileNotFoundError, match=r"holds a run of Python.*`iso\.resume\(.*`iso\.report\("):
            read(tmp_path)
        with pytest.raises(FileNotFoundError, match="not the folder of a run: it has no"):
            read(tmp_path / "none")


@pytest.mark.slow
def test_the_diagnosis_of_other_draws_is_refused(tmp_path):
    one, other = (dataclasses.replace(made_draws(shift=x), about=About(), labels={}) for x in (0.0, 1.0))
    first, second = written(tmp_path / "first", one), written(tmp_path / "second", other)
    assert read_run(first)[2] is not None
    shutil.copy(second / DIAGNOSIS, first / DIAGNOSIS)
    with pytest.raises(DamagedFileError, match=r"first.diagnosis\.json .* the diagnosis of other draws"):
        read_run(first)
