"""``eqrm train`` and ``eqrm predict``, from files to files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats.mstats import hdquantiles

import eqrm
from cli.commands import called, changed, hospitals, printed_by, refused

pytestmark = [
    pytest.mark.xdist_group("train"),  # what is prepared once serves all tests
    pytest.mark.usefixtures("no_figure"),
]

PLAIN = ["--surrogate", "none", "--model", "linear"]
"""Few candidates, which take less time."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table and what ``eqrm train`` wrote."""
    found = tmp_path_factory.mktemp("train")
    hospitals().to_csv(found / "patients.csv", index=False)
    asked = ["--target", "ill", "--domain", "hospital", "--alpha", ".5,.9", *PLAIN]
    asked += ["--mean-budget", ".5", "--output", str(found / "out")]
    printed_by("train", str(found / "patients.csv"), *asked)
    return found


def test_the_folder_of_a_training_is_not_a_file_of_an_evaluation(folder: Path) -> None:
    out = str(folder / "out")
    assert f"eqrm compare {out}" in refused("evaluate", out)
    watched = refused("watch", str(folder / "w"), "--start", out)
    assert f"{out}/kept-aside.json" in watched


def test_the_risk_table_is_that_of_models_which_have_not_seen_the_hospital(folder: Path) -> None:
    """The same folds, cross-fitted by :func:`eqrm.evaluate_model`."""
    table = pd.read_csv(folder / "out" / "risk-table.csv")
    table = table.set_index(["model", "statistic"]).sort_index()
    encoder = eqrm.load(folder / "out").models["logistic, plain"].preprocessor.encoder
    frame = hospitals()
    X = encoder.transform({name: frame[name].to_numpy() for name in ("age", "scan", "ward")})
    folds = eqrm.estimators.DomainKFold(8, random_state=0)
    levels = {"logistic, plain": None, "logistic, trained for half": 0.5}
    for name, level in {**levels, "logistic, trained for 9 in 10": 0.9}.items():
        model, judged = eqrm.QRMClassifier(alpha=level), (X, frame["ill"], frame["hospital"])
        risks = eqrm.evaluate_model(model, *judged, cv=folds)["model"].risks
        assert len(risks) == 70
        assert table.loc[(name, "mean"), "value"].item() == pytest.approx(risks.mean(), rel=1e-6)
        quantiles = table.loc[(name, "quantile")].set_index("level")["value"]
        for at in (0.5, 0.9, 1.0):
            expected = risks.max() if at == 1.0 else hdquantiles(risks, [at])[0]
            assert quantiles[at] == pytest.approx(expected, rel=1e-6)


def test_the_risks_kept_aside_are_those_of_the_models_that_are_handed_over(tmp_path: Path) -> None:
    """Where another table is kept aside; its risks follow from what the command predicts."""
    hospitals(number=20).to_csv(tmp_path / "train.csv", index=False)
    other = hospitals(seed=1, number=40, first=20)
    other.to_csv(tmp_path / "test.csv", index=False)
    out, test = tmp_path / "out", str(tmp_path / "test.csv")
    asked = ["--target", "ill", "--domain", "hospital", "--test", test, *PLAIN]
    said = printed_by("train", str(tmp_path / "train.csv"), *asked, "--output", str(out))
    assert "certificate from 40 hospitals kept aside, of this model)" in said
    kept = json.loads((out / "kept-aside.json").read_text())["models"]
    listed = json.loads((out / "files.json").read_text())["models"]
    assert set(kept) == set(listed)
    for name, file in listed.items():
        output = str(tmp_path / "p.csv")
        told = printed_by("predict", str(out / file), test, "--output", output)
        assert told.startswith("1,000 rows predicted: prediction, p_no, p_yes")
        assert "None of 40 domains was seen in training" in told
        found = pd.read_csv(output)
        pd.testing.assert_series_equal(found["hospital"], other["hospital"])
        assert ((found["p_yes"] > 0.5) == (found["prediction"] == "yes")).all()
        p = np.where(found["ill"] == "yes", found["p_yes"], 1 - found["p_yes"])
        losses = pd.Series(-np.log(p)).groupby(found["hospital"]).mean()
        expected = losses.loc[kept[name]["domains"]].to_numpy()
        np.testing.assert_allclose(kept[name]["risks"], expected, rtol=1e-9)


def test_a_folder_that_does_not_say_what_was_chosen_names_its_models(tmp_path: Path) -> None:
    content = {"written by": "eqrm train", "files": ["models/a.safetensors"], "recommended": "b"}
    (tmp_path / "files.json").write_text(json.dumps(content))
    output = str(tmp_path / "p.csv")
    command = ["predict", str(tmp_path), "t.csv", "--output", output]
    assert f"use one of the files in {tmp_path / 'models'}" in refused(*command)
    content |= {"models": {"b": "../elsewhere/b.safetensors"}}
    (tmp_path / "files.json").write_text(json.dumps(content))
    words = "it lists '../elsewhere/b.safetensors', which is outside of it"
    assert words in refused(*command)


def test_options_may_stand_before_the_table_and_settings_are_read_as_yaml(tmp_path: Path) -> None:
    """An option once took every word after it, the table too; 1e-3 was once a text."""
    frame = hospitals(number=12).rename(columns={"ward": "ward, wing"})
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = ["--target", "ill", "--domain", "hospital", "--alpha", ".9", "--set", "l2=1e-3"]
    out = tmp_path / "out"
    drop = ["--drop", '"ward, wing",age', str(tmp_path / "t.csv")]
    printed_by("train", *options, *PLAIN, "--output", str(out), *drop)
    estimator = eqrm.load_model(out / "models" / "logistic-plain.safetensors")
    assert estimator.l2 == 1e-3
    assert estimator.n_features_in_ == 1


def test_predict_names_what_is_wrong(folder: Path, tmp_path: Path) -> None:
    model = str(folder / "out" / "models" / "logistic-trained-for-9-in-10.safetensors")
    table, output = tmp_path / "t.csv", str(tmp_path / "p.csv")
    frame = hospitals(number=1)

    def predicted(frame: pd.DataFrame, *options: str) -> tuple[int, str, str]:
        frame.to_csv(table, index=False)
        return called("predict", model, str(table), "--output", output, *options)

    code, _, err = predicted(frame.drop(columns=["age", "ward"]))
    assert (code, "no columns 'age', 'ward'" in err) == (2, True)
    code, _, err = predicted(changed(frame, "scan", [2], "bright"))
    assert (code, "'scan' must hold numbers, but holds 'bright'" in err) == (2, True)
    code, _, err = predicted(frame.iloc[:0])
    assert (code, "no rows" in err) == (2, True)
    new_ward = changed(frame, "ward", [0, 1], "west")
    code, _, err = predicted(new_ward)
    assert code == 0
    assert "Warning: Column 'ward'" in err
    assert "'west', in 2 of 25 rows" in err
    assert len(pd.read_csv(output)) == 25
    code, _, err = predicted(new_ward, "--unseen", "error")
    assert (code, "'west'" in err) == (2, True)
    code, _, err = predicted(frame.drop(columns=["ill", "hospital"]))
    assert (code, list(pd.read_csv(output))) == (0, ["prediction", "p_no", "p_yes"])
    for target, words in (("p.txt", "CSV or Parquet"), ("t.csv", "is the table itself")):
        command = ["predict", model, str(table), "--output", str(tmp_path / target)]
        assert words in refused(*command)
    (tmp_path / "no.safetensors").write_bytes(b"no model at all")
    for name, words in (
        ("no.safetensors", "is not a model file"),
        ("t.csv", "is not a model file, or it is damaged. Model files are written by 'eqrm train'"),
        ("absent.safetensors", "does not exist"),
    ):
        code, _, err = called("predict", str(tmp_path / name), str(table), "--output", output)
        assert (code, words in err, "header" in err) == (2, True, False)


@pytest.mark.parametrize("step", ["comparing models on domains that they have not seen", "writing"])
def test_ctrl_c_says_what_was_stopped_and_what_is_kept(
    step: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def press(*arguments: object, **named: object) -> None:
        raise KeyboardInterrupt

    place = "choosing.cross_fitting.cross_fit" if step != "writing" else "result.whole_files"
    monkeypatch.setattr(f"eqrm.tabular.{place}", press)
    hospitals(number=30).to_csv(tmp_path / "t.csv", index=False)
    out = str(tmp_path / "out")
    asked = ["--target", "ill", "--domain", "hospital", "--output", out]
    asked += PLAIN
    code, printed, err = called("train", str(tmp_path / "t.csv"), *asked)
    kept = f"Nothing was saved to {out}." if step != "writing" else "may be incomplete."
    assert (code, printed) == (130, "")
    assert err.startswith(f"eqrm: Interrupted while {step}. ")
    assert kept in err
    assert len(err.splitlines()) == 1
