"""A finished run's folder gives the predictor back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import eqrm
from eqrm.data.tables.encoder import TableEncoder
from eqrm.errors import CheckpointError, DataFileError
from eqrm.training.runs.config import RunConfig
from eqrm.training.runs.run import train_run
from training.test_config import changed

TABLE = {"file": "patients.csv", "target": "ill", "domain": "hospital"}


@pytest.fixture(autouse=True)
def patients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """80 patients of 8 hospitals, in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EQRM_DATA", raising=False)
    age = np.random.default_rng(0).normal(50, 10, 80)
    frame = pd.DataFrame({"age": age, "ward": list("AB") * 40, "ill": (age > 50).astype(int)})
    frame["hospital"] = [f"h{number % 8}" for number in range(80)]
    frame.to_csv("patients.csv", index=False)
    return frame


def trained(**fields: object) -> eqrm.training.Trained:
    content = changed(data={"dataset": "table", "settings": TABLE, "test": ["h7"]}, **fields)
    return train_run(RunConfig.read(content))


@pytest.mark.parametrize("objective", ["eqrm", "mtl", "sagnet"])
def test_the_loaded_predictor_has_the_risks_of_the_trained_one(objective: str) -> None:
    run = trained(objective={"name": objective}, phases="single")
    state = torch.get_rng_state()
    loaded = eqrm.training.load_predictor(run.folder)  # type: ignore[arg-type]
    assert torch.equal(torch.get_rng_state(), state)
    data = eqrm.dataset("table", **TABLE).select(["h7"])
    with torch.no_grad():
        losses = loaded.losses(loaded(data.x), data.y)
    assert float(losses.mean()) == pytest.approx(run.risks["test"].mean, rel=1e-5)


def test_rows_of_another_file_are_encoded_as_the_training_file_was(patients: pd.DataFrame) -> None:
    whole = eqrm.dataset("table", **TABLE)
    inputs = pd.read_csv("patients.csv").drop(columns=["ill", "hospital"])
    x = torch.from_numpy(TableEncoder.fit(inputs).transform(patients.iloc[5:9])).float()
    assert torch.allclose(x, whole.x[5:9])


def test_what_is_no_finished_run_is_refused_in_words() -> None:
    folder = trained().folder
    assert folder is not None
    (folder / "weights.safetensors").write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match="cannot be read"):
        eqrm.training.load_predictor(folder)
    (folder / "DONE").unlink()
    with pytest.raises(DataFileError, match="no finished run"):
        eqrm.training.load_predictor(folder)
