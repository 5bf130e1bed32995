"""Reading tables: the kind of each column is decided in the open, and errors name the cells."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import eqrm
from eqrm.data.tables.kinds import column_of
from eqrm.data.tables.preprocessor import TablePreprocessor
from eqrm.data.tables.reading import read_columns, read_table, read_test_table
from eqrm.errors import DataFileError, DomainDataError, EqrmWarning


def written(folder: Path, text: str, name: str = "stays.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def read(folder: Path, text: str, **options: object):  # type: ignore[no-untyped-def]
    return read_table(written(folder, text), "y", "hospital", **options)  # type: ignore[arg-type]


def test_csv_and_parquet_give_the_same_table(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "hospital": ["A", "A", "Ö"],
            "age": [31.5, np.nan, 57.0],
            "ward": ["x", None, "y"],
            "insured": [True, False, True],
            "y": [0, 1, 1],
        }
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    csv = read_table(tmp_path / "t.csv", "y", "hospital", categories=["insured"])
    parquet = read_table(tmp_path / "t.parquet", "y", "hospital")
    for name in ("age", "ward"):
        np.testing.assert_array_equal(csv.columns[name], parquet.columns[name])
    np.testing.assert_array_equal(csv.target, parquet.target)
    np.testing.assert_array_equal(csv.domains, parquet.domains)
    assert csv.columns["insured"].tolist() == ["True", "False", "True"]
    assert parquet.columns["insured"].tolist() == [1.0, 0.0, 1.0]


def test_a_few_texts_among_numbers_are_named(tmp_path: Path) -> None:
    with pytest.raises(DomainDataError, match=r"'age' holds numbers, but also 'old', in 1 of 3 r"):
        read(tmp_path, "hospital,age,y\nA,31,0\nA,old,1\nB,40,1\n")


@pytest.mark.parametrize("missing", ["", "n/a"])
def test_usual_signs_of_a_missing_number_are_one(tmp_path: Path, missing: str) -> None:
    table = read(tmp_path, f"hospital,age,y\nA,31,0\nA,{missing},1\n")
    assert np.isnan(table.columns["age"]).tolist() == [False, True]


def test_numbers_padded_with_zeros_are_categories_and_domains_stay_apart(tmp_path: Path) -> None:
    table = read(tmp_path, "hospital,zip,y\n7,00501,0\n007,10001,1\n07,02134,0\n")
    assert table.categories == ("zip",)
    assert table.domain_names == ("7", "007", "07")


def test_features_are_all_other_columns_unless_chosen(tmp_path: Path) -> None:
    text = "hospital,a,b,c,y\nA,1,2,3,0\nB,4,5,6,1\n"
    assert list(read(tmp_path, text).columns) == ["a", "b", "c"]
    assert list(read(tmp_path, text, drop=["b"]).columns) == ["a", "c"]
    assert list(read(tmp_path, text, features=["c", "a"]).columns) == ["c", "a"]
    assert read(tmp_path, text, categories=["a"]).columns["a"].tolist() == ["1", "4"]


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("hospitals,a,y\nA,1,0\n", {}, "no column 'hospital'.*Did you mean 'hospitals'"),
        ("hospital,a,Y\nA,1,0\n", {}, "no column 'y'.*Did you mean 'Y'"),
        ("hospital,y\nA,1\n", {}, "no feature columns besides the target 'y'"),
        ("hospital,a,y\nA,1,0\n", {"drop": ["b"]}, "no column 'b'"),
        ("hospital,a,y\nA,1,0\n", {"features": ["y"]}, "'y' is the target or the domain"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, options: dict, words: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(DomainDataError, match=words):
        read(tmp_path, text, **options)


ODD_FILES = {
    "mixed line ends": b"hospital,note,x,y\r\nA,a,1,0\n\nB,b,2,1\r\n",
    "semicolons": b"hospital;note;x;y\nA;a;1;0\nB;b;2;1\n",
    "tabs": b"hospital\tnote\tx\ty\nA\ta\t1\t0\nB\tb\t2\t1\n",
    "byte order mark": b"\xef\xbb\xbfhospital,note,x,y\nA,a,1,0\nB,b,2,1\n",
    "quotes": b'"hospital","note",x,y\n"A","a",1,0\nB,b,"2",1\n',
}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", ODD_FILES)
def test_csv_files_of_all_sorts_give_the_same_table(
    tmp_path: Path, kind: str, compressed: bool
) -> None:
    path = tmp_path / ("t.csv.gz" if compressed else "t.csv")
    content = ODD_FILES[kind]
    path.write_bytes(gzip.compress(content, mtime=0) if compressed else content)
    table = read_table(path, "y", "hospital")
    assert table.domains.tolist() == ["A", "B"]
    assert {name: column.tolist() for name, column in table.columns.items()} == {
        "note": ["a", "b"],
        "x": [1.0, 2.0],
    }
    assert table.target.tolist() == [0.0, 1.0]
    judged = eqrm.evaluate(path, domains="hospital", losses="x")
    assert judged["x"].risks.tolist() == [1.0, 2.0]
    data = eqrm.dataset("table", file=str(path), target="y", domain="hospital")
    assert (data.names, data.y.tolist()) == (("A", "B"), [0, 1])


def test_signs_of_comments_separators_and_quotes_in_cells_are_data(tmp_path: Path) -> None:
    text = 'hospital,note,y\n#1,"a; b, ""c""",0\nC#N,"x\ny|z",1\n'
    table = read(tmp_path, text)
    assert table.domain_names == ("#1", "C#N")
    assert table.columns["note"].tolist() == ['a; b, "c"', "x\ny|z"]


def test_one_changed_bit_in_a_compressed_file_is_noticed(tmp_path: Path) -> None:
    """DuckDB alone reads other numbers from such files, about one time in seven."""
    rows = "".join(f"H{i % 50},{i * 7919 % 1000},{i % 2}\n" for i in range(2000))
    content = gzip.compress(f"hospital,a,y\n{rows}".encode(), mtime=0)
    path = tmp_path / "t.csv.gz"
    for place in range(20, len(content), len(content) // 60):
        changed = bytearray(content)
        changed[place] ^= 4
        path.write_bytes(changed)
        with pytest.raises(DataFileError, match=r"truncated or damaged|UTF-8|cannot be read"):
            read_table(path, "y", "hospital")


def test_columns_are_read_as_the_kinds_say(tmp_path: Path) -> None:
    path = written(tmp_path, "id,hour,age\nr1,5,31\nr2,07,\n")
    columns = read_columns(path, {"hour": "category", "age": "number"}, also=["id", "absent"])
    assert columns["hour"].tolist() == ["5", "07"]
    assert columns["id"].tolist() == ["r1", "r2"]
    assert "absent" not in columns
    with pytest.raises(DomainDataError, match="no columns 'x', 'z'"):
        read_columns(path, {"x": "number", "z": "number"})
    with pytest.raises(DomainDataError, match="'id' must hold numbers, but holds 'r1', 'r2'"):
        read_columns(path, {"id": "number"})


@pytest.mark.parametrize(
    ("days", "form"),
    [
        (["30.04.2024", "4.5.2024 7:30", ""], "day.month.year"),
        (["03.04.2024", "04.05.2024"], "day.month.year"),
        (["28/12/2022", "01/02/2023", "NA"], "day/month/year"),
        (["12/28/2022", "02/01/2023 17:45:10"], "month/day/year"),
        (["28-12-2022", "01-02-2023"], "day-month-year"),
    ],
)
def test_dates_of_another_form_are_read_where_day_and_month_are_certain(
    tmp_path: Path, days: list[str], form: str
) -> None:
    frame = pd.DataFrame({"day": days, "y": range(len(days))})
    frame["hospital"] = [f"H{i}" for i in range(len(frame))]
    frame.to_csv(tmp_path / "t.csv", index=False)
    first = form.startswith("day")
    truth = [pd.to_datetime(each, dayfirst=first, errors="coerce") for each in days]
    for data in (tmp_path / "t.csv", frame):
        with pytest.warns(EqrmWarning, match=f"'day' holds dates written as {form}, such as"):
            table = read_table(data, "y", "hospital")
        assert table.date_forms == {"day": form}
        np.testing.assert_array_equal(table.columns["day"], pd.DatetimeIndex(truth).values)


@pytest.mark.parametrize(
    ("days", "words"),
    [
        (["03/04/2024", "04/05/2024"], "'03/04/2024', in which day and month cannot be told apart"),
        (["28/12/2022", "12/28/2022"], "'28/12/2022', in several forms, or in one that is not"),
        (["04.30.2024", "04.05.2024"], "'04.30.2024', in several forms, or in one that is not"),
    ],
)
def test_dates_that_may_be_confused_are_refused_by_name(
    tmp_path: Path, days: list[str], words: str
) -> None:
    frame = pd.DataFrame({"day seen": days, "y": [0, 1], "hospital": ["a", "b"]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    for data in (tmp_path / "t.csv", frame):
        with pytest.raises(DomainDataError, match=re.escape(words)) as caught:
            read_table(data, "y", "hospital")
        assert "Write all of them as 2013-01-31" in str(caught.value)
        assert "drop=['day seen']" in str(caught.value)
        found = read_table(data, "y", "hospital", categories=["day seen"])
        assert found.categories == ("day seen",)


def test_new_tables_are_read_in_the_form_of_training(tmp_path: Path) -> None:
    days = ["02/03/2024", "04/30/2024", "05/01/2024"]
    frame = pd.DataFrame({"day": days, "y": [0, 1, 0], "hospital": ["a", "b", "c"]})
    with pytest.warns(EqrmWarning, match="month/day/year"):
        table = read_table(frame, "y", "hospital")
    saved = json.loads(json.dumps(TablePreprocessor.fit(table).to_dict()))
    found = TablePreprocessor.from_dict(saved)
    new = tmp_path / "new.csv"
    new.write_text("day\n02/03/2024\n2024-02-03\n")  # alone, nobody could tell
    matrix = found.matrix(new)
    np.testing.assert_array_equal(matrix[0], matrix[1])
    trained = found.encoder.transform(table.columns)
    np.testing.assert_array_equal(found.matrix(frame), trained)
    new.write_text("day\n30/04/2024\n")
    with pytest.raises(DomainDataError, match="Convert them to dates, written as month/day/year"):
        found.matrix(new)
    test = frame.assign(hospital=["d", "e", "f"])[:1]
    assert str(read_test_table(test, table).columns["day"][0])[:10] == "2024-02-03"


def test_dates_of_another_form_order_rows(tmp_path: Path) -> None:
    text = "hospital;y;x;day\na;1;2;30.04.2024\nb;0;3;01.05.2024\nc;0;1;02.01.2023\n"
    with pytest.warns(EqrmWarning, match=r"day\.month\.year"):
        table = read(tmp_path, text, order="day")
    assert table.split(table.in_time(after="2024-04-30"))[1].domain_names == ("b",)


def test_rows_without_a_part_of_their_domain_can_be_skipped(tmp_path: Path) -> None:
    rows = "hospital,ward,x,y\na,1,1,0\na,,2,1\n,2,3,0\nb,2,4,1\n"
    (tmp_path / "t.csv").write_text(rows)
    with pytest.raises(DomainDataError, match="missing"):
        read_table(tmp_path / "t.csv", "y", ["hospital", "ward"])
    found = read_table(tmp_path / "t.csv", "y", ["hospital", "ward"], skip_incomplete=True)
    assert found.domain_names == ("a | 1", "b | 2")
    assert "2 rows of 4 without a target" in found.notes[0]
    categories = pd.read_csv(tmp_path / "t.csv").astype({"hospital": "category"})
    kept = read_table(categories.drop(columns="ward"), "y", "hospital", skip_incomplete=True)
    assert kept.domain_names == ("a", "b")
    assert kept.columns["x"].tolist() == [1.0, 2.0, 4.0]


def test_decimal_commas_are_read_as_numbers_with_a_warning(tmp_path: Path) -> None:
    text = "hospital;y;height\nA;1,5;1,80\nB;-2;NA\nC;0,25;1,234\n"
    with pytest.warns(EqrmWarning, match="decimal commas, such as") as told:
        table = read(tmp_path, text)
    assert {str(each.message).split("'")[1] for each in told} == {"y", "height"}
    np.testing.assert_array_equal(table.target, [1.5, -2.0, 0.25])
    np.testing.assert_array_equal(table.columns["height"], [1.8, np.nan, 1.234])
    with pytest.raises(DomainDataError, match="comma may separate thousands or decimals"):
        read(tmp_path, "hospital;y;paid\nA;1;1,234\nB;0;12\n")
    table = read(tmp_path, "hospital;y;places\nA;1;a,b\nB;0;1,5\n")
    assert table.columns["places"].tolist() == ["a,b", "1,5"]


def test_a_word_that_means_missing_among_numbers_makes_no_numbers(tmp_path: Path) -> None:
    rows = "".join(f"A;1;{'none' if i % 3 else 'tv'}\n" for i in range(9))
    table = read(tmp_path, "hospital;y;promotion\n" + rows)
    assert set(table.columns["promotion"].tolist()) == {"none", "tv"}


@pytest.mark.parametrize(
    "values",
    [
        ["2023/01/31", "2023/02/01"],
        ["01/31/2023 7:45 PM"],
        ["30 Apr 2024"],
        ["April 30, 2024"],
        ["30.04.2024."],
    ],
)
def test_dates_in_forms_that_are_not_read_are_refused(values: list[str]) -> None:
    with pytest.raises(DomainDataError, match="in one that is not read"):
        column_of("when", np.array(values))


def test_a_test_table_has_the_missing_values_of_training() -> None:
    frame = pd.DataFrame({"age": [31.0, 45.0, -9.0], "y": [0, 1, 0], "hospital": list("abc")})
    table = read_table(frame, "y", "hospital", missing_values=["-9"])
    found = read_test_table(frame, table).columns["age"]
    assert np.isnan(found).tolist() == [False, False, True]
