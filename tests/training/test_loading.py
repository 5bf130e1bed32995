"""A finished run's folder gives the predictor back, and predictions for tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

import eqrm
from eqrm.cli import app
from eqrm.errors import CheckpointError, DataFileError, SettingError
from eqrm.training.runs.config import PredictorConfig, RunConfig
from eqrm.training.runs.run import train_run
from eqrm.training.runs.run_data import PredictorSpec, RunData
from training.test_config import changed

# Small worlds take small batches.
pytestmark = pytest.mark.filterwarnings(
    "ignore::eqrm.objectives.training_warnings.SmallBatchWarning"
)

TABLE = {"file": "patients.csv", "target": "ill", "domain": "hospital"}
RUNNER = CliRunner()


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


def trained(resume: bool = True, **fields: object) -> eqrm.training.Trained:
    content = changed(data={"dataset": "table", "settings": TABLE, "test": ["h7"]}, **fields)
    return train_run(RunConfig.read(content), resume=resume)


def test_test_domains_do_not_leak_into_what_is_trained(patients: pd.DataFrame) -> None:
    before = load_file(trained().folder / "weights.safetensors")  # type: ignore[operator]
    patients.loc[patients["hospital"] == "h7", "age"] += 1000
    patients.to_csv("patients.csv", index=False)
    after = load_file(trained(resume=False).folder / "weights.safetensors")  # type: ignore[operator]
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_run_does_not_start_from_one_that_has_seen_its_test_domains(
    patients: pd.DataFrame,
) -> None:
    first = trained(phases="single")
    start = {"phases": "single", "predictor__start_from": str(first.folder)}
    other = {"dataset": "table", "settings": TABLE, "test": ["h1"]}
    leaking = RunConfig.read(changed(data=other, training__seed=7, **start))
    with pytest.raises(SettingError, match=r"was trained on 1 domain that .*: 'h1'"):
        train_run(leaking)
    fewer = {"dataset": "table", "settings": TABLE, "test": ["h7"], "leave_out": ["h1"]}
    later = train_run(RunConfig.read(changed(data=fewer, training__seed=7, **start)))
    seen = eqrm.training.load_table_network(later.folder).seen  # type: ignore[arg-type]
    assert seen is not None
    assert seen.among(["h1", "h2", "h7"]) == ["h1", "h2"]  # h1 by the run that it began from
    patients["ill"] = patients["ill"].map({0: "dog", 1: "elk"})
    patients.to_csv("patients.csv", index=False)
    with pytest.raises(SettingError, match="other classes"):
        trained(training__seed=8, **start)


@pytest.mark.parametrize("objective", ["eqrm", "mtl", "arm", "sagnet"])
def test_a_loaded_network_predicts_what_the_trained_one_did(
    patients: pd.DataFrame, objective: str
) -> None:
    run = trained(objective={"name": objective}, phases="single")
    Path("patients.csv").unlink()  # the table of training is not needed
    state = torch.get_rng_state()
    loaded = eqrm.training.load_table_network(run.folder)  # type: ignore[arg-type]
    assert torch.equal(torch.get_rng_state(), state)
    shuffled = patients.sample(frac=1, random_state=0)[["hospital", "ward", "ill", "age"]]
    found = loaded.predict(shuffled)
    assert list(found) == ["prediction", "p_0", "p_1"]
    right = np.where(shuffled["ill"] == 1, found["p_1"], found["p_0"])
    test = -np.log(right[shuffled["hospital"] == "h7"]).mean()
    assert test == pytest.approx(run.risks["test"].mean, rel=1e-5)


@pytest.mark.parametrize(
    ("target", "loss", "columns"),
    [
        ([-1.5, 0.5, 2.0, 3.5] * 20, "squared", ["prediction"]),
        (["well", "ill"] * 40, "binary-cross-entropy", ["prediction", "p_ill", "p_well"]),
        (["a", "b", "c", "b"] * 20, None, ["prediction", "p_a", "p_b", "p_c"]),
    ],
)
def test_every_kind_of_target_is_predicted(
    patients: pd.DataFrame, target: list[object], loss: str | None, columns: list[str]
) -> None:
    patients.assign(ill=target).to_csv("patients.csv", index=False)
    predictor = {"name": "mlp", "loss": loss, "settings": {"width": 8}}
    run = trained(predictor=predictor, phases="single", steps=3)
    found = eqrm.training.load_table_network(run.folder).predict(patients)  # type: ignore[arg-type]
    assert list(found) == columns
    assert all(len(values) == 80 for values in found.values())
    if len(columns) > 1:
        np.testing.assert_allclose(sum(found[name] for name in columns[1:]), 1.0)
        assert set(found["prediction"]) <= set(target)


def test_eqrm_predict_takes_the_folder_of_a_run(patients: pd.DataFrame) -> None:
    folder = trained().folder
    new = patients[["ward", "age", "hospital"]].head(33)
    new.to_csv("new.csv", index=False)
    result = RUNNER.invoke(app, ["predict", str(folder), "new.csv", "--output", "out.csv"])
    assert result.exit_code == 0, result.output
    written = pd.read_csv("out.csv")
    assert list(written) == ["hospital", "prediction", "p_0", "p_1", "seen"]
    assert (written.seen == (written.hospital != "h7")).all()
    expected = eqrm.load(folder).predict(new)  # type: ignore[arg-type]
    result = RUNNER.invoke(app, ["predict", str(folder), "new.csv", "--output", "out.parquet"])
    assert result.exit_code == 0, result.output
    texts = pd.read_csv("out.csv", dtype=str)  # pandas would round in its own way
    for found in (texts, pd.read_parquet("out.parquet")):
        for name in ("prediction", "p_0", "p_1"):
            assert [float(value) for value in found[name]] == expected[name].tolist()


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_run_of_a_gpu_is_loaded_without_one_and_not_trained(patients: pd.DataFrame) -> None:
    run = trained()
    config = run.folder / "config.yaml"  # type: ignore[operator]
    text = config.read_text()
    assert "device: cpu" in text
    config.write_text(text.replace("device: cpu", "device: cuda"))
    loaded = eqrm.training.load_table_network(run.folder)  # type: ignore[arg-type]
    assert len(loaded.predict(patients)["prediction"]) == len(patients)
    Path("patients.csv").unlink()  # refused before the table is looked for
    with pytest.raises(SettingError, match=r"training.device: The device 'cuda' needs a GPU"):
        train_run(RunConfig.from_file(config))


def test_a_run_is_not_continued_on_a_table_that_has_changed(patients: pd.DataFrame) -> None:
    run = trained()
    patients.assign(age=patients["age"] + 1).to_csv("patients.csv", index=False)
    with pytest.raises(CheckpointError, match="The table has changed since the run in"):
        trained()
    assert trained(resume=False).steps == run.steps


def test_what_is_no_finished_run_is_refused_in_words() -> None:
    folder = trained().folder
    assert folder is not None
    (folder / "weights.safetensors").write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match="cannot be read"):
        eqrm.training.load_predictor(folder)
    (folder / "predictor.json").write_text("{}")
    with pytest.raises(DataFileError, match=r"predictor\.json is damaged"):
        eqrm.training.load_predictor(folder)
    (folder / "predictor.json").unlink()
    with pytest.raises(DataFileError, match=r"has no predictor\.json\. Train the network again"):
        eqrm.training.load_predictor(folder)
    (folder / "DONE").unlink()
    with pytest.raises(DataFileError, match="does not hold a finished run"):
        eqrm.training.load_table_network(folder)


def test_validation_domains_and_what_stops_a_run_are_seen_and_test_domains_are_not() -> None:
    data = {"dataset": "table", "settings": TABLE, "test": ["h7"]}
    for own, watched, unseen in (
        ({"validation": ["h6"]}, None, ["h7"]),
        ({"validation_examples": 0.2, "split_test_domains": True}, None, ["h7"]),
        ({"validation_examples": 0.2, "split_test_domains": True}, "validation", []),
        ({"leave_out": ["h5", "h6"]}, None, ["h5", "h6", "h7"]),
    ):
        found = RunData.read(RunConfig.read(changed(data={**data, **own})).data)
        seen = found.seen(watched)
        names = [f"h{number}" for number in range(8)]
        assert [name for name in names if name not in seen.among(names)] == unseen
        assert PredictorSpec.of(PredictorConfig("mlp"), found, watched).seen == seen
