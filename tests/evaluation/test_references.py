"""References of an evaluation against scikit-learn, loops over domains, and worlds with a truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score

import eqrm
from eqrm import Level
from eqrm.evaluation import references as module
from eqrm.evaluation.measuring import measurement_spec
from eqrm.evaluation.presenting.summary import summarised
from eqrm.evaluation.references import References
from eqrm.linear.recalibration import recalibrate
from eqrm.linear.scored_rows import ScoredRows

Array = NDArray[np.float64]


def rows(domains: int = 40, each: int = 60, spread: float = 0.5, seed: int = 0) -> pd.DataFrame:
    """Predictions that are fair on average, and three times as sure; base rates vary."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(each // 2, 2 * each, domains)
    day = np.repeat(np.arange(domains), sizes)
    x, own = rng.normal(size=len(day)), spread * rng.normal(size=domains)[day]
    chance = 1.0 / (1.0 + np.exp(-(1.5 * x + own)))
    return pd.DataFrame(
        {
            "day": day,
            "y": (rng.random(len(day)) < chance).astype(int),
            "sure": 1.0 / (1.0 + np.exp(-4.5 * x)),
            "fair": 1.0 / (1.0 + np.exp(-1.5 * x)),
            "number": 10.0 + 2.0 * x + 3.0 * own,
            "guess": 4.0 * x,
        }
    ).sample(frac=1.0, random_state=0)


def found(frame: Any, **given: Any) -> eqrm.Evaluation:
    given = {"target": "y", "predictions": ["sure", "fair"], "references": True, **given}
    return eqrm.evaluate(frame, domains="day", **given)


def references(frame: Any, **given: Any) -> References:
    evaluation = found(frame, **given)
    assert evaluation.references is not None
    return evaluation.references


def loss_of(metric: str, y: Array, p: float) -> Array:
    if metric == "log-loss":
        return -np.log(np.where(y == 1, p, 1.0 - p))
    if metric == "0-1":
        return ((p >= 0.5) != (y == 1)).astype(float)
    return (y - p) ** 2


@pytest.mark.parametrize("source", ["frame", "parquet"])
@pytest.mark.parametrize("metric", ["log-loss", "brier", "0-1", "squared"])
def test_constants_are_the_mean_of_all_rows_of_other_domains(
    metric: str, source: str, tmp_path: Path
) -> None:
    frame = rows(12, 10)
    label, prediction = ("number", "guess") if metric == "squared" else ("y", "fair")
    data: Any = frame
    if source == "parquet":
        frame.to_parquet(data := tmp_path / "rows.parquet")
    got = references(data, target=label, predictions=prediction, metric=metric)
    name = "constant (mean)" if metric == "squared" else "constant (base rate)"
    for place, (day, own) in enumerate(frame.groupby("day")):
        rest = frame[frame.day != day][label].mean()
        losses = loss_of(metric, own[label].to_numpy(float), rest)
        risks = got.risks[name]
        assert risks.risks[place] == pytest.approx(losses.mean(), rel=1e-12)
        if metric != "squared":
            assert risks.variances[place] == pytest.approx(losses.var(ddof=1), rel=1e-9)
    if metric in ("log-loss", "brier"):
        even = {"log-loss": np.log(2.0), "brier": 0.25}[metric]
        assert got.risks["constant (50/50 guess)"].risks == pytest.approx(np.full(12, even))


@pytest.mark.parametrize("source", ["frame", "parquet"])
def test_skill_is_that_of_scikit_learn(source: str, tmp_path: Path) -> None:
    frame = rows()
    frame.to_parquet(path := tmp_path / "rows.parquet")
    data = frame if source == "frame" else path
    got = references(data).skills
    for name in ("sure", "fair"):
        assert got[name].ranking == pytest.approx(roc_auc_score(frame.y, frame[name]), rel=1e-12)
        assert got[name].accuracy == pytest.approx(accuracy_score(frame.y, frame[name] > 0.5))
    assert got["sure"].calibration_error > 0.1 > 0.05 > got["fair"].calibration_error  # type: ignore[operator]
    assert got["constant (base rate)"].ranking == 0.5
    majority = max(frame.y.mean(), 1.0 - frame.y.mean())
    assert got["constant (base rate)"].accuracy == pytest.approx(majority, abs=0.02)
    numbers = references(data, target="number", predictions="guess", metric="squared").skills
    assert numbers["guess"].ranking == pytest.approx(r2_score(frame.number, frame.guess))
    assert -0.05 < numbers["constant (mean)"].ranking < 0.0  # of other domains


def test_recalibration_is_fitted_to_other_folds_of_whole_domains() -> None:
    frame = rows().sort_values("day", kind="stable")
    got = references(frame, predictions="sure").risks["sure recalibrated"].risks
    folds = np.random.default_rng(0).permutation(40) % module.FOLDS
    p = frame["sure"].clip(1e-7, 1.0 - 1e-7)
    logits = np.log(p / (1.0 - p)).to_numpy()
    y, day = frame.y.to_numpy(), frame.day.to_numpy()
    for fold in range(module.FOLDS):
        kept = folds[day] != fold
        ids = np.unique(day[kept], return_inverse=True)[1]
        correction = recalibrate(ScoredRows.of(logits[kept], y[kept], 2, ids), Level(0.9))
        for out in np.flatnonzero(folds == fold):
            own = 1.0 / (1.0 + np.exp(-correction(logits[day == out])))
            assert got[out] == pytest.approx(log_loss(y[day == out], own, labels=[0, 1]), rel=1e-6)


@pytest.mark.parametrize("form", ["lists", "a column per class", "arrays"])
def test_several_classes(form: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    day = np.repeat(np.arange(20), 40)
    scores = rng.normal(size=(800, 3)) * 2.0
    label = (scores / 3.0 + rng.gumbel(size=scores.shape)).argmax(axis=1)
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    given: dict[str, Any] = {"target": "y", "references": True, "domains": "day"}
    frame = pd.DataFrame({"day": day, "y": label, "p": list(p)})
    path = tmp_path / "rows.parquet"
    if form == "arrays":
        given |= {"domains": day, "target": label, "predictions": {"p": p}}
        got = eqrm.evaluate(**given).references
    else:
        if form == "lists":
            frame.to_parquet(path)
        else:
            wide = pd.DataFrame({f"p_{k}": p[:, k] for k in range(3)})
            pd.concat([frame[["day", "y"]], wide], axis=1).to_parquet(path)
        column = "p" if form == "lists" else "p_{class}"
        got = eqrm.evaluate(path, predictions={"p": column}, **given).references
    assert got is not None
    wanted = roc_auc_score(label, p, multi_class="ovr", average="macro")
    assert got.skills["p"].ranking == pytest.approx(wanted, rel=1e-12)
    assert got.skills["p"].accuracy == pytest.approx((p.argmax(axis=1) == label).mean())
    for out in range(20):
        rest = np.bincount(label[day != out], minlength=3) / (day != out).sum()
        risk = -np.log(rest)[label[day == out]].mean()
        assert got.risks["constant (base rate)"].risks[out] == pytest.approx(risk, rel=1e-12)
    assert got.risks["constant (even guess)"].risks == pytest.approx(np.full(20, np.log(3.0)))
    plain = -np.log(p[np.arange(800), label]).reshape(20, 40).mean(axis=1)
    assert np.quantile(got.risks["p recalibrated"].risks, 0.9) < np.quantile(plain, 0.9)


class TestVerdict:
    def test_a_predictor_that_is_too_sure_is_to_be_recalibrated(self) -> None:
        summary = summarised(found(rows(150), predictions="sure"))
        told = summary.references["sure"]
        assert told.beaten
        assert not told.clear
        assert "Recalibrate it (eqrm recalibrate)." in told.sentence
        assert "above that of 'sure recalibrated' (95% interval +" in told.sentence

    def test_one_that_is_not_is_lower_than_every_reference(self) -> None:
        told = summarised(found(rows(150), predictions="fair")).references["fair"]
        assert told.clear
        assert "Lower than all references but its own recalibration" in told.sentence
        assert "Recalibration changes little" in told.sentence

    def test_a_gain_over_another_predictor_that_recalibration_has_too_is_not_claimed(self) -> None:
        evaluation = found(rows(150))
        text = summarised(evaluation).to_text()
        told = summarised(evaluation).references["fair"]
        assert not told.clear  # 'sure recalibrated' is as low
        assert "At level 0.9 the lower risk of fair is not a clear gain" in text

    def test_noise_is_worse_than_a_constant(self) -> None:
        frame = rows(60).assign(noise=np.random.default_rng(1).random(len(rows(60))))
        told = summarised(found(frame, predictions="noise")).references["noise"]
        assert told.beaten
        assert "on average the constant predicts better" in told.sentence

    def test_few_domains_decide_nothing(self) -> None:
        told = summarised(found(rows(12), predictions="fair")).references["fair"]
        assert told.sentence.startswith("12 domains are too few to compare")


class TestWhatIsMissing:
    def test_losses_and_tables_have_no_references(self) -> None:
        losses = eqrm.evaluate(domains=[0, 0, 1, 1], losses=[0.1, 0.2, 0.3, 0.4], references=True)
        assert losses.references is not None
        assert not losses.references.risks
        assert "only losses are known" in losses.references.notes[0]
        assert "Note: No references" in summarised(losses).to_text()

    def test_classes_as_predictions_have_none(self) -> None:
        frame = rows(12).assign(guess=lambda f: (f.fair > 0.5).astype(int))
        got = references(frame, predictions="guess", metric="0-1")
        assert not got.risks
        assert "predictions are classes" in got.notes[0]

    def test_few_domains_have_constants_only(self) -> None:
        got = references(rows(9))
        assert not got.recalibrates
        assert "constant (base rate)" in got.risks
        assert "needs 10 of them, got 9" in got.notes[0]
        assert "sure" in got.skills

    def test_a_class_in_one_domain_only_is_not_recalibrated(self) -> None:
        frame = rows(12).assign(y=lambda f: (f.day == 3).astype(int))
        got = references(frame)
        assert not got.recalibrates
        assert "occurs in too few domains" in got.notes[0]

    def test_many_rows_have_constants_from_the_group_by(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        frame = rows(12)
        frame.to_parquet(path := tmp_path / "rows.parquet")
        monkeypatch.setattr(measurement_spec, "MOST_BY_DEFAULT", len(frame))
        got = references(path, references=None)
        whole = references(path, references=True)
        assert not got.recalibrates
        assert whole.recalibrates
        name = "constant (base rate)"
        assert got.risks[name].to_dict() == whole.risks[name].to_dict()
        assert f"got {2 * len(frame):,}" in got.notes[0]


def test_files_per_predictor_are_compared_on_common_domains(tmp_path: Path) -> None:
    frame = rows(15)
    frame[["day", "y", "sure"]].rename(columns={"sure": "p"}).to_parquet(tmp_path / "a.parquet")
    part = frame[frame.day != 4].astype({"day": str})
    part[["day", "y", "fair"]].rename(columns={"fair": "p"}).to_csv(tmp_path / "b.csv", index=False)
    got = found(
        {"a": tmp_path / "a.parquet", "b": tmp_path / "b.csv"},
        predictions="p",
        common_domains=True,
    )
    assert got.references is not None
    assert len(got.domains) == 14
    kept = frame[frame.day != 4]
    wanted = references(kept)
    for ours, theirs in (("a", "sure"), ("b", "fair")):
        risks = wanted.risks[f"{theirs} recalibrated"].risks
        assert got.references.risks[f"{ours} recalibrated"].risks == pytest.approx(risks)
    assert got.references.skills["b"].ranking == pytest.approx(roc_auc_score(kept.y, kept.fair))


class TestWhereTheyAreShown:
    def test_every_format_marks_references(self) -> None:
        evaluation = found(rows(12))
        table = evaluation.risk_table(quantiles=[0.5, 0.9], superquantiles=[], worst=0)
        assert "Beside references" in table.to_text()
        assert "AUC" in table.to_text()
        assert "| *sure recalibrated* |" in table.to_markdown()
        assert table.to_latex().count(r"\midrule") == 2
        lines = pd.read_csv(__import__("io").StringIO(table.to_csv()))
        named = set(lines[lines.reference == 1].model)
        assert named == set(evaluation.references.risks)  # type: ignore[union-attr]
        auc = lines[(lines.model == "fair") & (lines.statistic == "AUC")].value.item()
        assert auc == evaluation.references.skills["fair"].ranking  # type: ignore[union-attr]
        assert set(table.to_dict()["references"]) == named
        assert set(table.cells) == {"sure", "fair"}
