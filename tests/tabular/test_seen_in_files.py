"""Saved models and corrections know which domains they have seen, and predictions say so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from eqrm.data.seen_domains import SeenDomains
from eqrm.data.tables.reading import read_table
from eqrm.errors import DataFileError, DomainDataError, EqrmWarning
from eqrm.level import Level
from eqrm.tabular.model import TableModel, load_table_model, save_table_model
from eqrm.tabular.predictions import predict_file
from eqrm.tabular.recalibrating.correction_files import SavedCorrection, apply_to_files
from eqrm.tabular.recalibrating.recalibration import RecalibrationPlan, recalibrate_files
from eqrm.tabular.recalibrating.recalibration_words import recalibration_in_words
from tabular.prediction_worlds import two_classes
from tabular.shifting_world import plan_of, trained_on


def stays(days: int = 30) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    day = np.repeat(pd.date_range("2013-01-01", periods=days), 8)
    ill = rng.integers(0, 2, len(day))
    return pd.DataFrame({"day": day, "age": ill + rng.normal(size=len(day)), "ill": ill})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A table, and a model that was trained on its days up to January 20."""
    folder = tmp_path_factory.mktemp("trained")
    path, model = folder / "stays.parquet", folder / "model.safetensors"
    stays().to_parquet(path, index=False)
    table = read_table(path, "ill", "day")
    train, _ = table.split(table.in_time(after="2013-01-20"))
    found = trained_on(train, plan_of(measure="mean"))
    save_table_model(found.models["logistic, plain"], model)
    return path, model


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predictions_say_which_domains_were_seen_however_the_table_writes_dates(
    trained: tuple[Path, Path], ending: str, tmp_path: Path
) -> None:
    path, model = trained
    stays().assign(day=stays().day.dt.strftime("%Y-%m-%d")).to_csv(tmp_path / "t.csv", index=False)
    for table in (path, tmp_path / "t.csv"):
        output = tmp_path / f"p.{ending}"
        told = predict_file(model, str(table), output)
        assert "20 of 30 domains were seen in training (column 'seen')" in told
        found = pd.read_csv(output) if ending == "csv" else pd.read_parquet(output)
        assert found.seen.dtype == bool
        assert found.seen.tolist() == (stays().day <= "2013-01-20").tolist()


def test_rows_without_a_domain_leave_their_own_cell_empty(
    trained: tuple[Path, Path], tmp_path: Path
) -> None:
    _, model = trained
    frame = stays().assign(day=stays().day.where(stays().index != 3))
    table, output = tmp_path / "t.csv", tmp_path / "p.csv"
    frame.to_csv(table, index=False)
    said = r"\('day'\) is missing in 1 of 240 rows \(first: row 4\): .* 'seen' is empty there"
    with pytest.warns(EqrmWarning, match=said):
        told = predict_file(model, str(table), output)
    assert "20 of 30 domains were seen in training (column 'seen')" in told
    found = pd.read_csv(output)
    assert np.flatnonzero(found.seen.isna()).tolist() == [3]
    kept = found.seen.notna()
    assert found.seen[kept].tolist() == (stays().day <= "2013-01-20")[kept].tolist()


def test_without_domains_or_names_it_is_said_that_nothing_is_known(
    trained: tuple[Path, Path], tmp_path: Path
) -> None:
    path, model = trained
    output = tmp_path / "p.csv"
    stays().drop(columns="day").to_csv(tmp_path / "t.csv", index=False)
    told = predict_file(model, str(tmp_path / "t.csv"), output)
    assert "seen in training is not known (no column 'seen'): the table has no column 'day'" in told
    stays().assign(day="").to_csv(tmp_path / "t.csv", index=False)
    told = predict_file(model, str(tmp_path / "t.csv"), output)
    assert "(no column 'seen'): no row has a value of 'day'." in told
    assert "seen" not in pd.read_csv(output)
    late = stays()[stays().day > "2013-01-20"]
    late.to_csv(tmp_path / "t.csv", index=False)
    told = predict_file(model, str(tmp_path / "t.csv"), output)
    assert "None of 10 domains was seen in training (column 'seen')." in told
    found, other = load_table_model(model), tmp_path / "other.safetensors"
    assert isinstance(found, TableModel)
    save_table_model(replace(found, seen=None), other)
    assert "the version that saved the model" in predict_file(other, str(path), output)
    save_table_model(replace(found, seen=SeenDomains(frozenset({"x"}))), other)
    with pytest.raises(DataFileError, match="hashed names of the training domains are damaged"):
        load_table_model(other)


def fitted(path: Path, **settings: object) -> SavedCorrection:
    plan = RecalibrationPlan.of(
        domains=["day"], target="label", prediction="p", alpha=Level(0.5), **settings
    )
    return recalibrate_files(path, plan).saved


def test_a_correction_is_neither_fitted_nor_judged_on_domains_seen_before(tmp_path: Path) -> None:
    frame = two_classes()
    frame["seen"] = frame.day < 30
    frame["at"] = np.datetime64("2013-01-01") + frame.day.to_numpy()
    frame.to_parquet(tmp_path / "p.parquet", index=False)
    unseen = frame[~frame.seen].drop(columns="seen")
    unseen.to_parquet(tmp_path / "u.parquet", index=False)
    days = frame.day.nunique()
    plan = RecalibrationPlan.of(
        domains=["day"], target="label", prediction="p", alpha=Level(0.5), order="at"
    )
    found = recalibrate_files(tmp_path / "p.parquet", plan)
    assert found.saved.correction == fitted(tmp_path / "u.parquet", order="at").correction
    assert sum(found.domains) == days - 30
    told = " ".join(recalibration_in_words(found).split())
    assert "the predictor was trained on them: 30 domains (0, 1, 2 and 27 more)" in told
    frame["seen"] = frame.day < days - 3
    frame.to_parquet(tmp_path / "p.parquet", index=False)
    with pytest.raises(DomainDataError, match="3 domains that the predictor has not seen"):
        recalibrate_files(tmp_path / "p.parquet", plan)


def test_corrected_predictions_mark_what_the_correction_was_fitted_on(tmp_path: Path) -> None:
    frame = two_classes()
    frame.assign(seen=frame.day < 30).to_parquet(tmp_path / "p.parquet", index=False)
    held_out = [str(day) for day in range(30, 35)]
    saved = fitted(tmp_path / "p.parquet", test_domains=held_out)
    saved.write(tmp_path / "c.json")
    again = SavedCorrection.read(tmp_path / "c.json")
    assert again == saved
    out = tmp_path / "out.csv"
    apply_to_files(tmp_path / "p.parquet", again, out)
    marked = pd.read_csv(out)
    assert set(marked[~marked.seen].day) == set(range(30, 35))
    told = apply_to_files(tmp_path / "p.parquet", again, tmp_path / "out.parquet")
    assert told.endswith("The column 'seen' marks the domains that it was fitted on.")
    frame[["p"]].to_csv(tmp_path / "p.csv", index=False)
    assert "no column 'day'" in apply_to_files(tmp_path / "p.csv", again, out)
    assert list(pd.read_csv(out)) == ["p"]
    frame.assign(seen="perhaps").to_csv(tmp_path / "p.csv", index=False)
    with pytest.raises(DomainDataError, match="must be true or false in every row"):
        apply_to_files(tmp_path / "p.csv", again, out)
    content = json.loads((tmp_path / "c.json").read_text())
    (tmp_path / "c.json").write_text(json.dumps({**content, "seen": 3, "domain_columns": "day"}))
    with pytest.raises(DataFileError, match=r"domain_columns is 'day'; seen is 3"):
        SavedCorrection.read(tmp_path / "c.json")
    del content["seen"], content["domain_columns"]
    (tmp_path / "c.json").write_text(json.dumps(content))
    with pytest.raises(DataFileError, match=r"domain_columns is None; seen is None"):
        SavedCorrection.read(tmp_path / "c.json")
