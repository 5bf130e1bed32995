"""Tables that are odd or malicious: the right answer, or a refusal that names the line."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest

from eqrm.data import Table
from eqrm.data.datasets.downloads import unpack
from eqrm.data.datasets.images import ImageFiles
from eqrm.data.datasets.mnist import read_idx
from eqrm.data.tables import sources
from eqrm.data.tables.reading import read_table
from eqrm.errors import DataFileError, DomainDataError, SettingError
from eqrm.files import reading
from eqrm.files.reading import unpack_limit
from eqrm.predictors.images import read_weights

HEAD = "d,x,y\n"
ROWS = [f"{i % 5},{i},{i % 2}" for i in range(40)]
PLAIN = HEAD + "\n".join(ROWS) + "\n"
MANY = HEAD + "\n".join(ROWS * 500) + "\n"  # longer than what is read to guess a separator


def table(folder: Path, text: str | bytes, name: str = "t.csv") -> Table:
    path = folder / name
    content = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return read_table(path, target="y", domain="d")


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("\n", "\r"),
        MANY + "\r\n".join(ROWS) + "\r\n",
        MANY.replace("\n", "\r\n") + "\n".join(ROWS) + "\n",
        MANY + "\r".join(ROWS) + "\r",
        PLAIN.replace("\n", "\r\n") + "\r".join(ROWS),
    ],
    ids=["CR", "LF then CRLF", "CRLF then LF", "LF then CR", "CRLF then CR"],
)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_line_endings_may_change_anywhere_in_a_file(text: str, name: str, tmp_path: Path) -> None:
    found = table(tmp_path, text, name)
    rows = [line for line in text.replace("\r", "\n").split("\n") if line][1:]
    assert found.columns["x"].tolist() == [float(row.split(",")[1]) for row in rows]
    assert found.domains.tolist() == [row.split(",")[0] for row in rows]


def test_line_endings_inside_of_quotes_stay_as_they_are(tmp_path: Path) -> None:
    found = table(tmp_path, HEAD + '0,"a\r\nb",0\n1,"c\nd",1\r\n')
    assert found.columns["x"].tolist() == ["a\r\nb", "c\nd"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PLAIN + '1,"oops,1\n' + "\n".join(ROWS), "Line 42 of t.csv: a quote is opened and not"),
        (MANY + '1,"oops,1\n' + MANY[len(HEAD) :], "Line 20,002 of t.csv: a quote is opened"),
        ('d,"x,y\n' + PLAIN, "Line 1 of t.csv: a quote is opened and not closed"),
        (PLAIN + '1,"oo"ps,1\n', "Line 42 of t.csv: ',' expected after '\"'"),
        (HEAD + '0,"a\nb",1\n1,2\n', "Line 4 of t.csv has 2 fields"),
        (HEAD + "# a comment\n" + PLAIN, "Line 2 of t.csv has 1 field"),
        (HEAD + "0,1,2,3\n", "Line 2 of t.csv has 4 fields, and the header has 3"),
        (PLAIN + "\r\n1,2\n", "Line 43 of t.csv has 2 fields"),
        (PLAIN + "\r\n" + '1,"oops,1\n', "Line 43 of t.csv: a quote is opened"),
        (PLAIN + "1," + "a" * (1 << 24) + ",1\n", "Line 42 of t.csv"),
    ],
    ids=range(10),
)
def test_a_line_that_cannot_be_read_is_named(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=words):
        table(tmp_path, text)


def test_long_fields_are_read_whole_and_refused_where_a_column_would_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = HEAD + "\n".join(
        f"{i % 2},{'ab' * 100_000 if i == 7 else 'c'},{i % 2}" for i in range(9)
    )
    assert len(table(tmp_path, long).columns["x"][7]) == 200_000
    monkeypatch.setattr(sources, "MOST_TEXT", 1 << 20)
    with pytest.raises(DomainDataError, match="'x' has 200,000 characters in row 8"):
        table(tmp_path, long)


def bomb(path: Path, size: int = 3_000_000) -> Path:
    """A file of a few kilobytes that unpacks to ``size`` bytes, of the kind of its name."""
    if path.name.endswith(".gz"):
        path.write_bytes(gzip.compress(b"d,x,y\n" + b"0,0,0\n" * (size // 6)))
    elif path.suffix == ".parquet":
        import pyarrow
        from pyarrow import parquet

        zeros = pyarrow.array(np.zeros(size // 24, np.int64))
        parquet.write_table(pyarrow.table({"d": zeros, "x": zeros, "y": zeros}), path)
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("data.png", b"\0" * size)
    return path


READERS = {
    "t.csv.gz": lambda path: read_table(path, "y", "d"),
    "t.parquet": lambda path: read_table(path, "y", "d"),
    "a.zip": lambda path: unpack(path, path.parent / "out"),
    "w.pth": read_weights,
    "labels.gz": read_idx,
    "images.zip": lambda path: ImageFiles(path, ["data.png"], 8)._decoded("data.png"),
}


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_unpacks_beyond_the_limit_is_refused_with_the_variable_to_set(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EQRM_UNPACK_LIMIT", "1MB")
    path = bomb(tmp_path / name)
    assert path.stat().st_size < 100_000
    with pytest.raises(DataFileError, match="EQRM_UNPACK_LIMIT"):
        READERS[name](path)
    assert not (tmp_path / "out" / "data.png").exists()


def test_the_limit_is_100_times_the_file_unless_it_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EQRM_UNPACK_LIMIT", raising=False)
    assert unpack_limit(20 << 20) == 100 * (20 << 20)
    assert unpack_limit(1000) == 1 << 30
    monkeypatch.setattr(reading, "ALWAYS_ALLOWED", 1 << 20)
    with pytest.raises(DataFileError, match="beyond the limit of 1,048,576"):
        read_table(bomb(tmp_path / "t.csv.gz"), "y", "d")
    for text, size in (("7", 7), ("5 kb", 5000), ("2GB", 2 * 10**9), ("9b", 9)):
        monkeypatch.setenv("EQRM_UNPACK_LIMIT", text)
        assert unpack_limit(0) == size
    monkeypatch.setenv("EQRM_UNPACK_LIMIT", "much")
    with pytest.raises(SettingError, match="such as '50GB'"):
        unpack_limit(0)
