"""Tables as datasets."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import eqrm
from eqrm.errors import DataFileError, SettingError


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [20.0, 30.0, 40.0, 50.0],
            "ward": ["A", "B", "A", "C"],
            "hospital": ["007", "7", "007", "7"],
            "ill": [0, 1, 1, 0],
        }
    )


def test_wrong_tables_are_refused_in_words(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    with pytest.raises(SettingError, match="needs the setting 'target'"):
        eqrm.dataset("table", file=str(path), domain="hospital")
    path.write_bytes(b"")
    with pytest.raises(DataFileError, match="is empty"):
        eqrm.dataset("table", file=str(path), target="ill", domain="hospital")
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(DataFileError, match="cannot be read as PARQUET"):
        eqrm.dataset("table", file=str(tmp_path / "t.parquet"), target="ill", domain="hospital")


def test_a_table_is_looked_for_in_the_working_directory_and_then_in_the_data_root(
    frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, root = tmp_path / "here", tmp_path / "root"
    for folder in (here, root):
        folder.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.delenv("EQRM_DATA", raising=False)
    settings = {"file": "t.csv", "target": "ill", "domain": "hospital"}
    with pytest.raises(
        DataFileError, match=f"t.csv is not in the working directory {here} .no data root is set"
    ):
        eqrm.dataset("table", **settings)
    with pytest.raises(
        DataFileError, match=f"in the working directory {here} or in the data root {root}"
    ):
        eqrm.dataset("table", root, **settings)
    frame.to_csv(root / "t.csv", index=False)
    assert len(eqrm.dataset("table", root, **settings)) == 4
    frame.iloc[:3].to_csv(here / "t.csv", index=False)
    assert len(eqrm.dataset("table", root, **settings)) == 3
    assert len(eqrm.dataset("table", **settings)) == 3


def test_what_was_filled_in_is_noted_and_kept_by_the_parts(tmp_path: Path) -> None:
    age = [20.0 + number for number in range(19)] + [float("nan")]
    frame = pd.DataFrame({"age": age, "ill": [0, 1] * 10, "hospital": ["a", "b"] * 10})
    frame.to_csv(tmp_path / "t.csv", index=False)
    data = eqrm.dataset("table", tmp_path, file="t.csv", target="ill", domain="hospital")
    (note,) = data.splits(test=["b"]).train.notes
    assert note.startswith("Column 'age' is missing in 1 of the 20 rows (5.0%): missing values get")
