"""``eqrm train --within``: folds hold whole groups, and bounds are about new groups."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli.commands import called, printed_by, refuse_in_one_line
from eqrm.data.tables.reading import read_table
from eqrm.tabular.choosing.cross_fitting import Comparison
from eqrm.tabular.plan import TrainingPlan
from eqrm.tabular.preparation import prepare
from eqrm.tabular.training import train_prepared

pytestmark = pytest.mark.usefixtures("no_figure")

HOSPITALS, ROWS = 64, 6


def patients() -> pd.DataFrame:
    """One to three wards in each hospital, which share an effect."""
    rng = np.random.default_rng(1)
    wards = rng.integers(1, 4, HOSPITALS)
    hospital = np.repeat(np.arange(HOSPITALS), wards * ROWS)
    ward = np.concatenate([np.repeat(np.arange(n), ROWS) for n in wards])
    x = rng.normal(size=hospital.size)
    ill = x + rng.normal(size=HOSPITALS)[hospital] + rng.normal(size=hospital.size) > 0
    return pd.DataFrame(
        {"hospital": [f"H{h:02d}" for h in hospital], "ward": ward, "x": x.round(3), "ill": ill * 1}
    )


NESTED = ["--target", "ill", "--domain", "hospital", "--within", "ward"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("nested")
    patients().to_csv(found / "t.csv", index=False)
    return found


def test_whole_hospitals_are_kept_aside_from_training_to_evaluation(folder: Path) -> None:
    """The model that was judged on them is saved where another table is kept aside."""
    out, table, frame = folder / "trained", str(folder / "t.csv"), patients()
    aside = frame["hospital"] >= "H32"
    frame[~aside].to_csv(folder / "train.csv", index=False)
    frame[aside].to_csv(folder / "test.csv", index=False)
    options = [*NESTED, "--measure", "mean", "--model", "linear", "--output", str(out)]
    options += ["--test", str(folder / "test.csv")]
    printed_by("train", str(folder / "train.csv"), *options)
    content = json.loads((out / "kept-aside.json").read_text())
    domains = content["models"]["logistic, plain"]["domains"]
    held_out = {name.split(" | ")[0] for name in domains}
    assert len(held_out) == 32
    wards = frame[frame["hospital"].isin(held_out)].groupby(["hospital", "ward"])
    assert len(domains) == wards.ngroups
    summary = " ".join((out / "summary.txt").read_text().split())
    assert "of new members (ward) of similar size in new groups (hospital)" in summary
    predicted = folder / "predicted.csv"
    model = str(out)
    code, printed, _ = called("predict", model, table, "--output", str(predicted))
    assert (code, "32 of 64 groups were seen in training" in printed) == (0, True)
    rows = pd.read_csv(predicted)
    assert set(rows.loc[~rows["seen"], "hospital"]) == held_out
    given = ["--domain", "hospital", "--within", "ward", "--target", "ill", "--prediction", "p_1"]
    code, printed, _ = called("evaluate", str(predicted), *given, "--no-references")
    assert (code, f"{len(domains)} domains of 32 groups" in printed) == (0, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([*NESTED, "--test-last", ".5"], "split by whole groups, not in time"),
        ([*NESTED, "--certify", "H00 | 0"], "Unknown group 'H00 | 0'"),
        ([*NESTED, "--test", "t.csv"], "64 groups are in both training and test"),
    ],
)
def test_what_does_not_fit_nested_domains_is_refused(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(folder)
    refuse_in_one_line(folder, options, words)


def test_no_ward_is_judged_by_a_model_of_its_hospital(folder: Path) -> None:
    """All wards of a hospital are judged by one fit, of which it had no part."""
    table = read_table(folder / "t.csv", "ill", "hospital", within="ward")
    plan = TrainingPlan.of(measure="mean", model="linear")
    compared = Comparison(plan, prepare(table, None, plan), [], lambda step: None)
    for train, test in compared.splits:
        assert not set(table.unit_ids[train]) & set(table.unit_ids[test])
    found = train_prepared(compared.prepared, plan)
    assert len(found.evaluation.domains) == len(table.domain_names)
    assert found.evaluation.nesting is not None
    bound = found.evaluation.certificate(0.9, model="logistic, plain")
    assert "of new members (ward) of similar size in new groups (hospital)" in bound.sentence
