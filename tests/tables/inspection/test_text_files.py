"""How CSV files are written is found from their text: encoding, separator, decimal mark and names."""

import gzip
import itertools

import numpy as np
import pytest

from isotherm.tables.inspection.inspect import inspect
from isotherm.tables.inspection.text_file import text_file

RNG = np.random.default_rng(0)
VALUES = RNG.normal(50, 20, (60, 3)).round(2)


def text(separator=",", decimal=".", header=("âge", "dose", "y"), values=VALUES):
    """Return a table as text."""
    lines = [list(header)] if header else []
    lines += [[f"{x:.2f}".replace(".", decimal) for x in row] for row in values]
    quote = (lambda x: f'"{x}"') if separator == decimal else str
    return "".join(separator.join(map(quote, line)) + "\n" for line in lines)


@pytest.mark.parametrize(
    ("separator", "decimal", "encoding", "packed"),
    [
        *itertools.product([",", ";", "\t", "|"], ["."], ["utf-8"], [False]),
        *itertools.product(
            [";", "\t", "|"], [","], ["utf-8", "utf-8-sig", "cp1252", "utf-16"], [False, True]
        ),
        (",", ".", "cp1252", False),
        (",", ".", "utf-16-le", False),
        (";", ",", "utf-16-be", False),
        (",", ".", "utf-8-sig", False),
    ],
)
def test_files_of_all_countries_are_read_as_they_are_written(separator, decimal, encoding, packed, tmp_path):
    content = text(separator, decimal).encode(encoding)
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    found = text_file(path)
    assert found.names == ("âge", "dose", "y")
    assert (found.form.separator_of(path), found.form.decimal) == (separator, decimal)
    assert found.form.encoding == {"utf-8-sig": "utf-8"}.get(encoding, encoding)
    expected = {"separator": separator != ",", "decimal": decimal == ",", "encoding": encoding != "utf-8"}
    assert {f.kind for f in found.findings} == {kind for kind, there in expected.items() if there}
    result = inspect(path, "y", progress=False)
    assert result.ok
    assert result.names == ("âge", "dose")


def test_a_wrong_byte_is_found_far_into_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr("isotherm.tables.inspection.text_file._BLOCK_BYTES", 1000)
    lines = [f"{i},x" for i in range(3000)]
    lines[2500] = "1,é"
    path = tmp_path / "t.csv"
    path.write_bytes("\n".join(["a,b", *lines]).encode("latin-1"))
    (finding,) = text_file(path).findings
    assert "first in line 2,502; it is read as cp1252" in finding.fault
    path.write_bytes(path.read_bytes().replace(b"\xe9", b"\x81"))  # which cp1252 does not have
    assert text_file(path).form.encoding == "latin-1"


@pytest.mark.parametrize(
    ("header", "named"),
    [
        (("a", "b", "c"), True),
        (("2020", "2021", "2022"), True),
        (("name", "2021", "y"), True),
        (("1.5", "2.5", "7"), False),
        (("1", "0", "1"), False),
        (("1", "5", "y"), False),
    ],
)
def test_a_line_of_values_is_no_header(header, named, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(text(header=header))
    found = text_file(path)
    assert found.has_header == named
    if not named:
        (finding,) = found.findings
        assert finding.blocks
        assert finding.repair == "Write a first line with names, such as column_1,column_2,column_3."
        result = inspect(path, progress=False)
        assert (result.rows, result.target, result.ok) == (61, "column_3", False)


def test_names_that_are_equal_or_empty_are_found_with_all_other_faults(tmp_path):
    path = tmp_path / "t.csv"
    body = text(header=(), values=np.column_stack([VALUES, np.ones(60)]))
    path.write_text("x,x,,y\n" + body)
    result = inspect(path, "x", progress=False)
    found = {(f.column, f.kind) for f in result.findings}
    assert found == {("x", "names"), (None, "names"), ("y", "constant")}
    assert result.names == ()
    assert not result.ok
    assert result.columns == 4


@pytest.mark.parametrize("late", [False, True])
def test_lines_that_are_too_long_are_found(late, tmp_path):
    lines = text().splitlines() * (1 if not late else 300)
    lines = [lines[0], *(line for line in lines if line != lines[0])]
    at = len(lines) - 5
    lines[at] += ",7"
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    assert (path.stat().st_size > 2**18) == late
    result = inspect(path, "y", progress=False)
    (finding,) = (f for f in result.findings if f.kind == "fields")
    assert (finding.rows, finding.count, finding.blocks) == ((at,), 1, True)


def test_a_comma_at_the_end_of_each_line_is_found(tmp_path):
    path = tmp_path / "t.csv"
    first, *rest = text().splitlines()
    path.write_text("\n".join([first, *(f"{line}," for line in rest)]), encoding="utf-8")
    (finding,) = (f for f in inspect(path, "y", progress=False).findings if f.kind == "fields")
    assert finding.count == 60


def test_amounts_with_points_between_thousands(tmp_path):
    path = tmp_path / "t.csv"
    prices = [f"{1000 + 37 * i:,}".replace(",", ".") + ",50 €" for i in RNG.permutation(60)]
    lines = [f"{p};{x:.2f};{y:.2f}".replace(".", ",", 0) for p, (x, y, _) in zip(prices, VALUES, strict=True)]
    lines = [line.split(";", 1)[0] + ";" + line.split(";", 1)[1].replace(".", ",") for line in lines]
    path.write_text("\n".join(["price;x;y", *lines]), encoding="utf-8")
    result = inspect(path, "y", progress=False)
    assert result.ok
    assert result.proposal.numbers == ["price"]
    assert result.names == ("price", "x")


def test_files_that_do_not_fit_are_to_be_converted(tmp_path, monkeypatch):
    path = tmp_path / "my table.csv"
    path.write_text(text(";", ","), encoding="utf-8")
    monkeypatch.setattr("isotherm.tables.inspection.judge.available_bytes", lambda: 1000)
    result = inspect(path, "y", progress=False)
    (finding,) = (f for f in result.findings if f.kind == "size")
    assert finding.blocks
    assert finding.repair.endswith(f"'{path}' '{tmp_path / 'my table.parquet'}' --separator ';' --decimal ,")
    assert result.path == str(tmp_path / "my table.parquet")
    assert "separator" not in result.toml


@pytest.mark.parametrize("content", ["", "a,b\n", "a,b"])
def test_files_without_rows_are_refused(content, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match="a line of names and at least one row"):
        inspect(path, progress=False)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        inspect(tmp_path / "absent.csv", progress=False)
