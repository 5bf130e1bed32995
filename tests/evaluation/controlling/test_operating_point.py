"""Operating points: the guarantee, what they are made of, decisions, files, and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import eqrm
from eqrm.errors import DataFileError, DomainDataError, EqrmError, SettingError, TooFewDomainsError
from eqrm.estimators import control_model
from eqrm.evaluation.measuring.requirement import ROUNDING, Requirement

M, N = 60, 40
Frame = pd.DataFrame


def world(seed: int = 0, domains: int = M, rows: int = N) -> Frame:
    """Labels and predictions of two models, p the better one; numbers, their ends and scales."""
    rng = np.random.default_rng(seed)
    day = np.repeat(np.arange(domains), rows)
    y, slope = rng.integers(0, 2, len(day)), rng.normal(1.8, 0.6, domains)[day]
    score = slope * (2 * y - 1) + rng.normal(size=len(day))
    x, wide = rng.normal(size=len(day)), rng.lognormal(0, 0.4, domains)[day]
    frame = Frame({"day": day, "y": y, "p": 1 / (1 + np.exp(-2 * score))})
    frame["q"] = 1 / (1 + np.exp(-score - rng.normal(size=len(day))))
    frame["p_0"], frame["p_1"] = 1.0 - frame.p, frame.p
    frame["x"], frame["z"], frame["wide"] = x, x + wide * rng.normal(size=len(day)), wide
    frame["low"], frame["high"] = x - 0.5, x + 0.5
    return frame


CASES: dict[str, dict[str, Any]] = {
    "wrong <= 5%": {"predictions": {"a": "p", "b": "q"}},
    "wrong among answered <= 10%": {"predictions": {"a": "p", "b": "q"}},
    "missed <= 10%": {"predictions": "p"},
    "false alarms <= 5%": {"predictions": "p"},
    "coverage >= 80%": {"predictions": {"a": "x", "b": "low:high"}, "target": "z"},
    "coverage >= 90%": {"predictions": "x", "target": "z", "scale": "wide"},
}


def controlled(data: Any, require: str, **given: Any) -> eqrm.evaluation.OperatingPoint:
    return eqrm.control(data, domains="day", require=require, **{"target": "y", **given})


@pytest.mark.parametrize("require", CASES)
def test_a_frame_a_parquet_file_and_a_csv_file_give_one_point(require: str, tmp_path: Path) -> None:
    frame = world()
    frame.to_parquet(tmp_path / "t.parquet")
    frame.sample(frac=1.0, random_state=0).to_csv(tmp_path / "t.csv", index=False)
    points = [
        controlled(data, require, **CASES[require])
        for data in (frame, str(tmp_path / "t.parquet"), str(tmp_path / "t.csv"))
    ]
    for name in points[0].models:
        assert len({point.models[name].setting for point in points}) == 1
        kept = [point.models[name].mean for point in points]
        assert kept[1:] == pytest.approx(kept[:1] * 2, rel=1e-12)
    saved = [point.to_dict()["needed"]["models"] for point in points]
    assert saved[0] == saved[1] == saved[2]


def test_files_larger_than_memory_are_read_domain_by_domain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "t.parquet"
    world(rows=300).sample(frac=1.0, random_state=0).to_parquet(file)
    for require, given in CASES.items():
        whole = controlled(str(file), require, **given)
        with monkeypatch.context() as patched:
            patched.setattr("eqrm.evaluation.measuring.measurement_spec.MOST_ROWS", 0)
            patched.setattr("eqrm.evaluation.measuring.grouped_losses.ROWS_AT_A_TIME", 2048)
            parts = controlled(str(file), require, **given)
        assert parts.to_dict()["needed"] == whole.to_dict()["needed"]
        assert parts.kept == pytest.approx(whole.kept, rel=1e-12)


def test_the_setting_is_the_certificate_of_what_domains_need() -> None:
    frame = world()
    point = controlled(frame, "wrong <= 5%", predictions="p")
    found = eqrm.evaluate(frame, "p", "day", target="y", metric="wrong <= 5%")
    assert found.certificate(0.9).bound == point.setting - ROUNDING == point.bound.bound
    assert point.met() == (found["p"].risks <= point.setting).sum() == point.bound.rank
    two = controlled(frame, "wrong <= 5%", predictions={"a": "p", "b": "q"})
    assert two.models["a"].setting == found.certificate(0.9, 0.975).bound + ROUNDING
    assert two.model == "a"
    assert "counts the choice among 2 models" in two.sentence


def test_the_requirement_holds_on_new_domains_as_often_as_promised() -> None:
    """300 worlds of 40 domains, of the chosen one of two models; the study has 2,000 of each."""
    kept = []
    for seed in range(300):
        frame = world(seed, 40, 30)
        point = controlled(frame, "wrong <= 10%", predictions={"a": "p", "b": "q"}, alpha=0.8)
        new = world(10_000 + seed, 200, 30)
        found = eqrm.evaluate(
            new, {"m": {"a": "p", "b": "q"}[point.model]}, "day", target="y", metric="wrong <= 10%"
        )
        kept.append((found["m"].risks <= point.setting).mean())
    assert (np.array(kept) >= 0.8).mean() >= 0.95 - 2.0 * np.sqrt(0.05 * 0.95 / 300)


def test_decisions_on_new_rows_are_those_that_were_measured() -> None:
    frame = world()
    for require, given in CASES.items():
        point = controlled(frame, require, **given)
        chosen = given["predictions"]
        column = chosen if isinstance(chosen, str) else chosen[point.model]
        inputs = frame[column.split(":")].to_numpy() if ":" in column else frame[column]
        scale = frame.wide if point.scaled else None
        made = point.apply(inputs, scale=scale)
        target = frame[given.get("target", "y")].to_numpy()
        if "answer" in made:
            kept = ~made["passed"]
            lost = kept & (made["answer"] != target)
            assert (made["answer"][made["passed"]] == None).all()  # noqa: E711
        elif "positive" in made:
            counted = target == (1 if "missed" in require else 0)
            kept = made["positive"] if "missed" in require else made["positive"] & (target == 1)
            lost = counted & (made["positive"] != target)
        else:
            lost = (target < made["lower"]) | (target > made["upper"])
        of = np.ones(len(frame), bool)
        if "missed" in require or "alarms" in require:
            of = target == (1 if "missed" in require else 0)
        if "among" in require:
            of = ~made["passed"]
        shares = pd.DataFrame({"lost": lost[of], "day": frame.day[of]}).groupby("day").lost.mean()
        few = "among" in require and frame.day[of].value_counts(sort=False).sort_index() < 20
        assert ((shares <= point.requirement.allowed + 1e-9) | few).sum() == point.met()
        if "missed" in require:
            by_day = pd.Series(kept).groupby(frame.day).mean()
            np.testing.assert_allclose(by_day, point.models[point.model].by_domain)


def test_sets_of_classes_hold_the_label_as_often_as_required() -> None:
    rng = np.random.default_rng(0)
    day, y = np.repeat(np.arange(M), N), rng.integers(0, 3, M * N)
    logits = 2.0 * np.eye(3)[y] + rng.normal(size=(M * N, 3))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    with pytest.raises(SettingError, match="'missed' and 'false alarms' are for two classes"):
        eqrm.control(y, p, day, require="missed <= 10%")
    for score in ("lac", "aps"):
        point = eqrm.control(y, p, day, require="coverage >= 85%", score=score)
        sets = point.apply(p, classes=["a", "b", "c"])["set"]
        inside = np.array(["abc"[label] in each for label, each in zip(y, sets, strict=True)])
        shares = pd.Series(inside).groupby(day).mean()
        assert (shares >= 0.85 - 1e-9).sum() == point.met() >= 57
        assert np.mean([len(each) for each in sets]) == pytest.approx(point.kept)


def test_losses_on_a_grid_of_settings(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    hard, grid = rng.uniform(0.1, 0.9, M), np.linspace(0.0, 1.0, 11)
    frame = Frame(
        [
            {"day": day, "s": s, "loss": max(hard[day] - s, 0.0) + 0.01 * rng.random()}
            for day in range(M)
            for s in grid
            for _ in range(4)
        ]
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    point = controlled(frame, "loss <= 0.2", target=None, losses={"m": "loss"}, setting="s")
    means = frame.groupby(["day", "s"]).loss.mean().unstack()
    needed = {
        str(day): min(s for s in grid if (row[row.index >= s] <= 0.2).all())
        for day, row in means.iterrows()
    }
    assert dict(zip(point.needed.domains, point.needed["m"].risks, strict=True)) == needed
    assert point.setting == sorted(needed.values())[57]
    file = controlled(
        str(tmp_path / "t.csv"), "loss <= 0.2", target=None, losses={"m": "loss"}, setting="s"
    )
    assert file.setting == point.setting
    with pytest.raises(DomainDataError, match="too many domains meet the requirement at no"):
        controlled(frame[frame.s < 0.4], "loss <= 0.1", target=None, losses="loss", setting="s")
    some = frame[(frame.day != 5) | (frame.s > 0.2)]
    with pytest.raises(DomainDataError, match="at each of 11 settings, but domain '5'"):
        controlled(some, "loss <= 0.1", target=None, losses="loss", setting="s")


def test_nested_and_dependent_domains_have_the_bounds_of_risks() -> None:
    frame = world(domains=120, rows=30)
    frame["ward"], frame["site"] = frame.day % 2, frame.day // 2
    nested = eqrm.control(frame, "p", "site", within="ward", target="y", require="wrong <= 5%")
    found = eqrm.evaluate(
        frame, "p", "site", within="ward", target="y", metric="wrong <= 5%"
    ).certificate(0.9)
    assert nested.setting == found.bound + ROUNDING
    assert "new members" in nested.sentence
    frame["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(frame.day, "D")
    given = {"predictions": "p", "order": "when"}
    plain = controlled(frame, "wrong <= 5%", **given)
    dependent = controlled(frame, "wrong <= 5%", dependence=1, **given)
    assert dependent.setting >= plain.setting
    assert "more than 1 place apart are independent" in dependent.sentence
    recent = controlled(frame, "wrong <= 5%", recent=40, **given)
    assert "not a certificate" in recent.sentence
    two = controlled(
        frame, "wrong <= 5%", recent=40, order="when", predictions={"a": "p", "b": "q"}
    )
    assert two.bound.alpha == pytest.approx(0.95)  # the better of two is not the one given
    assert two.models["a"].setting >= recent.setting
    true = controlled(frame, "wrong <= 5%", predictions="p", true=True)
    assert true.setting >= plain.setting
    assert "of similar size" not in true.sentence


def test_models_of_scikit_learn_fitted_or_by_folds() -> None:
    rng = np.random.default_rng(0)
    groups, x = np.repeat(np.arange(M), N), rng.normal(size=(M * N, 2))
    y = np.where(x @ [2.0, -1.0] + rng.logistic(size=M * N) > 0, "ill", "well")
    point = control_model(LogisticRegression(), x, y, groups, require="wrong <= 20%", cv=5)
    assert point.needed.cross_fitted
    assert "not proven" in point.sentence
    old = groups < 20
    fitted = LogisticRegression().fit(x[old], y[old])
    kept = control_model(fitted, x[~old], y[~old], groups[~old], require="wrong <= 20%")
    made = kept.apply(fitted.predict_proba(x), classes=fitted.classes_.tolist())
    assert set(made["answer"][~made["passed"]]) == {"ill", "well"}
    with pytest.raises(SettingError, match="no option 'required'"):
        control_model(fitted, x, y, groups, require="wrong <= 5%", required=1)


def test_a_point_is_saved_whole_and_what_does_not_follow_is_refused(tmp_path: Path) -> None:
    frame, path = world(), tmp_path / "point.json"
    point = controlled(frame, "wrong <= 5%", predictions={"a": "p", "b": "q"})
    point.save(path)
    again = eqrm.evaluation.OperatingPoint.load(path)
    assert str(again) == str(point)
    assert again.to_dict() == point.to_dict()
    path.write_text(path.read_text().replace('"a"', '"A"', 1))
    with pytest.raises(DataFileError, match="does not match its checksum"):
        eqrm.evaluation.OperatingPoint.load(path)
    content = json.loads(json.dumps(point.to_dict()))
    changes: list[Any] = [
        lambda c: c["models"]["a"].update(setting=0.6),
        lambda c: c["needed"]["models"]["a"]["risks"].__setitem__(0, 0.99),
        lambda c: c["asked"].update(confidence=0.999),
        lambda c: c["requirement"].update(limit=0.01),
        lambda c: c.update(model="c"),
        lambda c: c["models"].pop("b"),
        lambda c: c["models"]["a"].update(setting="0.6"),
        lambda c: c.pop("needed"),
        lambda c: c.update(format="eqrm operating point 0"),
    ]
    refused = 0
    for change in changes:
        forged = json.loads(json.dumps(content))
        change(forged)
        try:
            found = eqrm.evaluation.OperatingPoint.from_dict(forged)
        except EqrmError as error:
            refused += "Compute it again" in str(error)
        else:  # another need of a domain that does not decide the setting
            assert found.setting == point.setting
    assert refused >= len(changes) - 1


def test_new_predictions_of_another_kind_are_refused() -> None:
    point = controlled(world(), "wrong <= 5%", predictions="p")
    for given in ([0.2, 1.2], [[0.2, 0.3, 0.5]]):
        with pytest.raises(DomainDataError, match="probabilities of 2 classes"):
            point.apply(np.array(given))
    with pytest.raises(DomainDataError, match="The prediction of row 2 is nan: 1 of 2 rows"):
        point.apply([0.2, np.nan])
    widened = controlled(world(), "coverage >= 90%", **CASES["coverage >= 90%"])
    with pytest.raises(DomainDataError, match="with a scale"):
        widened.apply([0.2])


@pytest.mark.parametrize(
    ("require", "given", "error", "told"),
    [
        ("wrong <= 5%", {"predictions": "p", "alpha": 0.99}, TooFewDomainsError, "are needed"),
        ("missed <= 5%", {"predictions": "p", "target": "z"}, DomainDataError, "labels must be 0"),
        ("wrong <= 5%", {"predictions": "x"}, DomainDataError, "not a probability"),
        ("wrong <= 5%", {"predictions": "p", "within": "q", "spells": True}, EqrmError, "within"),
        ("wrong among answered <= 5%", {"predictions": "p", "true": True}, EqrmError, "true=True"),
        ("wrong <= 5%", {"predictions": "p", "setting": "q"}, EqrmError, "setting='COLUMN'"),
        ("loss <= 5", {"losses": "q"}, EqrmError, "both are needed"),
        ("coverage >= 90%", {"predictions": "high:low", "target": "z"}, DomainDataError, "lower"),
        ("coverage >= 90%", {"predictions": "p"}, DomainDataError, "around which intervals make"),
        ("wrong <= 5%", {"predictions": "p", "weights": "x"}, SettingError, "no option 'weights'"),
    ],
)
def test_refusals(require: str, given: dict[str, Any], error: type[EqrmError], told: str) -> None:
    with pytest.raises(error, match=told):
        controlled(world(), require, **given)


def test_a_world_without_labels_of_a_class_meets_what_is_asked_of_it() -> None:
    frame = world()
    frame.loc[frame.day < 5, "y"] = 0
    point = controlled(frame, "missed <= 10%", predictions="p")
    assert (point.needed["p"].risks[:5] == -1.0).all()
    true = controlled(frame, "missed <= 10%", predictions="p", true=True)
    assert (true.needed["p"].risks[:5] == 0.0).all()  # of no rows, nothing is known
    assert Requirement.of("missed <= 10%").shown(point.setting) in point.sentence


def test_decisions_are_the_same_however_predictions_were_rounded_on_their_way() -> None:
    """Whole groups of rows have one prediction, such as those of a tree: that which binds too."""
    rate, rng = np.array([0.02, 0.12, 0.5, 0.7]), np.random.default_rng(1)
    day, group = np.repeat(np.arange(M), 200), rng.integers(0, 4, M * 200)
    y = (rng.random(len(day)) < rate[group]).astype(int)
    p = rate[group]
    single = p.astype(np.float32).astype(np.float64)
    for require in ("wrong <= 3%", "missed <= 20%", "false alarms <= 20%"):
        point = eqrm.control(y, p, day, require=require)
        name = "positive" if "passed" not in point.apply(p) else "passed"
        wanted = point.apply(p)[name]
        others = (single, np.nextafter(p, 1.0), np.nextafter(p, 0.0))
        for given in (*others, *(np.column_stack([1.0 - each, each]) for each in (p, *others))):
            np.testing.assert_array_equal(point.apply(given)[name], wanted)
    even = eqrm.control(y, p, day, require="wrong <= 30%")
    assert even.apply([0.5])["answer"] == even.apply([[0.5, 0.5]])["answer"]
    numbers = np.round(p + rng.normal(size=len(p)), 2)
    point = eqrm.control(numbers, p, day, require="coverage >= 80%")
    made = point.apply(p)
    outside = (numbers < made["lower"]) | (numbers > made["upper"])
    assert (np.bincount(day, outside) <= 40).sum() == point.met()


def test_evaluate_measures_no_requirement_of_another_task() -> None:
    frame = world()
    three = np.column_stack([frame.p / 2, frame.p / 2, 1.0 - frame.p])
    for metric, given in (("loss <= 0.4", frame.p.to_numpy()), ("missed <= 10%", three)):
        with pytest.raises(SettingError, match="does not apply to predictions of"):
            eqrm.evaluate(frame.y, given, frame.day, metric=metric)


def test_which_class_is_positive_is_known_or_refused(tmp_path: Path) -> None:
    frame = world().drop(columns=["p_0", "p_1"])
    for names, known in ((("no", "yes"), True), (("healthy", "cancer"), False)):
        own = frame.assign(y=np.array(names)[frame.y])
        own[f"p_{names[1]}"], own[f"p_{names[0]}"] = frame.p, 1.0 - frame.p
        own.to_csv(tmp_path / "t.csv", index=False)
        given = {"predictions": "p_{class}", "require": "missed <= 10%"}
        if known:
            point = controlled(str(tmp_path / "t.csv"), **given)
            assert point.classes == names
            assert point.setting == controlled(frame, "missed <= 10%", predictions="p").setting
        else:
            with pytest.raises(SettingError, match="which of the classes 'cancer' and 'healthy'"):
                controlled(str(tmp_path / "t.csv"), **given)


def test_answers_are_classes_of_the_model() -> None:
    frame = world(domains=40)
    frame["label"] = frame.y + 1
    x = frame[["x", "z", "p"]]
    fitted = LogisticRegression().fit(x, frame.label)
    point = control_model(fitted, x, frame.label, frame.day, require="wrong <= 20%")
    assert point.classes == (1, 2)
    answers = point.apply(fitted.predict_proba(x))["answer"]
    for names in (["1", "2"], ["p_1", "p_2"], [1, 2]):
        given = Frame(fitted.predict_proba(x), columns=names).iloc[:, ::-1]
        assert point.apply(given)["answer"].tolist() == answers.tolist()
    assert {each for each in answers if each is not None} == {1, 2}
    other = LogisticRegression().fit(x, frame.label + (frame.x > 2))
    with pytest.raises(SettingError, match="must know the same classes"):
        control_model({"a": fitted, "b": other}, x, frame.label, frame.day, require="wrong <= 20%")
    with pytest.raises(DomainDataError, match="look like predicted classes"):
        controlled(frame.assign(p=(frame.p > 0.5) * 1.0), "missed <= 10%", predictions="p")


def test_intervals_of_two_columns_of_an_array_and_bad_scales() -> None:
    frame = world()
    ends = frame[["low", "high"]].to_numpy()
    point = eqrm.control(frame.z, ends, frame.day, require="coverage >= 80%")
    assert point.ends
    assert eqrm.control(frame.y, frame[["p_0", "p_1"]].to_numpy(), frame.day, require="wrong <= 9%")
    with pytest.raises(DomainDataError, match="lower end not above the upper"):
        point.apply(ends[:, ::-1])
    scaled = controlled(frame, "coverage >= 90%", predictions="x", target="z", scale="wide")
    for bad in (-frame.wide, frame.wide[:5], frame.wide * np.nan):
        with pytest.raises(DomainDataError, match="the scale above 0"):
            scaled.apply(frame.x, scale=bad)
    column = frame[["wide"]].to_numpy()
    np.testing.assert_array_equal(
        scaled.apply(frame.x, scale=column)["lower"],
        scaled.apply(frame.x, scale=frame.wide)["lower"],
    )
