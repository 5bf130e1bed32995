"""Training on a table: what is said about each level agrees with the numbers underneath."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats.mstats import hdquantiles
from sklearn.metrics import r2_score, roc_auc_score

from eqrm.errors import SettingError
from eqrm.estimators.boosting.rounds import tree_settings
from eqrm.evaluation.measuring.measured import skill_of_classes, skill_of_numbers
from eqrm.level import Level
from eqrm.tabular.model import (
    TableModel,
    load_table_model,
    new_estimator,
    save_table_model,
)
from eqrm.tabular.plan import TrainingPlan
from eqrm.tabular.result import TrainingResult
from eqrm.tabular.training import TableTraining
from eqrm.tabular.wording import models_table
from tabular.shifting_world import plan_of, some, told, trained_on, world

pytestmark = [
    pytest.mark.xdist_group("table-training"),  # what is prepared once serves all tests
    pytest.mark.usefixtures("no_figure"),
]

QUICK = {
    "linear": {},
    "mlp": {"hidden": [8], "erm_steps": 40, "steps": 30},
    "xgboost": {"n_estimators": 15, "max_depth": 2, "n_jobs": 1},
    "lightgbm": {"n_estimators": 15, "num_leaves": 4, "n_jobs": 1},
}
FAMILY = {"linear": "logistic", "mlp": "network"}


def written(training: TableTraining, folder: Path) -> None:
    TrainingResult.of(training, command="eqrm train").save(folder)


@pytest.fixture(scope="module")
def training() -> TableTraining:
    return trained_on(some(world(seed=2, spread=1.2), 100), plan_of([0.5, 0.9]))


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("model", "task"),
    [
        *((model, "classification") for model in ("linear", "mlp", "lightgbm")),
        pytest.param("xgboost", "classification", marks=pytest.mark.full),
        ("linear", "regression"),
    ],
)
def test_every_model_is_trained_saved_and_loaded_alike(
    model: str, task: str, tmp_path: Path
) -> None:
    if model in ("xgboost", "lightgbm"):
        pytest.importorskip(model)
    train, test = some(world(), 40).split(0.5)
    family = FAMILY.get(model, "boosted trees")
    if (model, task) == ("linear", "regression"):
        family = "linear"
    settings = {"model": model, "task": task, "settings": QUICK[model], "surrogate": "none"}
    found = trained_on(train, plan_of([0.9], **settings, refit="all"))
    names = {f"{family}, {way}" for way in ("plain", "recalibrated for 9 in 10")}
    own = f"{family}, trained for 9 in 10"
    assert set(found.models) == names | {own}
    assert found.evaluation.loss == ("log-loss" if task == "classification" else "squared")
    constant = np.log(2) if task == "classification" else test.target.var()
    assert found.evaluation[f"{family}, plain"].risks.mean() < 0.95 * constant
    for trained in found.models.values():
        save_table_model(trained, tmp_path / "model.safetensors")
        again = load_table_model(tmp_path / "model.safetensors")
        assert again.level == trained.level
        np.testing.assert_equal(again.predict(test.columns), trained.predict(test.columns))
    shared = found.models[own]
    data = shared.preprocessor.encode(train)
    own_settings = {**tree_settings(model, len(train), bool(train.categories)), **QUICK[model]}
    alone = new_estimator(model, shared.preprocessor.task, Level(0.9), 0, own_settings)
    matrix = shared.preprocessor.encoder.transform(train.columns)
    alone.fit(matrix, data.y.double().numpy(), groups=train.domains)
    expected = TableModel(alone, shared.preprocessor, shared.level).predict(test.columns)
    np.testing.assert_equal(shared.predict(test.columns), expected)


def test_several_classes_have_a_probability_each() -> None:
    train, test = some(world(classes=3)).split(0.5)
    plan = plan_of([0.9], task="classification", refit="all")
    found = trained_on(train, plan, test)
    name = "logistic, trained for 9 in 10"
    predicted = found.models[name].predict(test.columns)
    assert list(predicted) == ["prediction", "p_0", "p_1", "p_2"]
    total = predicted["p_0"] + predicted["p_1"] + predicted["p_2"]
    np.testing.assert_allclose(total, 1.0)
    own = np.choose(test.target.astype(int), [predicted[f"p_{k}"] for k in range(3)])
    ids = np.unique(test.domains, return_inverse=True)[1]
    risks = np.bincount(ids, -np.log(own)) / np.bincount(ids)
    assert found.aside is not None
    np.testing.assert_allclose(found.aside[name].risks, risks)


def test_skill_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    labels, probabilities = rng.integers(0, 3, 300), rng.dirichlet(np.ones(3), 300).round(2)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    found = skill_of_classes(labels, probabilities)
    assert found.ranking == pytest.approx(roc_auc_score(labels, probabilities, multi_class="ovr"))
    assert found.accuracy == pytest.approx((probabilities.argmax(axis=1) == labels).mean())
    two = skill_of_classes(labels == 1, probabilities[:, [0, 1]])
    assert two.ranking == pytest.approx(roc_auc_score(labels == 1, probabilities[:, 1]))
    numbers = skill_of_numbers(labels.astype(float), probabilities[:, 0])
    assert numbers.ranking == pytest.approx(r2_score(labels, probabilities[:, 0]))


def test_a_model_has_one_quantile_in_all_tables(training: TableTraining) -> None:
    """Harrell–Davis estimates; that of a decision is corrected for the choice, and says so."""
    output = TrainingResult.of(training)
    place = [s.level for s in output.table.statistics].index(Level(0.9))
    lines = models_table(training).splitlines()
    rows = {line[2:].split("  ")[0]: line.split() for line in lines[1:]}
    for name in (training.decision.chosen, "logistic, plain", "logistic, recalibrated for 9 in 10"):
        value = hdquantiles(training.evaluation[name].risks, [0.9])[0]
        assert output.table.cells[name][place].value == pytest.approx(value)
        assert f"{value:.3f}" in rows[name]
    decision = training.decision
    assert decision.plain_quantile == pytest.approx(
        hdquantiles(training.evaluation[decision.plain].risks, [0.9])[0]
    )
    assert f"{decision.quantile:.3f}" not in rows[decision.chosen]
    assert "corrected for choosing by them" in lines[-1]
    assert f"{training.evaluation[decision.chosen].risks.mean():.3f}" in rows[decision.chosen]
    assert f"{training.evaluation[decision.chosen].risks.max():.3f}" in rows[decision.chosen]


def test_the_words_say_what_the_numbers_say(training: TableTraining) -> None:
    words, decision = told(training), training.decision
    assert decision.alpha == Level(0.9)
    assert decision.chosen == "logistic, trained for 9 in 10"  # the slope differs between domains
    assert decision.sureness.value == "clear"
    assert "Use: logistic, trained for 9 in 10 (clearly better than logistic, plain:" in words
    risks = training.evaluation[decision.chosen].risks
    before = hdquantiles(training.evaluation[decision.plain].risks, [0.9])[0]
    assert decision.change == pytest.approx(decision.quantile / before - 1.0)
    assert decision.quantile >= hdquantiles(risks, [0.9])[0] - 1e-12  # less what choosing gained
    assert f"below an estimated {decision.quantile:.3f} instead of {before:.3f} (" in words
    assert f"({decision.change:+.0%}, 95% interval " in words
    own = training.evaluation.certificate(0.9, model=decision.chosen)
    assert not own.proven
    assert own.sentence in words
    up = np.ceil(1000.0 * own.bound - 1e-9) / 1000.0
    assert f"Expect 9 in 10 similar new domains at most {up:.3f} (95% bound, cross-fitted" in words
    worst = np.argsort(-risks)[:3]
    named = ", ".join(f"{training.evaluation.domains[i]} {risks[i]:.3f}" for i in worst)
    assert f"Look at {named}: the highest risks" in words


def test_extreme_levels_are_trained_said_and_written(tmp_path: Path) -> None:
    plan = plan_of([Level.parse("1-e^-1000")], surrogate="none", refit="all")
    found = trained_on(some(world(), 40), plan)
    words = told(found)
    assert "1-e^-1000 of new domains below" in words
    assert "Expect no bound on the risk of new domains" in words
    written(found, tmp_path / "out")
    name = "logistic-trained-for-1-e-1000.safetensors"
    model = load_table_model(tmp_path / "out" / "models" / name)
    assert model.level == Level(log_tail=-1000)


def test_other_measures_are_trained_said_and_written(tmp_path: Path) -> None:
    table = some(world(), 30)
    found = trained_on(table, plan_of([0.8], measure="superquantile"))
    name = "logistic, trained for 8 in 10"
    estimator = found.models[name].estimator
    worst = np.sort(estimator.domain_risks_)[-6:]  # of 30 domains
    assert estimator.quantile_risk_ == pytest.approx(worst.mean(), rel=1e-12)
    assert f"Use: {name} (as asked for)" in told(found)
    assert "superquantile at 0.8" in told(found)
    found = trained_on(table, plan_of(measure="worst"))
    name = "logistic, trained for the worst"
    assert set(found.models) == {"logistic, plain", name}
    largest = found.evaluation[name].risks.max()
    assert f"Use: {name} (as asked for) the worst of 30 domains at {largest:.3f}" in told(found)
    assert "none is possible for the worst of all new domains; certify" in told(found)
    written(found, tmp_path / "out")
    file = "logistic-trained-for-the-worst.safetensors"
    model = load_table_model(tmp_path / "out" / "models" / file)
    assert model.level == Level(1.0)
    assert model.estimator.measure == "worst"
    found = trained_on(table, plan_of(measure="mean"))
    assert list(found.models) == ["logistic, plain"]
    assert "Use: logistic, plain (as asked for) 9 in 10 new domains below" in told(found)
    written(found, tmp_path / "out")
    with pytest.raises(SettingError, match="'worst' has no level: leave out alpha"):
        TrainingPlan.of([0.9], measure="worst")
    with pytest.raises(SettingError, match=r"Unknown measure 'cvar'"):
        TrainingPlan.of([0.9], measure="cvar")


def test_only_listed_files_inside_the_folder_are_replaced(
    training: TableTraining, tmp_path: Path
) -> None:
    kept, folder = tmp_path / "kept.txt", tmp_path / "out"
    kept.write_text("mine")
    written(training, folder)
    listed = {"written by": "eqrm train", "files": ["../kept.txt", "summary.txt"]}
    (folder / "files.json").write_text(json.dumps(listed))
    written(training, folder)
    assert kept.read_text() == "mine"
    assert (folder / "summary.txt").is_file()
    outside = tmp_path / "a-file"
    outside.write_text("x")
    with pytest.raises(SettingError, match="is a file"):
        written(training, outside)


def test_a_folder_of_somebody_else_is_refused_and_left_alone(
    training: TableTraining, tmp_path: Path
) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    (tmp_path / "files.json").write_text('{"files": []}')
    with pytest.raises(SettingError, match="contains other files"):
        written(training, tmp_path)
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_what_was_there_stays_until_a_training_is_written(
    training: TableTraining, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    written(training, folder)
    (folder / ".0123456789abcdef").mkdir()  # what a training that was killed left
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    with monkeypatch.context() as full:
        full.setattr("eqrm.tabular.result.save_table_model", _no_space)
        with pytest.raises(OSError, match="No space left"):
            written(training, folder)
    assert before == {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()}
    listing = json.loads((folder / "files.json").read_text())
    listing["files"].append("models/stale.safetensors")
    (folder / "models" / "stale.safetensors").touch()
    (folder / "files.json").write_text(json.dumps(listing))
    written(training, folder)
    assert {path for path in folder.rglob("*") if path.is_file()} == set(before)


def _no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
