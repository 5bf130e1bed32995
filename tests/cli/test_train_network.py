"""``eqrm train-network``: trains, resumes, prints risks, refuses in one line."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from eqrm.cli import app
from eqrm.data.datasets.registry import raw_dataset
from eqrm.errors import SettingError
from eqrm.training.runs import run_data
from eqrm.training.trainer import Trainer
from training.small_worlds import classification
from training.test_config import GOOD, changed

RUNNER = CliRunner()
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "table.yaml"


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_data, "raw_dataset", lambda name, root, **settings: classification(6))


def written(tmp_path: Path, content: object = GOOD) -> str:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(content))
    return str(path)


def test_it_trains_and_prints_the_risks_of_held_out_domains(tmp_path: Path) -> None:
    content = changed(data__test=["d3", "d4", "d5"])
    command = ["train-network", written(tmp_path, content), "--output", str(tmp_path / "runs")]
    result = RUNNER.invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "eqrm on toy: 10 steps" in result.output
    assert "test: mean risk" in result.output
    assert " and mean accuracy " in result.output
    assert "Harrell–Davis estimates; the accuracy is that of all examples." in result.output
    assert "constant (base rate)" in result.output
    assert "Recalibration is cross-fitted over domains and needs 10" in result.output
    assert "ERM and its recalibration are references too" in result.output
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"The run is in {folder}" in result.output
    again = RUNNER.invoke(app, command)
    assert again.stdout == result.stdout
    assert "nothing was trained" in again.stderr
    assert "nothing was trained" not in result.stderr
    afresh = RUNNER.invoke(app, [*command, "--no-resume"])
    assert "nothing was trained" not in afresh.stderr


def test_set_changes_the_run_and_check_trains_nothing(tmp_path: Path) -> None:
    command = ["train-network", written(tmp_path), "--output", str(tmp_path / "runs"), "--check"]
    plain = RUNNER.invoke(app, command)
    other = RUNNER.invoke(app, [*command, "--set", "training.seed=1"])
    assert "is valid" in plain.output
    assert plain.output != other.output
    assert not (tmp_path / "runs").exists()


def test_a_mistake_is_an_error_before_anything_is_written(tmp_path: Path) -> None:
    path = written(tmp_path, changed(steps="ten"))
    result = RUNNER.invoke(app, ["train-network", path, "--output", str(tmp_path / "runs")])
    assert isinstance(result.exception, SettingError)
    assert not (tmp_path / "runs").exists()


def test_ctrl_c_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take = Trainer._take_step

    def press(self, *arguments):  # type: ignore[no-untyped-def]
        if self.state.step == 5:
            signal.raise_signal(signal.SIGINT)
        return take(self, *arguments)

    monkeypatch.setattr(Trainer, "_take_step", press)
    command = ["train-network", written(tmp_path), "--output", str(tmp_path / "runs")]
    result = RUNNER.invoke(app, command)
    assert result.exit_code == 130
    assert "Stopped after step 6 of 10" in result.output
    monkeypatch.setattr(Trainer, "_take_step", take)
    assert RUNNER.invoke(app, command).exit_code == 0


def test_a_table_of_ones_own_trains_without_a_data_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_data, "raw_dataset", raw_dataset)
    monkeypatch.delenv("EQRM_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    rows = [f"{n % 13},{'AB'[n % 2]},same,h{n % 8},{n % 13 % 2}" for n in range(80)]
    Path("patients.csv").write_text("\n".join(["age,ward,country,hospital,ill", *rows]))
    command = ["train-network", str(EXAMPLE), "--set", "steps=4", "--set", "phases=single"]
    result = RUNNER.invoke(app, [*command, "--set", "training.tensorboard=false"])
    assert result.exit_code == 0, result.output
    assert "test: mean risk" in result.output
    assert "Note: Column 'country' has the same value in every row" in result.output
