"""Text and dates read as numbers: amounts, units, missing values, and new rows that are read in the same way."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isotherm.tables.csv_file import CsvFormat
from isotherm.tables.forecasting import forecast
from isotherm.tables.numerals import is_iso_date, number_of
from isotherm.tables.reader import open_table, read_table
from isotherm.tables.regressions import regression
from support.made_forecast import made_forecast

N = 30
RNG = np.random.default_rng(0)
STEPS = RNG.permutation(N)
DAYS = pd.to_datetime("2024-02-01") + pd.to_timedelta(STEPS, "D")
Y = RNG.normal(size=N)


@pytest.mark.parametrize(
    ("text", "decimal", "value", "unit"),
    [
        ("12", ".", 12.0, ""),
        ("$1,234", ".", 1234.0, "$"),
        ("-€ 3,50", ",", -3.5, "€"),
        ("12 kg", ".", 12.0, "kg"),
        ("1.234,5", ",", 1234.5, ""),
        ("CHF 1'234.50", ".", 1234.5, "CHF"),
        ("1 234 567", ".", 1234567.0, ""),
        ("−2.5e3 km/h", ".", -2500.0, "km/h"),
        (".5 %", ".", 0.5, "%"),
    ],
)
def test_amounts_are_numbers_with_a_unit(text, decimal, value, unit):
    assert number_of(text, decimal) == (value, unit)


@pytest.mark.parametrize(
    "text", ["", "abc", "A12", "1.2.3", "12-13", "1,23", "$ 5 kg", "kg", "(5)", "1,234,56"]
)
def test_other_text_is_no_number(text):
    assert number_of(text, ".") is None


@pytest.mark.parametrize("text", ["2024-03-01", "2024-03-01T12:30", "2024-03-01 12:30:01.5Z"])
def test_dates_as_iso_8601_writes_them(text):
    assert is_iso_date(text)
    assert not is_iso_date(text[2:])


def columns(**given):
    return {"x": RNG.normal(size=N), "y": Y} | given


def features(made):
    """Return the columns of the design in their units."""
    standard = made.posterior.transforms["coefficients"]
    return made.data["x"] * np.asarray(standard.scale) + np.asarray(standard.center)


def test_dates_become_days_since_the_first_of_january():
    as_text = DAYS.strftime("%Y-%m-%d").to_numpy(object)
    kinds = {"text": as_text, "stamp": DAYS.to_numpy(), "object": np.array([x.date() for x in DAYS], object)}
    for day in kinds.values():
        made = regression("linear", columns(day=day), "y", ["day"])
        np.testing.assert_allclose(features(made)[:, 0], 31 + STEPS, atol=1e-3)
        assert made.description["reading"]["origins"] == {"day": "2024-01-01"}
        assert made.labels["coefficients"] == [["intercept", "day"]]


def test_times_of_day_are_fractions_and_other_forms_are_named():
    times = np.array([f"{d:%d.%m.%Y} 12:00" for d in DAYS], object)
    made = regression("linear", columns(t=times), "y", ["t"], dates={"t": "%d.%m.%Y %H:%M"})
    np.testing.assert_allclose(features(made)[:, 0], 31.5 + STEPS, atol=1e-3)


def test_dates_can_be_categories():
    day = np.array(["2024-03-01", "2024-03-02"] * (N // 2), object)
    made = regression("linear", columns(day=day), "y", ["day"], categorical=["day"])
    assert made.labels["coefficients"] == [["intercept", "day=2024-03-02"]]
    assert "reading" not in made.description


def test_amounts_and_missing_values_are_read():
    price = np.array([f"${1000 + 10 * i:,}" for i in range(N)], object)
    price[3] = "?"
    given = {"numbers": ["price"], "missing_values": ["?"], "missing": "drop"}
    made = regression("linear", columns(price=price), "y", ["price"], **given)
    np.testing.assert_allclose(features(made)[:, 0], np.delete(1000 + 10 * np.arange(N), 3), atol=1e-2)
    assert made.description["reading"]["numbers"] == {"price": "$"}
    assert made.description["rows dropped"] == 1


def mixed(value, at=7, base="1 kg"):
    out = np.full(N, base, object)
    out[at] = value
    return out


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (
            {"a": mixed("2 lb")},
            {"numbers": ["a"]},
            "`a` must be a column of numbers in kg; got '2 lb'. It is in row 8",
        ),
        ({"a": mixed("?")}, {"numbers": ["a"]}, "got '?'. It is in row 8"),
        (
            {"a": mixed("x", base="2024-01-02")},
            {"dates": {"a": "%Y-%m-%d"}},
            "form %Y-%m-%d; got 'x'. It is in row 8",
        ),
        (
            {"a": mixed("x", base="y")},
            {"dates": {"a": "%Y"}},
            "`a` must be a column of dates of the form %Y; got 'y'",
        ),
        ({"a": Y}, {"dates": {"a": "%Y"}}, "`dates` must be columns of text or dates; got 'a'"),
        (
            {"a": mixed("1")},
            {"dates": {"a": "%Q"}},
            "`dates` must be forms of dates by column, as in `strptime`",
        ),
        (
            {"a": mixed("1")},
            {"dates": {"a": "mixed"}},
            "`dates` must be forms of dates by column, as in `strptime`",
        ),
        ({"a": mixed("1")}, {"dates": {"a": "%"}}, "got '%'"),
        ({}, {"dates": {"day": "%Y"}}, "`dates` must be a column of the table; got 'day'"),
        (
            {"a": mixed("1")},
            {"numbers": ["a"], "categorical": ["a"]},
            "must be columns that are not in `categorical`",
        ),
        (
            {"a": mixed("1")},
            {"numbers": ["a"], "dates": {"a": "%Y"}},
            "must be columns that are not in `dates`",
        ),
        ({"a": mixed("1")}, {"decimal": ";"}, '`decimal` must be the decimal mark, "." or ","; got'),
    ],
)
def test_what_cannot_be_read_is_refused(given, options, message):
    with pytest.raises(ValueError, match=r"must be") as caught:
        regression("linear", columns(**given), "y", **options)
    assert message in str(caught.value)


def test_a_late_value_that_is_no_date_is_refused():
    day = np.array(["2024-03-01", "2024-03-02"] * 5000, object)
    day[9000] = "soon"
    with pytest.raises(ValueError, match=r"dates such as 2024-03-01; got 'soon'. It is in row 9001"):
        regression("linear", {"day": day, "y": RNG.normal(size=len(day))}, "y")


def test_tables_in_parquet_files_are_read_in_the_same_way(tmp_path):
    price = [f"${1000 + 10 * i:,}" for i in range(N)]
    day = [datetime.date(2024, 2, 1) + datetime.timedelta(int(i)) for i in STEPS]
    text = [str(datetime.date(2024, 2, 1) + datetime.timedelta(int(i) % 7)) for i in STEPS]
    table = pa.table({"price": price, "day": day, "text": text, "y": Y})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=7)
    made = regression("linear", tmp_path / "t.parquet", "y", numbers=["price"])
    (x,) = (block["x"] for block in made.data.blocks(N))
    taken = made.data.take(np.array([3, 20]))["x"]
    standard = made.posterior.transforms["coefficients"]
    for rows, index in ((x, np.arange(N)), (taken, np.array([3, 20]))):
        found = rows * np.asarray(standard.scale) + np.asarray(standard.center)
        np.testing.assert_allclose(
            found, np.stack([1000 + 10 * index, 31 + STEPS[index], 31 + STEPS[index] % 7], 1), atol=1e-2
        )


def test_new_rows_are_read_as_the_rows_of_the_run():
    """Dates count from the origin of the run, and units are those of the run."""
    age, dose = 40 + np.arange(N), 1 + STEPS / 10
    rest = {"sex": np.array(["f", "m"] * (N // 2), object), "years": np.ones(N), "known": np.zeros(N)}
    as_dates = (
        (pd.to_datetime("2024-01-01") + pd.to_timedelta(age, "D")).strftime("%Y-%m-%d").to_numpy(object)
    )
    texts = {"age": as_dates, "dose": np.array([f"{x:.1f} mg" for x in dose], object)} | rest
    numbers = {"age": age, "dose": dose} | rest
    by_text = made_forecast(
        "linear", columns={k: np.tile(x, 4)[:100] for k, x in texts.items()}, numbers=["dose"]
    )
    by_number = made_forecast("linear", columns={k: np.tile(x, 4)[:100] for k, x in numbers.items()})
    new = slice(20, None)  # whose first date is another
    found = forecast(by_text, {k: x[new] for k, x in texts.items()})
    expected = forecast(by_number, {k: x[new] for k, x in numbers.items()})
    np.testing.assert_allclose(found.columns["mean"], expected.columns["mean"], rtol=1e-6)
    pounds = {k: x[new] for k, x in texts.items()} | {"dose": np.full(10, "1 lb", object)}
    with pytest.raises(ValueError, match="`dose` must be a column of numbers in mg; got '1 lb'"):
        forecast(by_text, pounds)


FRENCH = "âge;dosé;y\n" + "".join(f"{i},5;{i % 7},25;{i % 3},0\n" for i in range(N))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_csv_files_of_other_countries(encoding, tmp_path):
    (tmp_path / "t.csv").write_bytes(FRENCH.encode(encoding))
    named = encoding if encoding in ("cp1252", "utf-16") else "utf-8"
    table = read_table(tmp_path / "t.csv", CsvFormat(";", ",", named))
    assert list(table.columns) == ["âge", "dosé", "y"]
    assert table.columns["âge"][:2].tolist() == [0.5, 1.5]
    assert table.columns["dosé"].dtype == float


def test_wrong_formats_are_refused(tmp_path):
    (tmp_path / "t.csv").write_bytes(FRENCH.encode("cp1252"))
    with pytest.raises(ValueError, match='not in the encoding "utf-8"'):
        read_table(tmp_path / "t.csv")
    np.savez(tmp_path / "t.npz", x=Y)
    with pytest.raises(ValueError, match="`separator` must be left out except for CSV files; got ';'"):
        open_table(tmp_path / "t.npz", CsvFormat(";"))
    for given, name in (
        ({"separator": ";;"}, "separator"),
        ({"separator": ",", "decimal": ","}, "separator"),
        ({"decimal": "x"}, "decimal"),
        ({"encoding": "klingon"}, "encoding"),
        ({"encoding": "base64"}, "encoding"),
    ):
        with pytest.raises(ValueError, match=f"`{name}` must be"):
            CsvFormat(**given)
