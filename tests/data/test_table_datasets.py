"""Tables as datasets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

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


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_table_is_read_with_its_domains_as_they_are_written(
    frame: pd.DataFrame, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"t{ending}"
    frame.to_csv(path, index=False) if ending == ".csv" else frame.to_parquet(path)
    data = eqrm.dataset("table", file=str(path), target="ill", domain="hospital")
    assert data.names == ("007", "7")
    assert data.domains.tolist() == [0, 1, 0, 1]
    assert data.y.tolist() == [0, 1, 1, 0]
    age = (frame["age"] - frame["age"].mean()) / np.std(frame["age"])
    columns = data.x.T.tolist()
    assert any(np.allclose(column, age) for column in columns)
    assert [1.0, 0.0, 1.0, 0.0] in columns  # ward A


def test_targets_are_classes_or_numbers(frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.to_csv(tmp_path / "t.csv", index=False)
    by_ward = eqrm.dataset("table", file=str(tmp_path / "t.csv"), target="ward", domain="hospital")
    assert by_ward.target_names == ("A", "B", "C")
    assert by_ward.y.tolist() == [0, 1, 0, 2]
    by_age = eqrm.dataset("table", file=str(tmp_path / "t.csv"), target="age", domain="hospital")
    assert by_age.y.dtype == torch.float32
    assert by_age.y.tolist() == [20.0, 30.0, 40.0, 50.0]


def test_wrong_tables_are_refused_in_words(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    with pytest.raises(DataFileError, match=r"no column 'hospitl'\. Did you mean 'hospital'"):
        eqrm.dataset("table", file=str(path), target="ill", domain="hospitl")
    with pytest.raises(SettingError, match="needs the setting 'target'"):
        eqrm.dataset("table", file=str(path), domain="hospital")
    path.write_bytes(b"")
    with pytest.raises(DataFileError, match="cannot be read as a table"):
        eqrm.dataset("table", file=str(path), target="ill", domain="hospital")
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(DataFileError, match="cannot be read as a table"):
        eqrm.dataset("table", file=str(tmp_path / "t.parquet"), target="ill", domain="hospital")


def test_flights_need_no_data_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EQRM_DATA", raising=False)
    data = eqrm.dataset("flights")
    assert (len(data), data.num_domains) == (327_346, 365)
    assert set(data.y.unique().tolist()) == {0, 1}
    assert bool(data.x.isfinite().all())
