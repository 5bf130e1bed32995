"""Models in files: what comes back is what was saved, and nothing else is let in."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from eqrm import Level, QRMClassifier, QRMRegressor, load_model, save_model
from eqrm.errors import DataFileError, SettingError
from eqrm.estimators.model_files import read_model
from estimators.worlds import classes_world, forged, numbers_world

MLP: dict[str, Any] = {"model": "mlp", "hidden": [5, 4], "erm_steps": 5, "steps": 5}
ESTIMATORS = {
    "binary": (QRMClassifier(Level(log_tail=-60.0), l2=0.01), classes_world(2)),
    "three classes": (QRMClassifier("0.8", measure="superquantile"), classes_world(3)),
    "network": (QRMClassifier(0.9, random_state=1, **MLP), classes_world(3)),
    "ERM": (QRMClassifier(None, fit_intercept=False), classes_world(2)),
    "numbers": (QRMRegressor(0.9, bandwidth=0.1), numbers_world()),
    "network of numbers": (QRMRegressor(0.9, random_state=1, **MLP), numbers_world()),
}


def fitted(name: str) -> tuple[Any, Any]:
    estimator, world = ESTIMATORS[name]
    frame = pd.DataFrame(world.X, columns=["dose", "age", "weight"])
    y = world.y
    if isinstance(estimator, QRMClassifier):
        y = np.array(["ill", "well", "gone"])[y]
    return estimator.fit(frame, y, groups=world.groups), frame


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_is_loaded_predicts_exactly_what_was_saved(name: str, tmp_path: Path) -> None:
    model, frame = fitted(name)
    save_model(model, tmp_path / "m.safetensors")
    again = load_model(tmp_path / "m.safetensors")
    assert type(again) is type(model)
    assert repr(again.get_params()) == repr(model.get_params())
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    if hasattr(model, "predict_proba"):
        np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
        assert again.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(again.domain_risks_, model.domain_risks_)
    assert again.feature_names_in_.tolist() == ["dose", "age", "weight"]
    for attribute in ("level_", "quantile_risk_", "domains_", "n_features_in_", "converged_"):
        assert getattr(again, attribute) == getattr(model, attribute)


def test_a_loaded_model_still_knows_its_features_and_domains(tmp_path: Path) -> None:
    model, frame = fitted("binary")
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame.rename(columns={"dose": "dosis"}))
    with pytest.raises(ValueError, match="was trained on"):
        again.certificate(frame, model.predict(frame), np.arange(len(frame)) % 30)


def test_what_is_attached_comes_back(tmp_path: Path) -> None:
    model, _ = fitted("ERM")
    save_model(model, tmp_path / "m", attached={"columns": ["dose", "α"], "fill": 0.5})
    assert read_model(tmp_path / "m")[1] == {"columns": ["dose", "α"], "fill": 0.5}
    with pytest.raises(SettingError, match="must be JSON"):
        save_model(model, tmp_path / "m", attached={"columns": {1, 2}})
    assert read_model(tmp_path / "m")[1] == {"columns": ["dose", "α"], "fill": 0.5}


@pytest.mark.parametrize("cut", [4, 800, -1])
def test_a_truncated_file_is_refused(cut: int, tmp_path: Path) -> None:
    model, _ = fitted("binary")
    save_model(model, tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    (tmp_path / "m").write_bytes(content[:cut])
    with pytest.raises(DataFileError, match="damaged"):
        load_model(tmp_path / "m")


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pickle").write_bytes(pickle.dumps(LogisticRegression()))
    (tmp_path / "text").write_text("hospital,y\n1,2\n")
    save_file({"a": np.zeros(2)}, tmp_path / "tensors")
    save_file({"a": np.zeros(2)}, tmp_path / "newer", {"format": "eqrm model 9"})
    for name, message in {
        "pickle": "is not a model file, or it is damaged",
        "text": "is not a model file, or it is damaged",
        "tensors": "is not a model file",
        "newer": "another version of eqrm",
        "absent": "does not exist",
    }.items():
        with pytest.raises(DataFileError, match=message):
            load_model(tmp_path / name)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.update({"class": "os.system"}),
        lambda c: c["params"].update({"alpha": {"object": "os.system"}}),
        lambda c: c["params"].update({"unknown": 1}),
        lambda c: c["fitted"].update({"predict": 1}),
        lambda c: c["fitted"].update({"classes_": ["O8,f4", [0, 1]]}),
        lambda c: c["fitted"].update({"classes_": ["nonsense", [0, 1]]}),
        lambda c: c.pop("own"),
        lambda c: c["own"].update({"coef_": np.ones(4)}),
        lambda c: c["fitted"].update({"domains_": 5}),
    ],
)
def test_a_forged_file_is_refused_and_runs_nothing(change: Any, tmp_path: Path) -> None:
    model, _ = fitted("binary")
    save_model(model, tmp_path / "m")
    forged(tmp_path / "m", change)
    with pytest.raises(DataFileError, match=r"damaged|does not know"):
        load_model(tmp_path / "m")


def test_what_cannot_be_saved_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    world = classes_world(2)
    with pytest.raises(SettingError, match="cannot save a LogisticRegression"):
        save_model(LogisticRegression().fit(world.X, world.y), tmp_path / "m")
    with pytest.raises(NotFittedError):
        save_model(QRMClassifier(), tmp_path / "m")
    own = QRMClassifier(0.9, random_state=np.random.RandomState(0))
    with pytest.raises(SettingError, match="random_state is a RandomState"):
        save_model(own.fit(*world), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
