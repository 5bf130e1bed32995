"""Files that earlier versions wrote are read, or refused in a sentence that says what to do.

``tests/fixtures/version-X/write.py`` says how the files came about.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

import eqrm
from eqrm.cli import app
from eqrm.errors import CheckpointError, DataFileError
from eqrm.evaluation.evaluation import Evaluation
from eqrm.linear import DomainMoments
from eqrm.training import load_predictor, load_table_network

OLD = Path(__file__).parent / "fixtures" / "version-0.1.0"
MODELS = json.loads((OLD / "models" / "expected.json").read_text())


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output or result.exception
    return result.output


@pytest.mark.parametrize("name", MODELS["models"])
def test_models_predict_what_they_did(name: str) -> None:
    model = eqrm.load_model(OLD / "models" / f"{name}.safetensors")
    expected = MODELS["models"][name]
    predict = getattr(model, "predict_proba", model.predict)
    np.testing.assert_allclose(predict(np.array(MODELS["X"])), expected["predictions"], rtol=1e-6)
    assert model.quantile_risk_ == pytest.approx(expected["quantile_risk"], rel=1e-12)


@pytest.mark.parametrize("name", ["erm", "alpha-0.9"])
def test_models_of_tables_predict_what_they_did(name: str, tmp_path: Path) -> None:
    model = OLD / "table-training" / "models" / f"{name}.safetensors"
    run("predict", model, OLD / "table.csv", "--output", tmp_path / "new.csv")
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "new.csv"), pd.read_csv(OLD / f"{name}.csv"), rtol=1e-12
    )


@pytest.mark.usefixtures("no_figure")
def test_a_new_training_replaces_the_files_of_an_earlier_one(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    shutil.copytree(OLD / "table-training", folder)
    run("train", OLD / "table.csv", "--target", "ill", "--domain", "hospital", "--measure", "worst",
        "--model", "linear", "--output", folder)  # fmt: skip
    names = {p.name for p in (folder / "models").iterdir()}
    assert "logistic-plain.safetensors" in names
    assert not names & {"erm.safetensors", "alpha-0.9.safetensors"}


def test_the_folder_of_a_training_is_loaded_and_predicts_by_its_level(tmp_path: Path) -> None:
    """Version 0.1 listed neither the names of models nor which one to use, and did not decide."""
    found = eqrm.load(OLD / "table-training")
    assert (found.recommended, found.decision, found.decisions) == ("α = 0.9", None, ())
    assert set(found.models) >= {"ERM", "α = 0.9"}
    said = run("predict", OLD / "table-training", OLD / "table.csv", "--output", tmp_path / "p.csv")
    assert said.startswith("Predicted by α = 0.9 (")
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "p.csv"), pd.read_csv(OLD / "alpha-0.9.csv"), rtol=1e-12
    )


def test_evaluations_are_read() -> None:
    found = Evaluation.from_dict(json.loads((OLD / "evaluation.json").read_text()))
    expected = json.loads((OLD / "expected.json").read_text())
    assert found["ERM"].risks.tolist() == expected["ERM"]
    assert found["ERM"].counts.tolist() == expected["counts"]
    assert eqrm.evaluation.quantile_bound(found["ERM"].risks, 0.5).bound == expected["bound"]


def test_moments_are_read_and_solved_as_before() -> None:
    expected = json.loads((OLD / "expected.json").read_text())
    model = eqrm.LinearQRM(0.9).fit(DomainMoments.load(OLD / "moments.safetensors"))
    np.testing.assert_allclose(model.coef_, expected["coefficients"], rtol=1e-9)
    assert model.intercept_ == pytest.approx(expected["intercept"], rel=1e-9)


@pytest.mark.xdist_group("stand-in of MNIST")
@pytest.mark.usefixtures("stand_in_made_once")
@pytest.mark.parametrize("name", ["digits", "table"])
@pytest.mark.filterwarnings("ignore::eqrm.errors.EqrmWarning")  # digits are a stand-in
def test_finished_runs_are_loaded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(OLD)  # the table's file is named relative to the working directory
    (folder,) = (OLD / f"runs-{name}").iterdir()
    expected = json.loads((OLD / f"run-{name}-expected.json").read_text())
    with torch.no_grad():
        outputs = load_predictor(folder)(torch.tensor(expected["x"]))
    torch.testing.assert_close(outputs, torch.tensor(expected["outputs"]))


@pytest.mark.xdist_group("stand-in of MNIST")
@pytest.mark.usefixtures("stand_in_made_once")
@pytest.mark.filterwarnings("ignore::eqrm.errors.EqrmWarning")
def test_a_run_that_was_stopped_is_finished(tmp_path: Path) -> None:
    shutil.copytree(OLD / "runs-digits-stopped", tmp_path / "runs")
    shutil.copy(OLD / "digits.yaml", tmp_path)
    run("train-network", tmp_path / "digits.yaml", "--output", tmp_path / "runs")
    (finished,) = (OLD / "runs-digits").iterdir()
    found = load_file(tmp_path / "runs" / finished.name / "weights.safetensors")
    for key, value in load_file(finished / "weights.safetensors").items():
        torch.testing.assert_close(found[key], value)
    metrics = (tmp_path / "runs" / finished.name / "metrics.jsonl").read_text()
    before = (finished / "metrics.jsonl").read_text()
    assert [json.loads(line)["step"] for line in metrics.splitlines()] == [
        json.loads(line)["step"] for line in before.splitlines()
    ]


def test_a_network_of_a_table_is_trained_again_before_it_predicts(tmp_path: Path) -> None:
    """Version 0.1 did not save how it encoded a table."""
    (folder,) = (OLD / "runs-table").iterdir()
    with pytest.raises(DataFileError, match=r"written by version 0\.1.*Train it again"):
        load_table_network(folder)
    command = ["predict", str(folder), str(OLD / "table.csv"), "--output", str(tmp_path / "p.csv")]
    assert isinstance(CliRunner().invoke(app, command).exception, DataFileError)


@pytest.mark.parametrize("runs", ["runs-table", "runs-table-stopped"])
def test_a_run_on_a_table_is_not_continued_on_differently_encoded_inputs(
    runs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 0.1 encoded a table with its test domains included."""
    shutil.copytree(OLD / runs, tmp_path / "runs")
    monkeypatch.chdir(OLD)
    command = ["train-network", "table.yaml", "--output", str(tmp_path / "runs")]
    error = CliRunner().invoke(app, command).exception
    assert isinstance(error, CheckpointError)
    assert "begun with version 0.1" in str(error)
    assert "--no-resume" in str(error)
    run(*command, "--no-resume")
