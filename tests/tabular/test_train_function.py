"""``eqrm.train`` and ``eqrm.load`` give what the command line gives, bit for bit."""

from __future__ import annotations

import html
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import eqrm
from cli.commands import called, hospitals
from cli.test_train_real_tables import messy
from eqrm.errors import (
    DataFileError,
    DomainDataError,
    ListedProblemsError,
    SettingError,
)
from eqrm.tabular import steps as shown_steps

pytestmark = pytest.mark.usefixtures("no_figure")
SMALL = {
    "linear": {},
    "mlp": {"hidden": [4], "erm_steps": 5, "steps": 5},
    "xgboost": {"n_estimators": 3},
    "lightgbm": {"n_estimators": 3},
}
PLAIN = "logistic, plain"


def same(found: pd.DataFrame, file: Path) -> None:
    """Equal bits in every column that the command wrote, and none missing."""
    written = pd.read_parquet(file)
    for name in found.columns:
        assert found[name].tolist() == written[name].tolist(), name


@pytest.mark.parametrize(
    "model", ["linear", *(pytest.param(name, marks=pytest.mark.full) for name in [*SMALL][1:])]
)
def test_train_save_load_and_predict_equal_the_command(tmp_path: Path, model: str) -> None:
    table, new = tmp_path / "t.csv", tmp_path / "new.csv"
    frame = messy(number=40).drop(columns="weight")
    frame.to_csv(table, index=False)
    frame.head(60).to_csv(new, index=False)
    settings = [f"--set={name}={value}" for name, value in SMALL[model].items()]
    options = ["--target", "ill", "--domain", "hospital", "--surrogate", "none"]
    asked = ["train", str(table), *options, *settings, "--model", model, "--max-missing", "0.5"]
    code, printed, err = called(*asked, "--output", str(tmp_path / "command"))
    assert code == 0, err
    given = {"surrogate": "none", "settings": SMALL[model], "max_missing": 0.5, "model": model}
    found = eqrm.train(table, "ill", "hospital", **given)
    words = found.printed().replace("certify for a proven", "--certify for a proven")
    assert printed.startswith(words.replace("in features with", "in --feature with"))
    summary = " ".join((tmp_path / "command" / "summary.txt").read_text().split())
    assert "list it in --feature with" in summary
    assert "list it in features with" in " ".join(found.summary.split())
    assert " --" not in found.summary
    found.save(tmp_path / "python")
    again = eqrm.load(tmp_path / "python")
    assert repr(again) == repr(found)
    assert (again.summary, again.decisions) == (found.summary, found.decisions)
    assert str(again.table) == str(found.table)
    listed = json.loads((tmp_path / "command" / "files.json").read_text())["models"]
    for name, file in listed.items():
        stem = Path(file).stem
        saved = tmp_path / "command" / "models" / f"{stem}.safetensors"
        written = tmp_path / f"{stem}.parquet"
        code, _, err = called("predict", str(saved), str(new), "--output", str(written))
        assert code == 0, err
        for result in (found, again):
            same(result.predict(new, name), written)
            same(result.predict(frame.head(60), name), written)
        alone = eqrm.load(tmp_path / "python" / "models" / f"{stem}.safetensors")
        same(pd.DataFrame(alone.predict(frame.head(60))), written)
    shown = (tmp_path / "command" / "files.json", tmp_path / "python" / "files.json")
    assert shown[0].read_text() == shown[1].read_text()


def test_a_frame_and_its_file_give_the_same_models(tmp_path: Path) -> None:
    frame = messy(number=40).drop(columns="weight")
    frame.to_parquet(tmp_path / "t.parquet")
    options = {"max_missing": 0.5, "class_weight": "balanced", "model": "linear"}
    options |= {"surrogate": "eqrm"}
    steps: list[str] = []
    first = eqrm.train(frame, "ill", "hospital", progress=steps.append, **options)
    second = eqrm.train(tmp_path / "t.parquet", "ill", "hospital", **options)
    pd.testing.assert_frame_equal(first.predict(frame), second.predict(frame), check_exact=True)
    assert first.predict(frame.set_index("stay")).index.name == "stay"
    assert steps[:2] == ["reading the table", "encoding the table"]
    assert first.report(tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert "unseen domains" in first.plot().get_ylabel()
    assert str(first.decision).splitlines()[0] in html.unescape(first._repr_html_())


def test_what_was_saved_is_loaded_by_its_kind(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(60, 1))
    fitted = eqrm.QRMRegressor(alpha=None).fit(X, X[:, 0], np.arange(60) // 6)
    eqrm.save_model(fitted, tmp_path / "m.safetensors")
    assert type(eqrm.load(tmp_path / "m.safetensors")) is eqrm.QRMRegressor
    judged = eqrm.evaluate(domains=np.arange(60) // 2, losses=X[:, 0] ** 2)
    (tmp_path / "e.json").write_text(judged.to_json())
    assert eqrm.load(tmp_path / "e.json").to_dict() == judged.to_dict()
    certificate = judged.certificate(0.9)
    (tmp_path / "c.json").write_text(json.dumps(certificate.to_dict()))
    assert eqrm.load(tmp_path / "c.json") == certificate
    (tmp_path / "x.json").write_text("{")
    for wrong in ("x.json", "nothing", "."):
        with pytest.raises(DataFileError):
            eqrm.load(tmp_path / wrong)


def test_a_loaded_training_is_saved_again_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    given = {"measure": "mean", "model": "linear", "output": tmp_path / "out"}
    found = eqrm.train(hospitals(number=12), "ill", "hospital", **given)
    assert found.folder == eqrm.load(tmp_path / "out").folder == tmp_path / "out"
    eqrm.load(tmp_path / "out").save(tmp_path / "copy")
    copied = eqrm.load(tmp_path / "copy")
    assert copied.report(tmp_path / "r.html").exists()
    assert copied.summary == found.summary
    (tmp_path / "out" / "evaluation.json").write_text("{}")
    with pytest.raises(DataFileError, match="is damaged"):
        eqrm.load(tmp_path / "out")


def test_all_problems_of_a_call_are_one_error() -> None:
    frame = hospitals(number=6)
    with pytest.raises(SettingError, match=r"eqrm\.train has no option 'modle'\. Did you mean"):
        eqrm.train(frame, "ill", "hospital", modle="linear")
    with pytest.raises(ListedProblemsError) as error:
        eqrm.train(frame, "il", "hospital", model="xgbost", confidence=2.0, alpha=[0.9, 1.5])
    assert len(error.value.problems) == 4


def test_fitted_models_are_evaluated_by_domain() -> None:
    rng = np.random.default_rng(0)
    X, day = rng.normal(size=(400, 2)), np.repeat(np.arange(40), 10)
    late = np.where(X[:, 0] + rng.normal(size=400) > 0, "yes", "no")
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[:200], late[:200])
    p = model.predict_proba(X[200:])[:, 1]
    found = eqrm.evaluate_model(model, X[200:], late[200:], day[200:], name="LR", references=True)
    expected = eqrm.evaluate(domains=day[200:], target=late[200:] == "yes", predictions={"LR": p})
    np.testing.assert_array_equal(found["LR"].risks, expected["LR"].risks)
    assert "base rate" in str(found.risk_table())
    three = np.digitize(X[:, 1], [-0.5, 0.5])
    several = LogisticRegression().fit(X[:200], three[:200])
    assert eqrm.evaluate_model(several, X[200:], three[200:], day[200:]).loss == "log-loss"
    numbers = Ridge().fit(X[:200], X[:200, 0])
    assert eqrm.evaluate_model(numbers, X[200:], X[200:, 0], day[200:]).loss == "squared"
    hard = LinearSVC().fit(X[:200], late[:200])
    assert eqrm.evaluate_model(hard, X[200:], late[200:], day[200:]).loss == "0-1"
    own = eqrm.QRMClassifier(alpha=0.9).fit(X[:200], late[:200], day[:200])
    assert len(eqrm.evaluate_model(own, X, late, day).domains) == 20  # the others were seen
    for wrong in ({"y": late, "groups": None}, {"y": np.full(400, "maybe"), "groups": day}):
        with pytest.raises(DomainDataError):
            eqrm.evaluate_model(model, X, **wrong)
    for refused in ({"loss": abs}, {"model": object()}):
        with pytest.raises(SettingError):
            eqrm.evaluate_model(**{"model": model, "X": X, "y": late, "groups": day, **refused})


def test_torch_modules_are_evaluated_by_domain() -> None:
    torch.manual_seed(0)
    x, day = torch.randn(60, 3), torch.arange(60) // 6
    module = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(3, 1))
    y = (x[:, 0] > 0).long()
    loader = [(x[i : i + 20], y[i : i + 20], day[i : i + 20]) for i in range(0, 60, 20)]
    found = eqrm.evaluate_model(module, loader)
    assert module.training
    p = torch.sigmoid(module.eval()(x)[:, 0]).detach().double().numpy()
    expected = eqrm.evaluate(domains=day, target=y, predictions=p)
    np.testing.assert_allclose(found["model"].risks, next(iter(expected.models.values())).risks)
    numbers = [(a, a[:, 0], d) for a, _, d in loader]
    assert eqrm.evaluate_model(module, numbers).loss == "squared"
    assert eqrm.evaluate_model(torch.nn.Linear(3, 4), loader).loss == "log-loss"
    named = eqrm.evaluate_model(module, numbers, metric=lambda out, y: (out[:, 0] - y).abs())
    assert named.loss == "loss"
    with pytest.raises(DomainDataError, match="one number per example"):
        eqrm.evaluate_model(module, numbers, metric=lambda out, y: out.mean())


def test_networks_on_many_rows_are_trained_on_batches_and_say_how_far_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("eqrm.tabular.plan.MOST_IN_A_STEP", 500)
    steps: list[str] = []
    settings = {"hidden": [4], "erm_steps": 20, "steps": 20}
    asked = {"model": "mlp", "settings": settings, "measure": "superquantile"}
    found = eqrm.train(hospitals(number=30), "ill", "hospital", progress=steps.append, **asked)
    assert "mini-batches (30 domains × 68 rows" in " ".join(found.summary.split())
    told = [step for step in steps if "step 40 of 40" in step]
    assert any("fitting network, plain" in step for step in told)
    model = found.models["network, trained for 9 in 10"].estimator
    assert (model.domains_per_batch, model.examples_per_domain) == (30, 68)


def test_errors_name_keywords_where_the_command_names_options() -> None:
    rng = np.random.default_rng(0)
    columns = {
        "ward": np.repeat(np.arange(40), 20),
        "age": np.where(rng.random(800) < 0.4, np.nan, 1.0),
        "ill": rng.integers(0, 2, 800),
    }
    with pytest.raises(ListedProblemsError) as caught:
        eqrm.train(columns, target="ill", domain="ward", seed=-1)
    assert "(max_missing=0.4" in str(caught.value)
    assert "leave the column out (drop=['age'])" in caught.value.problems[1]
    assert "--" not in str(caught.value)


def test_one_name_is_a_list_of_one() -> None:
    frame, plain = hospitals(number=6), {"measure": "mean", "model": "linear"}
    found = eqrm.train(frame, "ill", "hospital", **plain, drop="ward", features="age")
    assert found.models[PLAIN].preprocessor.encoder.features == ("age",)
    given = {"categories": "scan", "missing_values": -999, "certify": "H001"}
    with pytest.raises(DomainDataError, match="There is 1 domain to evaluate on"):
        eqrm.train(frame, "ill", "hospital", **plain, **given)


def test_fits_of_cross_fitting_are_counted() -> None:
    """Seven ways to train for the level, in eight folds."""
    said: list[str] = []
    eqrm.train(hospitals(number=16), "age", "hospital", model="linear", progress=said.append)
    told = [step for step in said if "domains that they have not seen: " in step]
    counts = [f"linear, {number} of 56 fits done" for number in range(1, 57)]
    assert [step.partition(": ")[2] for step in told] == counts


def test_one_level_or_several() -> None:
    frame, plain = hospitals(number=12), {"surrogate": "eqrm", "model": "linear"}
    found = eqrm.train(frame, "ill", "hospital", alpha=0.75, **plain)
    assert [each.alpha.alpha for each in found.decisions] == [0.75]
    with pytest.raises(SettingError, match=r"(?s)levels.*alpha"):
        eqrm.train(frame, "ill", "hospital", levels=0.9)


def test_without_a_terminal_a_line_now_and_then_says_what_is_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown_steps, "SILENCE", 30.0)
    clock = iter([0.0, 1.0, 31.0, 32.0, 70.0])
    monkeypatch.setattr(shown_steps, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with shown_steps.steps_shown(4) as tell:
        for step in ("reading", shown_steps.Inside("fit 1"), "fit 2", "writing"):
            tell(step)
    assert capsys.readouterr().err.splitlines() == ["31 s: fit 1", "70 s: writing"]
