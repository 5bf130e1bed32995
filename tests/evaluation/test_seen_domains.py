"""Domains that a model was trained on are left out of what is said about new domains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import eqrm
from eqrm.data.seen_domains import SeenDomains
from eqrm.errors import DomainDataError
from eqrm.evaluation import Evaluation, evaluate_part, merge_parts

DOMAINS, ROWS, SEEN = 14, 20, 4


def world(seed: int = 0) -> pd.DataFrame:
    """Predictions for 14 days, the first 4 of which were trained on."""
    rng = np.random.default_rng(seed)
    day = np.repeat(np.arange(DOMAINS), ROWS)
    label = rng.integers(0, 2, len(day))
    p = np.clip(0.5 + (label - 0.5) * rng.uniform(-0.5, 1, len(day)), 0.01, 0.99)
    return pd.DataFrame({"day": day, "y": label, "p": p, "loss": -np.log(p), "seen": day < SEEN})


ARGUMENTS: dict[str, Any] = {"domains": "day", "target": "y", "predictions": "p"}


def test_every_route_gives_the_evaluation_of_the_unseen_domains(tmp_path: Path) -> None:
    frame = world()
    unseen = frame[frame.day >= SEEN].drop(columns="seen")
    wanted = eqrm.evaluate(unseen, **ARGUMENTS, references=True).to_dict()
    frame.to_csv(tmp_path / "p.csv", index=False)
    frame.to_parquet(tmp_path / "p.parquet", index=False)
    named = frame.rename(columns={"seen": "trained on"})
    arrays = {"domains": frame.day, "target": frame.y, "predictions": {"p": frame.p}}
    found = {
        "frame": eqrm.evaluate(frame, **ARGUMENTS, references=True),
        "named": eqrm.evaluate(named, **ARGUMENTS, seen="trained on"),
        "arrays": eqrm.evaluate(**arrays, seen=frame.seen),
        "text": eqrm.evaluate(**arrays, seen=frame.seen.astype(str).tolist()),
        "csv": eqrm.evaluate(tmp_path / "p.csv", **ARGUMENTS),
        "parquet": eqrm.evaluate(tmp_path / "p.parquet", **ARGUMENTS, references=True),
    }
    for route, each in found.items():
        assert each.seen == tuple(range(SEEN)), route
        content = each.to_dict()
        assert list(content["models"]) == ["p"], route
        np.testing.assert_allclose(each["p"].risks, wanted["models"]["p"]["risks"], rtol=1e-12)
        for name, risks in (content["references"] or {"risks": {}})["risks"].items():
            expected = wanted["references"]["risks"][name]["risks"]
            np.testing.assert_allclose(risks["risks"], expected, rtol=1e-9, err_msg=route)
        assert "training has seen them: 4 domains (0, 1, 2 and 1 more)" in each.sentence
        assert Evaluation.from_dict(json.loads(each.to_json())).to_dict() == each.to_dict()


def test_a_group_of_which_training_has_seen_a_member_is_left_out_whole() -> None:
    frame = world()
    frame["hospital"] = frame.day // 3
    found = eqrm.evaluate(frame, domains="hospital", within="day", losses="loss")
    assert set(found.outer_domains or ()) == {"2", "3", "4"}  # those of days 0 to 3 were seen
    assert len(found.seen) == 6
    assert "training has seen them or others of their group: 6 domains" in found.sentence


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (lambda day: (day < SEEN).astype(int), "got '?1'?|got '?0'?"),
        (lambda day: np.where(day < SEEN, "yes", "no"), "must be true or false in every row, got"),
        (lambda day: np.where(day == 3, None, day < SEEN), "got a missing value"),
        (lambda day: np.arange(len(day)) < 10, "true in some rows and false in others of domain 0"),
        (lambda day: day >= 0, "Training has seen 14 of 14 domains.*there is none left"),
        (lambda day: day > 0, "13 of 14.*there is 1 domain left, where at least 2 are needed"),
    ],
)
def test_a_column_that_is_no_answer_or_leaves_too_few_is_refused(
    values: Any, words: str, tmp_path: Path
) -> None:
    frame = world()
    frame["seen"] = values(frame.day.to_numpy())
    frame.to_csv(tmp_path / "p.csv", index=False)
    frame.to_parquet(tmp_path / "p.parquet", index=False)
    for data in (frame, tmp_path / "p.csv", tmp_path / "p.parquet"):
        with pytest.raises(DomainDataError, match=words):
            eqrm.evaluate(data, **ARGUMENTS)


def test_parts_keep_what_was_seen_and_must_agree(tmp_path: Path) -> None:
    frame = world()
    halves = [frame.iloc[0::2], frame.iloc[1::2]]
    for number, half in enumerate(halves):
        half.to_csv(tmp_path / f"{number}.csv", index=False)
        evaluate_part(tmp_path / f"{number}.csv", **ARGUMENTS).write(tmp_path / f"{number}.json")
    found = merge_parts([tmp_path / "0.json", tmp_path / "1.json"])
    assert found.domains == tuple(range(SEEN, DOMAINS))
    wanted = eqrm.evaluate(frame, **ARGUMENTS)
    np.testing.assert_allclose(found["p"].risks, wanted["p"].risks, rtol=1e-12)
    halves[1].assign(seen=False).to_csv(tmp_path / "1.csv", index=False)
    other = evaluate_part(tmp_path / "1.csv", **ARGUMENTS)
    with pytest.raises(DomainDataError, match="disagree about whether training has seen"):
        merge_parts([tmp_path / "0.json", other])


def test_an_estimator_refuses_what_it_has_seen_by_the_same_hashes() -> None:
    frame = world()
    model = eqrm.QRMClassifier(alpha=None).fit(frame[["p"]], frame.y, groups=frame.day)
    with pytest.raises(DomainDataError, match=r"based on domains 0, 1, 2.*was trained on"):
        model.certificate(frame[["p"]], frame.y, frame.day, alpha=0.5)
    assert SeenDomains.of(model.domains_).among(["13", 14, "013"]) == ["13"]
    kept = SeenDomains.of(model.domains_)
    assert SeenDomains.from_list(kept.to_list()) == kept
    with pytest.raises(ValueError, match="damaged"):
        SeenDomains.from_list(["not a hash"])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_column_that_the_first_of_several_files_lacks_is_not_overlooked(
    tmp_path: Path, kind: str
) -> None:
    frame = world()
    for name, part in (
        ("new", frame[frame.day >= SEEN].drop(columns="seen")),
        ("old", frame[frame.day < SEEN]),
    ):
        write = part.to_csv if kind == "csv" else part.to_parquet
        write(tmp_path / f"{name}.{kind}", index=False)
    files = [tmp_path / f"new.{kind}", tmp_path / f"old.{kind}"]
    with pytest.raises(DomainDataError, match=f"old.{kind} has a column 'seen', and new.{kind}"):
        eqrm.evaluate(files, **ARGUMENTS)


@pytest.mark.parametrize(
    ("trained", "later"),
    [(7, "7.0"), ("2013-04-25", "2013-04-25 00:00:00"), ("2013-04-25", "2013-04-25T00:00")],
)
def test_domains_are_known_by_the_names_that_other_programs_write(trained: Any, later: str) -> None:
    seen = SeenDomains.of([trained])
    assert seen.among([later, "7.5", "2013-04-25 00:10:00"]) == [later]
