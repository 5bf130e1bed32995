"""frontiers at a tiny size: fits against the estimators, files, intervals, and what is printed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies.frontiers.experiment import Part, PartName, measure_part, study_key
from studies.frontiers.findings import TableFindings, with_auto
from studies.frontiers.fitting import LinearFits, fit_candidates, rows_of
from studies.frontiers.presentation import budgets_table
from studies.frontiers.run import Frontiers
from studies.frontiers.settings import (
    AUTO,
    EMPIRICAL,
    EQRM,
    ERM,
    GAUSSIAN,
    GROUPDRO,
    LIGHTGBM,
    LINEAR,
    MLP,
    PUBLISHED,
    RECALIBRATED,
    SUPERQUANTILE,
    VREX,
    XGBOOST,
    Candidate,
    StudySettings,
)
from studies.frontiers.summary import (
    RECALIBRATED_ERM,
    auto_again,
    auto_by_goal,
    doubtful,
    gains_table,
)
from studies.frontiers.tables import StudySource, StudyTable
from studies.registry import new_study
from studies.split_interval import SplitInterval

from eqrm import QRMClassifier, QRMRegressor
from eqrm.errors import DataFileError, SettingError
from eqrm.estimators.fit_inputs import TrainingRows
from eqrm.level import Level
from studies.frontiers import experiment as experiment_module
from studies.frontiers import run as run_module
from studies.frontiers import tables as tables_module

pytestmark = pytest.mark.xdist_group("frontiers")  # what is prepared once serves all tests

TINY = StudySettings(
    splits=2,
    fresh_splits=0,
    goals=(0.9,),
    steps=20,
    rates=(0.05,),
    step_sizes=(3, None),
    step_levels=(0.75,),
    examples=8,
    rounds=2,
)


def table(name: str, classes: int) -> StudyTable:
    generator = np.random.default_rng(3)
    domains = np.repeat(np.arange(24), 12)
    X = generator.normal(size=(len(domains), 2))
    slopes = np.where(generator.random(24) < 0.8, 1.0, -1.0)
    scores = X[:, 0] + slopes[domains] * X[:, 1] + 0.5 * generator.normal(size=24)[domains]
    y = scores + generator.normal(size=len(domains))
    return StudyTable.of(name, X, (y > 0.0) if classes else y, domains)


def training_rows(classes: int) -> TrainingRows:
    found = table("any", classes)
    return rows_of(found.X, found.y, found.ids, found.classes)


def broken() -> StudyTable:
    raise DataFileError("broken.csv does not exist.")


@pytest.fixture(autouse=True)
def _sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated tables in the place of those of the study."""
    loaders = {
        "labels": partial(table, "labels", 2),
        "numbers": partial(table, "numbers", 0),
        "broken": broken,
    }
    for module in (tables_module, run_module, experiment_module):
        sources = {name: StudySource(load, "simulated") for name, load in loaders.items()}
        monkeypatch.setattr(module, "SOURCES", sources)


@pytest.fixture(scope="module")
def part() -> Part:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment_module, "REPEATS", 1)  # of what is timed
        return measure_part(PartName("labels", LINEAR, 0), table("labels", 2), TINY, 0)


@pytest.mark.parametrize("classes", [0, 2])
@pytest.mark.parametrize(
    ("method", "setting", "parameters"),
    [
        (ERM, None, {"alpha": None}),
        (EQRM, 0.75, {"alpha": 0.75}),
        (GAUSSIAN, 0.75, {"alpha": 0.75, "distribution": "gaussian"}),
        (EMPIRICAL, 0.9, {"alpha": 0.9, "distribution": "empirical"}),
        (SUPERQUANTILE, 0.5, {"alpha": 0.5, "measure": "superquantile"}),
        (GROUPDRO, None, {"measure": "worst"}),
    ],
)
def test_linear_candidates_are_the_estimators(
    classes: int, method: str, setting: float | None, parameters: dict[str, Any]
) -> None:
    rows = training_rows(classes)
    (predict,) = fit_candidates(LINEAR, [Candidate(method, setting)], rows, TINY)
    kind = QRMClassifier if classes else QRMRegressor
    model = kind(**parameters).fit(rows.X, rows.y, groups=rows.groups.ids)
    scores = model.decision_function(rows.X) if classes else model.predict(rows.X)
    np.testing.assert_allclose(predict(rows.X), scores, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("classes", [0, 2])
def test_a_large_penalty_of_vrex_makes_risks_more_equal(classes: int) -> None:
    rows = training_rows(classes)
    weak, strong = fit_candidates(LINEAR, [Candidate(VREX, w) for w in (0.3, 100.0)], rows, TINY)
    fits = LinearFits.of(rows)
    loss = (lambda s: np.logaddexp(0.0, (1 - 2 * rows.y) * s)) if classes else None
    loss = loss or (lambda s: (s - rows.y) ** 2)
    spread = [rows.groups.means(loss(each(rows.X))).std() for each in (weak, strong)]
    assert spread[1] < spread[0]
    assert fits.risks.at(fits.erm).mean > 0.0


@pytest.mark.parametrize("classes", [0, 2])
def test_descent_by_the_exact_gradient_reaches_newtons_minimum(classes: int) -> None:
    fits, settings = LinearFits.of(training_rows(classes)), replace(TINY, steps=300)
    level = Level(0.75)
    exact = fits.descend(level, "implicit", None, settings)
    measure = fits._measure(Candidate(EQRM, 0.75), 24)
    np.testing.assert_allclose(exact, fits.least(measure, None), atol=2e-3)
    published = fits.descend(level, "bisection", None, settings)
    assert np.abs(published - exact).max() > 0.05


def test_two_domains_per_step_have_one_gradient() -> None:
    """The published gradient is exact for two domains (and wrong for more)."""
    fits = LinearFits.of(training_rows(0))
    two = [fits.descend(Level(0.75), g, 2, TINY) for g in ("implicit", "bisection")]
    np.testing.assert_allclose(two[0], two[1], rtol=1e-6)


def test_auto_chooses_what_the_estimator_chooses(part: Part) -> None:
    rows = table("labels", 2)
    train, _ = rows.halves(0, 0)
    model = QRMClassifier(alpha=0.9, surrogate="auto")
    model.fit(rows.X[train], rows.y[train].astype(int), groups=rows.ids[train])
    found = with_auto(part, TINY)
    assert found.chosen[0.9] == Candidate.of(model.surrogate_.chosen, 0.9)
    np.testing.assert_array_equal(found.risks(Candidate(AUTO, 0.9)), part.risks(found.chosen[0.9]))
    assert part.cost is not None
    assert part.cost > 1.0


def test_summaries_count_every_pair_once_and_say_what_does_not_hold(part: Part) -> None:
    whole = with_auto(part, TINY)
    splits = tuple(replace(whole, name=replace(part.name, split=split)) for split in (0, 1))
    found = TableFindings("labels", LINEAR, splits, TINY)
    for against in (ERM, RECALIBRATED_ERM):
        for row in gains_table([found, found], against).rows:
            counts = str(row[1]).split("(")[1].rstrip(")").split("/")
            assert sum(map(int, counts)) == 2
    excess = found.excess(0.9)
    (line,) = auto_by_goal([found, found]).rows
    assert str(line[1]).startswith(f"{100.0 * excess.auto.mean:+.1f}%")
    assert (line[-1] == "holds") == (excess.auto.mean <= min(0.01, excess.plain.mean - 1e-12))


def test_a_doubtful_excess_is_shown_beside_that_of_fresh_splits_and_all() -> None:
    """Auto takes EQRM by its cross-fitted risks; ERM is better on the unseen domains at first."""
    settings = replace(TINY, goals=(0.9,))

    def findings(eqrm: float, splits: range) -> TableFindings:
        parts = []
        for split in splits:
            compared = {Candidate.of(s, 0.9) for s in settings.surrogates(0.9, LINEAR)}
            compared |= {Candidate(ERM), *(Candidate(m, 0.9) for m in RECALIBRATED.values())}
            chosen = Candidate(EQRM, 0.9)
            ordered = sorted(compared, key=str)
            unseen = np.ones((len(ordered), 4))
            unseen[ordered.index(chosen)] = eqrm
            left_out = np.ones((len(ordered), 4))
            left_out[ordered.index(chosen)] = 0.5
            part = replace(made_part(split, unseen, left_out), candidates=tuple(ordered))
            parts.append(with_auto(part, settings))
        return TableFindings("labels", LINEAR, tuple(parts), settings)

    first, fresh = findings(1.05, range(2)), findings(1.01, range(2, 5))
    assert doubtful([first]) == {("labels", LINEAR): (0.9,)}
    assert doubtful([fresh]) == {}
    (row,) = auto_again([first], [fresh]).rows
    assert row[:5] == ["0.9", "labels", "40", "+5.0% ± 0.0 (2)", "+1.0% ± 0.0 (3)"]
    assert str(row[5]).startswith("+2.6% ± ")  # (2 · 5 + 3 · 1) / 5
    assert str(row[5]).endswith(" (5)")
    assert row[6] == "yes"


def test_halves_share_no_domain_and_differ_from_split_to_split() -> None:
    found = table("any", 2)
    masks = [found.halves(split, 0) for split in (0, 1)]
    for train, test in masks:
        assert len(np.unique(found.ids[train])) == len(np.unique(found.ids[test])) == 12
        assert not np.intersect1d(found.ids[train], found.ids[test]).size
    assert (masks[0][0] != masks[1][0]).any()


def test_training_domains_are_thinned_and_unseen_ones_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = []

    def counted(X: Any, y: Any, ids: Any, classes: int) -> TrainingRows:
        sizes.append(np.unique(ids, return_counts=True)[1].tolist())
        return rows_of(X, y, ids, classes)

    monkeypatch.setattr(experiment_module, "rows_of", counted)
    measure_part(PartName("any", LINEAR, 1), table("any", 0), replace(TINY, linear_examples=7), 0)
    assert sizes == [[7] * 12, [12] * 12]


@pytest.mark.parametrize("model", [MLP, XGBOOST, LIGHTGBM])
def test_other_models_have_the_same_methods(model: str) -> None:
    if model != MLP:
        pytest.importorskip(model)
    settings = replace(TINY, steps=3)
    found = measure_part(PartName("numbers", model, 1), table("numbers", 0), settings, 0)
    methods = {candidate.method for candidate in found.candidates}
    assert {ERM, EQRM, PUBLISHED, GAUSSIAN, EMPIRICAL, SUPERQUANTILE, GROUPDRO} <= methods
    assert (VREX in methods) == (model == MLP)
    assert np.isfinite(found.unseen).all()
    assert found.cost is None


def test_parts_are_kept_and_those_of_another_study_are_not_read(part: Part, tmp_path: Path) -> None:
    part.save(tmp_path, "key")
    found = Part.load(part.name, tmp_path, "key")
    assert found is not None
    assert found.candidates == part.candidates
    assert found.steps == part.steps
    np.testing.assert_allclose(found.unseen, part.unseen, rtol=1e-6)
    assert Part.load(part.name, tmp_path, "another") is None
    (tmp_path / part.name.file).write_bytes(b"damaged")
    assert Part.load(part.name, tmp_path, "key") is None


def test_the_number_of_splits_does_not_change_a_part() -> None:
    some = table("any", 2)
    assert study_key(some, TINY, 0) == study_key(some, replace(TINY, splits=20), 0)
    assert study_key(some, TINY, 0) != study_key(some, TINY, 1)
    assert study_key(some, TINY, 0) != study_key(table("any", 0), TINY, 0)


@pytest.mark.slow
def test_a_run_prints_everything_and_a_second_run_computes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(run_module.SIZES, "quick", TINY)
    study = Frontiers(tables="numbers")
    first = study.run(tmp_path, "quick")
    shown = {each.name: each for each in first.outcome.tables}
    details = {"methods", "budgets", "auto", "gradient", "frontiers", "cost"}
    leading = {name for name, each in shown.items() if each.leading}
    assert set(shown) - leading == details
    assert {"gains", "gains-recalibrated", "auto-by-goal", "budgets-summary"} < leading
    assert [row[0] for row in shown["auto-by-goal"].rows] == ["0.9"]
    assert {row[0] for row in shown["methods"].rows} == {"numbers"}
    assert len(first.outcome.checks) == 4
    assert (tmp_path / "frontiers.csv").is_file()
    assert len(list((tmp_path / "parts").iterdir())) == 2

    wanted: list[Any] = []
    monkeypatch.setattr(run_module, "run_jobs", lambda jobs, *rest: wanted.extend(jobs))
    second = study.run(tmp_path, "quick")
    assert not wanted
    assert second.outcome.tables == first.outcome.tables


def test_skipped_tables_are_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, part: Part, tmp_path: Path
) -> None:
    monkeypatch.setitem(run_module.SIZES, "quick", replace(TINY, splits=1))
    (tmp_path / "parts").mkdir()
    part.save(tmp_path / "parts", study_key(table("labels", 2), TINY, 0))
    report = Frontiers(tables=["labels", "broken"]).run(tmp_path, "quick")
    (skipped,) = [text for text in report.outcome.remarks if text.startswith("Skipped")]
    assert "broken.csv does not exist" in skipped


def test_unknown_tables_and_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="Did you mean 'labels'"):
        Frontiers(tables="label").run(tmp_path)
    with pytest.raises(SettingError, match="workers"):
        new_study("frontiers", worker=2)


def test_intervals_account_for_overlapping_splits() -> None:
    values = np.array([0.01, 0.03, 0.02, 0.06])
    found = SplitInterval.of(values, test_to_train=1.0)
    assert found.mean == pytest.approx(0.03)
    # t(.975; 3) = 3.18245; the variance is multiplied by 1/4 + 1
    assert found.half == pytest.approx(3.182446 * values.std(ddof=1) * (0.25 + 1.0) ** 0.5)
    assert found.word == "tie"
    assert SplitInterval.average(
        [SplitInterval(0.0, 0.3), SplitInterval(0.1, 0.4)]
    ) == SplitInterval(0.05, 0.25)
    one_source = SplitInterval.average(
        [SplitInterval(0.0, 0.3), SplitInterval(0.1, 0.4)], ["flights", "flights"]
    )
    assert one_source.half == pytest.approx(0.35)


def made_part(split: int, unseen: Any, cross_fitted: Any) -> Part:
    candidates = (Candidate(ERM), Candidate(EQRM, 0.75), Candidate(EQRM, 0.9), Candidate(PUBLISHED))
    name = PartName("made", LINEAR, split)
    rows = [np.repeat(np.asarray(each, dtype=float), 10, axis=1) for each in (unseen, cross_fitted)]
    return Part(name, candidates, rows[0], rows[1], (), np.empty((0, 10)), None, 0.0)


def test_budgets_are_kept_by_cross_fitted_means_alone() -> None:
    """Within 5% only EQRM at .75 is allowed, though .9 would be better on unseen domains."""
    seen = [[1.0], [1.04], [1.2], [3.0]]
    parts = tuple(made_part(s, [[1.0], [0.95 + 0.01 * s], [0.8], [3.0]], seen) for s in (0, 1))
    found = TableFindings("made", LINEAR, parts, TINY)
    assert found.chosen(EQRM, 0.9, 0.05) == [1, 1]
    within = found.within(EQRM, 0.9, 0.05)
    assert within is not None
    assert within.quantile.mean == pytest.approx(-0.045)
    assert within.reached == 2
    shown = {row[1]: row[2:] for row in budgets_table([found]).rows}
    assert shown[PUBLISHED] == ["not reached"] * 4
    assert shown[EQRM][:2] == ["not reached"] * 2
    assert str(shown[EQRM][2]).startswith("-4.5% ±")
