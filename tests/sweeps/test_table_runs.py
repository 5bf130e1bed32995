"""Table models in a sweep: the same records and tables as networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqrm.errors import SettingError
from eqrm.estimators import QRMClassifier
from eqrm.sweeps import read_records, sweep_tables
from eqrm.sweeps.sweep import run_sweep
from eqrm.sweeps.sweep_folder import SweepFolder
from eqrm.sweeps.table_runs import MODEL, TableRunConfig
from eqrm.tabular.model import load_table_model
from eqrm.training.runs.run_data import RunData
from sweeps.small_plans import SMALL, HereEngine, planned

DIGITS = SMALL["datasets"]


def table_plan(**fields: Any) -> dict[str, Any]:
    return {"seed": 3, "datasets": DIGITS, **fields}


def test_networks_and_table_models_are_compared_in_one_plan(tmp_path: Path) -> None:
    trees = {"n_estimators": 5, "n_jobs": 1}
    models = [
        {"name": "linear", "label": "linear ERM"},
        {"name": "linear", "label": "linear .9", "alpha": 0.9},
        {"name": "mlp", "settings": {"steps": 5, "erm_steps": 5, "hidden": [4]}},
        {"name": "xgboost", "settings": trees, "alpha": 0.9},
        {"name": "lightgbm", "settings": trees, "measure": "superquantile", "alpha": 0.5},
    ]
    content = {**SMALL, "draws": None, "search": None, "models": models}
    content = {key: value for key, value in content.items() if value is not None}
    sweep, folder = planned(content), SweepFolder(tmp_path / "sweep")
    result = run_sweep(sweep, folder, HereEngine(folder))
    assert result.failures == ()
    assert result.finished == len(sweep.runs) == 2 + 5
    records = {record.objective: record for record in read_records(folder.path)}
    network = records["erm"].checkpoints[-1]
    for model in ("linear ERM", "linear .9", "mlp", "xgboost", "lightgbm"):
        (measured,) = records[model].checkpoints
        for split in ("train", "validation", "test"):
            assert measured.risks[split].keys() == network.risks[split].keys()
            assert measured.accuracies[split].keys() == network.accuracies[split].keys()
    found = sweep_tables(records.values())
    assert found.tables[0].rows[0].objective == "erm"
    assert (found.missing, found.unjudged) == ((), found.unjudged)
    assert {row.objective for row in found.tables[0].rows} >= {"linear .9", "xgboost"}


def test_the_record_is_what_the_estimator_gives(tmp_path: Path) -> None:
    models = [{"name": "linear", "alpha": 0.9, "settings": {"l2": 0.01}}]
    sweep, folder = planned(table_plan(models=models)), SweepFolder(tmp_path / "sweep")
    run_sweep(sweep, folder, HereEngine(folder))
    (record,) = read_records(folder.path)
    (run,) = sweep.runs
    data = RunData.read(run.config.data)
    train, test = data.train, data.held_out["test"]
    model = QRMClassifier(alpha=0.9, l2=0.01)
    names = np.array(train.names)[train.domains.numpy()]
    model.fit(train.x.numpy(), train.y.numpy(), groups=names)
    for number, name in enumerate(test.names):
        rows = (test.domains == number).numpy()
        x, y = test.x.numpy()[rows], test.y.numpy()[rows]
        (measured,) = record.checkpoints
        assert measured.risks["test"][name] == pytest.approx(model.losses(x, y).mean(), rel=1e-9)
        assert measured.accuracies["test"][name] == pytest.approx((model.predict(x) == y).mean())
    saved = load_table_model(folder.of_run(run.run) / MODEL)
    assert saved.level == model.level_


def test_settings_that_are_not_fixed_are_drawn_and_grids_are_run() -> None:
    drawn = planned(
        table_plan(models=[{"name": "linear", "search": {"alpha": [0.5, 0.9]}}], draws=5)
    )
    assert drawn.runs[0].settings == {"settings.l2": 1e-4, "alpha": None}
    for run in drawn.runs[1:]:
        assert 1e-6 <= run.settings["settings.l2"] <= 1e-1
        assert run.settings["alpha"] in (0.5, 0.9)
        assert isinstance(run.config, TableRunConfig)
        assert run.config.alpha == run.settings["alpha"]
    grid = planned(
        table_plan(models=[{"name": "linear", "grid": {"l2": [0.1, 0.2], "alpha": [0.5]}}])
    )
    assert [run.settings for run in grid.runs] == [
        {"settings.l2": 0.1, "alpha": 0.5},
        {"settings.l2": 0.2, "alpha": 0.5},
    ]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"models": ["linaer"]}, "Unknown table model 'linaer'. Did you mean 'linear'?"),
        ({"models": [{"name": "linear", "settings": {"l3": 1}}]}, "no setting 'l3'"),
        ({"models": [{"name": "linear", "alpha": 2}]}, "alpha"),
        (
            {"models": [{"name": "linear", "settings": {"l2": 1}, "search": {"l2": [1]}}]},
            "has a fixed value and is in search",
        ),
        ({"models": [{"name": "linear", "settings": {"l2": -1}}]}, "l2 must be"),
        ({}, "objectives must be a list with at least one entry"),
    ],
)
def test_a_bad_table_model_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError) as error:
        planned(table_plan(**fields))
    assert words in str(error.value)
