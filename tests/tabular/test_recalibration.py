"""From files of predictions to a correction that is judged on domains it was not fitted on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from scipy.stats.mstats import hdquantiles

import eqrm
from eqrm import Recalibrated
from eqrm.errors import DataFileError, DomainDataError, SettingError
from eqrm.evaluation.inference.gains import gain_over
from eqrm.level import Level
from eqrm.tabular.recalibrating.correction_files import SavedCorrection, apply_to_files
from eqrm.tabular.recalibrating.recalibration import (
    CORRECTED,
    GIVEN,
    Recalibration,
    RecalibrationPlan,
    recalibrate_files,
)
from eqrm.tabular.recalibrating.recalibration_words import (
    recalibration_in_words,
)
from tabular.prediction_worlds import numbers, three_classes, two_classes

EARLY = [str(day) for day in range(20)]


def found_in(frame: pd.DataFrame, folder: Path, prediction: str = "p", **settings: Any) -> Any:
    frame.to_parquet(folder / "p.parquet")
    settings = {"test_domains": EARLY, "alpha": Level(0.9), **settings}
    plan = RecalibrationPlan.of(domains=["day"], target="label", prediction=prediction, **settings)
    return recalibrate_files(folder / "p.parquet", plan)


def in_python(frame: pd.DataFrame, columns: Any, **settings: Any) -> Recalibrated:
    seen = frame[frame.day >= 20]
    model = Recalibrated(**settings)
    return model.fit(seen[columns].to_numpy(), seen.label.to_numpy(), groups=seen.day.to_numpy())


def test_files_and_the_estimator_find_the_same_correction(tmp_path: Path) -> None:
    names = ["p_cat", "p_dog", "p_owl"]
    worlds: dict[str, tuple[pd.DataFrame, Any, dict[str, Any]]] = {
        "p": (two_classes(), "p", {}),
        "p_{class}": (three_classes(), names, {}),
        "model=p": (numbers(), "p", {"metric": "squared"}),
    }
    for prediction, (frame, columns, settings) in worlds.items():
        found = found_in(frame, tmp_path, prediction, **settings)
        model = in_python(frame, columns)
        own, other = found.saved.correction, model.correction_
        np.testing.assert_allclose(own.shift, other.shift, rtol=1e-5, atol=1e-6)
        assert own.scale == pytest.approx(other.scale, rel=1e-5)
        new = frame[frame.day < 20]
        risks = model.measured_risks(new[columns].to_numpy(), new.label.to_numpy(), new.day)
        np.testing.assert_allclose(found.judged[CORRECTED].held_out, risks.risks, rtol=1e-5)
        assert found.judged[CORRECTED].fitted.shape == (len(model.domains_),)


def test_lists_of_probabilities_are_classes_by_position(tmp_path: Path) -> None:
    frame = three_classes()
    wanted = found_in(frame, tmp_path, "p_{class}").saved.correction
    lists = frame[["day"]].copy()
    lists["label"] = frame.label.map({"cat": 0, "dog": 1, "owl": 2})
    lists["p"] = frame[["p_cat", "p_dog", "p_owl"]].to_numpy().tolist()
    found = found_in(lists, tmp_path)
    assert found.saved.correction == wanted
    apply_to_files(tmp_path / "p.parquet", found.saved, tmp_path / "out.parquet")
    out = np.stack(pd.read_parquet(tmp_path / "out.parquet").p.to_list())
    np.testing.assert_allclose(out.sum(axis=1), 1.0)
    np.testing.assert_allclose(out, found.saved(np.stack(lists.p.to_list())))


def test_risks_as_given_are_those_of_evaluate_and_the_references_are_constants(
    tmp_path: Path,
) -> None:
    frame = two_classes()
    found = found_in(frame, tmp_path)
    new, seen = frame[frame.day < 20], frame[frame.day >= 20]
    measured = eqrm.evaluate(new, domains="day", target="label", predictions="p")["p"]
    np.testing.assert_allclose(found.judged[GIVEN].held_out, measured.risks, rtol=1e-9)
    rate = seen.groupby("day").label.mean().mean()
    of_rows = -np.log(np.where(new.label == 1, rate, 1.0 - rate))
    constant = pd.Series(of_rows, new.index).groupby(new.day).mean()
    np.testing.assert_allclose(found.judged["base rate"].held_out, constant, rtol=1e-9)
    np.testing.assert_allclose(found.judged["50/50 guess"].held_out, np.log(2.0))
    both = {GIVEN: found.judged[GIVEN].held_out, CORRECTED: found.judged[CORRECTED].held_out}
    assert found.gain == gain_over(both, CORRECTED, GIVEN, Level(0.9), 0.95)
    assert found.gain.change < 0.0
    given, own = (hdquantiles(risks, [0.9])[0] for risks in both.values())
    assert found.gain.change == pytest.approx(own / given - 1.0)
    assert found.judged[GIVEN].statistics(Level(0.9))[3] == pytest.approx(given)


def test_domains_are_drawn_by_share_named_or_later(tmp_path: Path) -> None:
    frame = two_classes()
    drawn = found_in(frame, tmp_path, test_domains=None, test_share=0.25, seed=3)
    assert drawn.domains == (45, 15)
    frame["when"] = pd.Timestamp("2013-01-01") + pd.to_timedelta(frame.day, unit="D")
    later = found_in(frame, tmp_path, test_domains=None, order="when", test_after="2013-01-20")
    assert later.domains == (20, 40)
    assert later.in_time is not None
    assert later.in_time.tested == ("2013-01-21", "2013-03-01")
    frame.assign(when=frame.when.dt.strftime("%Y-%m-%d")).to_csv(tmp_path / "p.csv", index=False)
    plan = RecalibrationPlan.of(
        domains=["day"], target="label", prediction="p", order="when", test_last=0.5
    )
    assert recalibrate_files(tmp_path / "p.csv", plan).domains == (30, 30)
    with pytest.raises(DomainDataError, match=r"Unknown domain '77'"):
        found_in(frame, tmp_path, test_domains=["77"])
    with pytest.raises(DomainDataError, match=r"1 of .* would be left to evaluate on.*held out"):
        found_in(frame, tmp_path, test_domains=["7"])


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_saved_correction_is_applied_to_new_predictions(tmp_path: Path, ending: str) -> None:
    frame = two_classes()
    frame.loc[frame.index[:2], "p"] = [0.0, 1.0]
    found = found_in(frame, tmp_path)
    found.saved.write(tmp_path / "c.json")
    saved = SavedCorrection.read(tmp_path / "c.json")
    assert saved == found.saved
    new = frame[["p", "day"]].assign(note='a "quoted", text')
    new.to_csv(tmp_path / "new.csv", index=False)
    new.to_parquet(tmp_path / "new.parquet", index=False)
    out = tmp_path / f"out{ending}"
    told = apply_to_files(tmp_path / f"new{ending}", saved, out)
    assert told.startswith("4,800 rows corrected: 'p'")
    again = pd.read_csv(out) if ending == ".csv" else pd.read_parquet(out)
    assert list(again) == ["p", "day", "note", "seen"]
    assert again.seen.tolist() == (new.day >= 20).tolist()
    own = saved.correction
    wanted = expit(own.shift + own.scale * logit(new.p.clip(1e-7, 1 - 1e-7)))
    np.testing.assert_allclose(again.p, wanted, rtol=1e-9)
    assert again.note.tolist() == new.note.tolist()
    assert again.day.tolist() == new.day.tolist()


def test_three_columns_and_numbers_are_applied_as_the_estimator_does(tmp_path: Path) -> None:
    names = ["p_cat", "p_dog", "p_owl"]
    frame = three_classes()
    saved = found_in(frame, tmp_path, "p_{class}").saved
    frame.rename(columns={n: n.replace("p_", "q_") for n in names}).to_csv(
        tmp_path / "q.csv", index=False
    )
    apply_to_files(tmp_path / "q.csv", saved, tmp_path / "out.csv", "q_{class}")
    out = pd.read_csv(tmp_path / "out.csv")[["q_cat", "q_dog", "q_owl"]].to_numpy()
    model = in_python(frame, names)
    np.testing.assert_allclose(out, model.predict_proba(frame[names].to_numpy()), rtol=1e-4)
    with pytest.raises(DataFileError, match=r"no column 'p_cat', 'p_dog', 'p_owl'"):
        apply_to_files(tmp_path / "q.csv", saved, tmp_path / "out.csv")
    with pytest.raises(SettingError, match="3 classes with a column each"):
        apply_to_files(tmp_path / "q.csv", saved, tmp_path / "out.csv", "q_cat")
    table = numbers()
    number = found_in(table, tmp_path, metric="squared").saved
    apply_to_files(tmp_path / "p.parquet", number, tmp_path / "out.parquet")
    again = pd.read_parquet(tmp_path / "out.parquet").p
    np.testing.assert_allclose(again, number.correction(table.p.to_numpy()), rtol=1e-12)


def test_unusable_rows_are_refused_when_fitting_and_when_applying(tmp_path: Path) -> None:
    frame = two_classes()
    saved = found_in(frame, tmp_path).saved
    frame = frame.reset_index(drop=True)
    frame.loc[[3, 5], "p"] = [1.5, np.nan]
    with pytest.raises(DomainDataError, match=r"2 of 4,800 rows have no usable loss.*row 4"):
        found_in(frame, tmp_path)
    with pytest.raises(DomainDataError, match=r"in 2 rows \(row 4, 6\) they are missing"):
        apply_to_files(tmp_path / "p.parquet", saved, tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()
    with pytest.raises(DomainDataError, match=r"No row has the label 1"):
        found_in(two_classes().assign(label=0), tmp_path)
    for wrong in ({"metric": "brier"}, {"clip": 0.0}, {"confidence": 1.0}, {"seed": -1}):
        with pytest.raises(SettingError, match=next(iter(wrong))):
            found_in(two_classes(), tmp_path, **wrong)


def test_a_damaged_correction_is_refused_with_all_problems(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"format": "something"}')
    with pytest.raises(DataFileError, match="not a correction"):
        SavedCorrection.read(path)
    path.write_text(
        '{"format": "eqrm correction 1", "metric": "log-loss", "prediction": "p", "clip": 2, '
        '"classes": ["a"], "level": "0.9", "fitted_domains": 3, "shift": "x", "scale": 1.0}'
    )
    with pytest.raises(DataFileError, match=r"shift is 'x'; clip is 2; classes is \['a'\]"):
        SavedCorrection.read(path)


def summary(found: Recalibration) -> str:
    return " ".join(recalibration_in_words(found).split())


def test_the_verdict_says_real_gain_no_gain_and_what_a_constant_does(tmp_path: Path) -> None:
    far = found_in(two_classes(240, 40), tmp_path, test_domains=None)
    assert "The gain is real: the 0.9-quantile of risk on held-out domains is" in summary(far)
    assert "This is better than the constant '50/50 guess'" in summary(far)
    assert "Certificate: With 95% confidence, at least 90% of new domains" in summary(far)
    noise = two_classes(240, 40)
    noise["p"] = expit(0.01 * np.random.default_rng(0).normal(size=len(noise)))
    told = summary(found_in(noise, tmp_path, test_domains=None))
    assert "does as well without looking at any row" in told
    assert "gain is real" not in told
    few = summary(found_in(two_classes(20), tmp_path, test_domains=None))
    assert "10 held-out domains are too few to tell whether there is a gain" in few
    assert "No certificate: 10 domains are too few" in few
