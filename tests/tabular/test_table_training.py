"""Training on a table: what is said about each level agrees with the numbers underneath."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats.mstats import hdquantiles
from sklearn.metrics import r2_score, roc_auc_score

from eqrm.errors import DataFileError, SettingError
from eqrm.estimators.model_files import save_model
from eqrm.evaluation.measuring.skill import skill_of_classes, skill_of_numbers
from eqrm.level import Level
from eqrm.risks import MeasuredRisks
from eqrm.tabular.comparison import TrainingComparison, compare_training
from eqrm.tabular.model import (
    MODELS,
    TableModel,
    load_table_model,
    new_estimator,
    save_table_model,
)
from eqrm.tabular.output import write_training
from eqrm.tabular.plan import TrainingPlan
from eqrm.tabular.training import TableTraining, train_on_table
from eqrm.tabular.verdict import HELPS, NOTHING
from eqrm.tabular.wording import answer_in_words, in_words, level_table
from tabular.shifting_world import some, told, world

pytestmark = [
    pytest.mark.xdist_group("table-training"),  # what is prepared once serves all tests
    pytest.mark.usefixtures("no_figure"),
]

QUICK = {
    "linear": {},
    "mlp": {"hidden": [8], "erm_steps": 40, "steps": 30},
    "xgboost": {"n_estimators": 15, "max_depth": 2},
    "lightgbm": {"n_estimators": 15, "num_leaves": 4},
}


def written(
    training: TableTraining, folder: Path, compared: TrainingComparison | None = None
) -> None:
    compared = compared or compare_training(training)
    write_training(training, compared, folder, command="eqrm train")


@pytest.fixture(scope="module")
def training() -> TableTraining:
    return train_on_table(*world(seed=2, spread=1.2).split(0.5), TrainingPlan.of([0.5, 0.9]))


@pytest.fixture(scope="module")
def compared(training: TableTraining) -> TrainingComparison:
    return compare_training(training)


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("model", "task"),
    [
        *((model, "classification") for model in MODELS),
        ("linear", "regression"),
        *(
            pytest.param(model, "regression", marks=pytest.mark.full)
            for model in MODELS
            if model != "linear"
        ),
    ],
)
def test_every_model_is_trained_saved_and_loaded_alike(
    model: str, task: str, tmp_path: Path
) -> None:
    if model in ("xgboost", "lightgbm"):
        pytest.importorskip(model)
    train, test = some(world()).split(0.5)
    plan = TrainingPlan.of([0.9], model=model, task=task, settings=QUICK[model], surrogate="none")
    found = train_on_table(train, test, plan)
    assert list(found.models) == ["ERM", "ERM recalibrated for 0.9", "α = 0.9"]
    assert found.evaluation.loss == ("log-loss" if task == "classification" else "squared")
    constant = np.log(2) if task == "classification" else test.target.var()
    assert found.evaluation["ERM"].risks.mean() < 0.95 * constant
    for name, trained in found.models.items():
        path = tmp_path / "model.safetensors"
        save_table_model(trained, path)
        again = load_table_model(path)
        assert again.level == trained.level
        before, after = trained.predict(test.columns), again.predict(test.columns)
        assert list(before) == list(after), name
        for column in before:
            np.testing.assert_array_equal(before[column], after[column])
    shared = found.models["α = 0.9"]
    data = shared.preprocessor.encode(train)
    alone = new_estimator(model, shared.preprocessor.task, Level(0.9), 0, QUICK[model])
    matrix = shared.preprocessor.encoder.transform(train.columns)
    alone.fit(matrix, data.y.double().numpy(), groups=train.domains)
    expected = TableModel(alone, shared.preprocessor, shared.level).predict(test.columns)
    for column, values in shared.predict(test.columns).items():
        np.testing.assert_array_equal(values, expected[column], err_msg=column)


def test_several_classes_have_a_probability_each() -> None:
    train, test = some(world(classes=3)).split(0.5)
    found = train_on_table(train, test, TrainingPlan.of([0.9], task="classification"))
    predicted = found.models["α = 0.9"].predict(test.columns)
    assert list(predicted) == ["prediction", "p_0", "p_1", "p_2"]
    total = predicted["p_0"] + predicted["p_1"] + predicted["p_2"]
    np.testing.assert_allclose(total, 1.0)
    own = np.choose(test.target.astype(int), [predicted[f"p_{k}"] for k in range(3)])
    ids = np.unique(test.domains, return_inverse=True)[1]
    risks = np.bincount(ids, -np.log(own)) / np.bincount(ids)
    np.testing.assert_allclose(found.evaluation["α = 0.9"].risks, risks)


def test_references_stand_beside_every_level(training: TableTraining) -> None:
    names = ["ERM", "ERM recalibrated for 0.5", "α = 0.5", "ERM recalibrated for 0.9", "α = 0.9"]
    assert list(training.models) == names
    assert list(training.evaluation.predictors) == [*names, "base rate", "equal odds"]
    np.testing.assert_allclose(training.evaluation["equal odds"].risks, np.log(2.0))
    skills = training.skills
    assert skills["base rate"].ranking == pytest.approx(0.5)
    assert skills["ERM"].ranking == pytest.approx(skills["ERM recalibrated for 0.9"].ranking)
    assert skills["ERM"].calibration_error < skills["equal odds"].calibration_error + 0.05


def test_skill_is_scikit_learns(training: TableTraining) -> None:
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


def test_the_words_say_what_the_numbers_say(
    training: TableTraining, compared: TrainingComparison
) -> None:
    words, first = " ".join(in_words(training, compared).split()), compared.first
    assert first is not None
    assert first.level == Level(0.9)
    assert first.verdict is not None
    assert first.verdict.kind == HELPS  # the slope of a feature differs between domains
    assert " ".join(first.verdict.sentence.split()) in words
    risks = training.evaluation
    unseen = {
        "ERM recalibrated for 0.9": first.choice.of(first.choice.recalibrated),
        "α = 0.9": first.choice.of(first.choice.trained),
    }
    both = [np.concatenate([left_out, risks[n].risks]) for n, left_out in unseen.items()]
    recalibrated, trained = (hdquantiles(values, [0.9])[0] for values in both)
    assert first.verdict.trained.change == pytest.approx(trained / recalibrated - 1.0, rel=1e-6)
    assert f"Chosen for α = 0.9 on training domains alone: {first.recommended!r}" in words
    assert "0.9: nine of ten domains are estimated" in words
    own = first.certificates[first.recommended]
    assert not isinstance(own, str)
    assert own.sentence in words


def test_a_method_has_one_quantile_in_all_tables(
    training: TableTraining, compared: TrainingComparison
) -> None:
    result = compared.first
    assert result is not None
    place = [s.level for s in compared.table.statistics].index(result.level)
    rows = {
        line.split("  ")[0]: line.split() for line in level_table(training, result).splitlines()
    }
    for name in ("ERM", "ERM recalibrated for 0.9", "α = 0.9"):
        value = hdquantiles(training.evaluation[name].risks, [0.9])[0]
        assert compared.table.cells[name][place].value == pytest.approx(value)
        assert f"{value:.4g}" in rows[name]
        difference = [d for d in compared.summary.differences.get(name, []) if d.level == 0.9]
        assert all(d.second == pytest.approx(value) for d in difference[:1])
    assert in_words(training, compared).count("Harrell–Davis") == 1


def test_the_words_say_which_domains_are_unseen_and_who_is_dearer_than_a_constant(
    training: TableTraining, compared: TrainingComparison
) -> None:
    words = " ".join(in_words(training, compared).split())
    assert "Unseen domains are the 110 held-out ones and the 110 training domains" in words
    means = {name: one.risks.mean() for name, one in training.evaluation.predictors.items()}
    dear = {
        name: MeasuredRisks.of(r.domains, r.counts, r.risks + 1.0, r.variances)
        for name, r in training.evaluation.predictors.items()
        if "recalibrated" in name
    }
    judged = replace(training.evaluation, predictors={**training.evaluation.predictors, **dear})
    words = told(replace(training, evaluation=judged))
    constant = min(("base rate", "equal odds"), key=means.__getitem__)
    assert (
        "'ERM recalibrated for 0.5' and 'ERM recalibrated for 0.9' have a higher mean risk than "
        f"the constant '{constant}' ({means[constant]:.4g}): where the mean matters, use 'ERM'"
    ) in words


def test_advice_names_the_lowest_mean_and_one_model_for_a_level(training: TableTraining) -> None:
    changed = {"α = 0.9": 1.0, "ERM recalibrated for 0.5": -0.1}
    dear = {
        name: MeasuredRisks.of(r.domains, r.counts, r.risks + by, r.variances)
        for name, by in changed.items()
        for r in [training.evaluation[name]]
    }
    judged = replace(training.evaluation, predictors={**training.evaluation.predictors, **dear})
    other = replace(training, evaluation=judged)
    compared = compare_training(other)
    words = " ".join(in_words(other, compared).split())
    assert "where the mean matters, use 'ERM recalibrated for 0.5'" in words
    open_question = compared.results[-1]
    assert open_question.verdict is not None
    decided = replace(open_question, verdict=replace(open_question.verdict, kind=NOTHING))
    told_open, told_decided = (
        answer_in_words(other, compared, result) for result in (open_question, decided)
    )
    assert told_open.endswith("'ERM recalibrated for 0.9': use 'ERM recalibrated for 0.9'.")
    assert "Use the simplest" in told_decided
    assert told_decided.endswith("'ERM', 'ERM recalibrated for 0.9'.")


def test_extreme_levels_are_trained_said_and_written(tmp_path: Path) -> None:
    plan = TrainingPlan.of([Level.parse("1-e^-1000")], surrogate="none")
    found = train_on_table(*some(world()).split(0.5), plan)
    words = told(found)
    assert "α = 1-e^-1000" in words
    assert "No certificate" in words
    written(found, tmp_path / "out")
    model = load_table_model(tmp_path / "out" / "models" / "alpha-1-e-1000.safetensors")
    assert model.level == Level(log_tail=-1000)


def test_other_measures_are_trained_said_and_written(tmp_path: Path) -> None:
    parts = some(world()).split(0.5)
    found = train_on_table(*parts, TrainingPlan.of([0.8], measure="superquantile"))
    estimator = found.models["α = 0.8"].estimator
    worst = np.sort(estimator.domain_risks_)[-6:]  # of 30 domains
    assert estimator.quantile_risk_ == pytest.approx(worst.mean(), rel=1e-12)
    assert "the mean risk of the worst share 1−α of the training domains" in told(found)
    found = train_on_table(*parts, TrainingPlan.of(measure="worst"))
    assert list(found.models) == ["ERM", "worst"]
    assert "'worst' minimises the largest risk of the training domains." in told(found)
    written(found, tmp_path / "out")
    model = load_table_model(tmp_path / "out" / "models" / "worst.safetensors")
    assert model.level == Level(1.0)
    assert model.estimator.measure == "worst"
    found = train_on_table(*parts, TrainingPlan.of(measure="mean"))
    assert list(found.models) == ["ERM"]
    assert "Only ERM was trained" in told(found)
    written(found, tmp_path / "out")
    with pytest.raises(SettingError, match="'worst' has no level: leave out alpha"):
        TrainingPlan.of([0.9], measure="worst")
    with pytest.raises(SettingError, match=r"Unknown measure 'cvar'"):
        TrainingPlan.of([0.9], measure="cvar")


def test_an_interruption_keeps_and_judges_the_models_that_are_ready() -> None:
    def interrupted_at(name: str) -> Callable[[str], None]:
        def progress(what: str) -> None:
            if what == f"training {name}":
                raise KeyboardInterrupt

        return progress

    parts, plan = some(world()).split(0.5), TrainingPlan.of([0.5, 0.9], surrogate="none")
    found = train_on_table(*parts, plan, interrupted_at("α = 0.9"))
    assert list(found.models) == ["ERM", "ERM recalibrated for 0.5", "α = 0.5"]
    assert found.levels == (Level(0.5),)
    assert "Interrupted: α = 0.9 and the levels after it" in told(found)
    with pytest.raises(KeyboardInterrupt):
        train_on_table(*parts, plan, interrupted_at("α = 0.5"))


def test_a_model_without_its_columns_is_refused(training: TableTraining, tmp_path: Path) -> None:
    bare = tmp_path / "bare.safetensors"
    save_model(training.models["ERM"].estimator, bare)
    with pytest.raises(DataFileError, match="without the columns of a table"):
        load_table_model(bare)


def test_only_listed_files_inside_the_folder_are_replaced(
    training: TableTraining, compared: TrainingComparison, tmp_path: Path
) -> None:
    kept, folder = tmp_path / "kept.txt", tmp_path / "out"
    kept.write_text("mine")
    written(training, folder, compared)
    listed = {"written by": "eqrm train", "files": ["../kept.txt", "summary.txt"]}
    (folder / "files.json").write_text(json.dumps(listed))
    written(training, folder, compared)
    assert kept.read_text() == "mine"
    assert (folder / "summary.txt").is_file()
    outside = tmp_path / "a-file"
    outside.write_text("x")
    with pytest.raises(SettingError, match="is a file"):
        written(training, outside, compared)


@pytest.mark.parametrize("list_of_another", ['["precious.txt"]', "{damaged", '{"files": []}'])
def test_a_folder_of_somebody_else_is_refused_and_left_alone(
    list_of_another: str, training: TableTraining, compared: TrainingComparison, tmp_path: Path
) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    (tmp_path / "files.json").write_text(list_of_another)
    with pytest.raises(SettingError, match="contains other files"):
        written(training, tmp_path, compared)
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_what_was_there_stays_until_a_training_is_written(
    training: TableTraining, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    written(training, folder)
    (folder / ".0123456789abcdef").mkdir()  # what a training that was killed left
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    with monkeypatch.context() as full:
        full.setattr("eqrm.tabular.output.save_table_model", _no_space)
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
