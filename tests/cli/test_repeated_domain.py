"""Several --domain columns make one domain, in the same way in every command that takes them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli.commands import called

pytestmark = pytest.mark.usefixtures("no_figure")

ROWS = 12


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """Clinics named by city and number, in a CSV and in a Parquet file."""
    rng = np.random.default_rng(0)
    cities = np.repeat(["Oslo", "a | b", "Rome"], 12 * ROWS)
    clinic = np.tile(np.repeat(np.arange(12), ROWS), 3)
    x = rng.normal(size=len(cities))
    y = (x + rng.normal(size=len(x)) > 0).astype(int)
    frame = pd.DataFrame({"city": cities, "clinic": clinic, "x": x.round(3), "y": y})
    frame["p"] = (1 / (1 + np.exp(-x))).round(4)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    return tmp_path / "t.csv"


NAMES = [f"{city} | {clinic}" for city in ("Oslo", "Rome", "a \\| b") for clinic in range(12)]
SEVERAL = ["--domain", "city", "--domain", "clinic"]


def test_train_and_evaluate_join_the_columns_to_the_same_names(
    visits: Path, tmp_path: Path
) -> None:
    out, known = tmp_path / "out", tmp_path / "known.csv"
    pd.read_csv(visits).query("clinic < 8").to_csv(known, index=False)
    options = ["--target", "y", "--drop", "p", "--measure", "mean", "--output", str(out)]
    code, printed, err = called("train", str(known), *SEVERAL, *options)
    assert code == 0, err
    assert "24 domains" in printed
    judged = json.loads((out / "evaluation.json").read_text())["models"]
    trained = set(next(iter(judged.values()))["domains"])
    assert len(trained) == 24
    assert trained < set(NAMES)
    predicted = tmp_path / "predicted.csv"
    assert called("predict", str(out), str(visits), "--output", str(predicted))[0] == 0
    given = ["--target", "y", "--prediction", "p_1", "--format", "json", "--no-references"]
    code, printed, _ = called("evaluate", str(predicted), *SEVERAL, *given)
    assert code == 0
    found = json.loads(printed)["models"]["p_1"]["domains"]
    assert set(found) == set(NAMES) - trained  # the others were seen in training
