"""Predictions as files: the types of their columns, and what can judge them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eqrm
from eqrm.data.tables.preprocessor import TablePreprocessor
from eqrm.data.tables.reading import read_table
from eqrm.tabular.model import TableModel, new_estimator, save_table_model
from eqrm.tabular.predictions import predict_file


def stays(target: Any) -> pa.Table:
    rng = np.random.default_rng(0)
    ill = rng.integers(0, 2, 60)
    columns = {"ward": pa.array(np.repeat(np.arange(12), 5), pa.int32()), "ill": target(ill)}
    return pa.table({**columns, "age": ill + rng.normal(0, 1, 60)})


def saved_model(file: Path) -> Path:
    """A model of the mean risk for 'ill', trained on a file."""
    table = read_table(file, "ill", "ward")
    preprocessor = TablePreprocessor.fit(table)
    estimator = new_estimator("linear", preprocessor.task, None)
    data = preprocessor.encode(table)
    estimator.fit(data.x.numpy(), data.y.numpy(), table.domains)
    path = file.with_name("model.safetensors")
    save_table_model(TableModel(estimator, preprocessor, None), path)
    return path


KINDS = {
    "int64": lambda ill: pa.array(ill, pa.int64()),
    "bool": lambda ill: pa.array(ill.astype(bool)),
    "double": lambda ill: pa.array(ill, pa.float64()),
    "text": lambda ill: pa.array(np.where(ill, "yes", "no")),
    "number": lambda ill: pa.array(ill + np.arange(60) / 7),
}


@pytest.mark.parametrize("kind", KINDS)
def test_in_parquet_columns_keep_their_types_and_classes_have_that_of_the_target(
    kind: str, tmp_path: Path
) -> None:
    table = stays(KINDS[kind])
    pq.write_table(table, tmp_path / "stays.parquet")
    output = tmp_path / "p.parquet"
    predict_file(saved_model(tmp_path / "stays.parquet"), str(tmp_path / "stays.parquet"), output)
    found = pq.read_table(output)
    for name in ("ward", "ill"):
        assert found.column(name).equals(table.column(name))
    assert found.column("prediction").type == table.column("ill").type
    if kind != "number":
        right = np.asarray(found["prediction"]) == np.asarray(found["ill"])
        assert right.mean() > 0.6


def test_from_csv_to_parquet_a_target_of_numbers_is_numbers_and_domains_are_text(
    tmp_path: Path,
) -> None:
    path, output = tmp_path / "stays.csv", tmp_path / "p.parquet"
    stays(KINDS["int64"]).to_pandas().to_csv(path, index=False)
    model = saved_model(path)
    predict_file(model, str(path), output)
    types = {field.name: str(field.type) for field in pq.read_schema(output)}
    probabilities = {"p_0": "double", "p_1": "double"}
    assert types == {"ward": "string", "ill": "int64", "prediction": "int64", **probabilities}
    # Without the target, the model knows what its classes are.
    pd.read_csv(path)[["age"]].to_csv(tmp_path / "new.csv", index=False)
    predict_file(model, str(tmp_path / "new.csv"), output)
    types = {field.name: str(field.type) for field in pq.read_schema(output)}
    assert types == {"prediction": "int64", **probabilities}


@pytest.mark.parametrize("kind", ["bool", "double"])
def test_in_csv_classes_are_spelled_as_the_target_is(kind: str, tmp_path: Path) -> None:
    pq.write_table(stays(KINDS[kind]), tmp_path / "stays.parquet")
    output = tmp_path / "p.csv"
    predict_file(saved_model(tmp_path / "stays.parquet"), str(tmp_path / "stays.parquet"), output)
    found = pd.read_csv(output, dtype=str)
    assert set(found["prediction"]) == set(found["ill"])


@pytest.mark.parametrize(("kind", "ending"), [("int64", "csv"), ("text", "parquet")])
def test_two_classes_are_judged_by_a_probability_per_class_or_by_the_class(
    kind: str, ending: str, tmp_path: Path
) -> None:
    table = stays(KINDS[kind])
    pq.write_table(table, tmp_path / "stays.parquet")
    output = tmp_path / f"p.{ending}"
    predict_file(saved_model(tmp_path / "stays.parquet"), str(tmp_path / "stays.parquet"), output)
    found = pd.read_csv(output) if ending == "csv" else pd.read_parquet(output)
    first, second = [name for name in found if str(name).startswith("p_")]
    is_second = (found["ill"].astype(str) == str(second).removeprefix("p_")).to_numpy()
    loss = -np.log(np.where(is_second, found[second], found[first]))
    wrong = found["ill"] != found["prediction"]
    common = {"domains": "ward", "target": "ill"}
    judged = eqrm.evaluate(output, predictions="p_{class}", **common)
    assert judged.risk_table().cells["p_{class}"][0].value == pytest.approx(
        pd.Series(loss).groupby(found["ward"]).mean().mean()
    )
    judged = eqrm.evaluate(output, predictions="prediction", metric="0-1", **common)
    assert judged.risk_table().cells["prediction"][0].value == pytest.approx(
        wrong.groupby(found["ward"]).mean().mean()
    )
