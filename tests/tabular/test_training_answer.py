"""The report of a training begins with its decision, and has the numbers of its summary."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import numpy as np
import pytest

import eqrm
from cli.commands import hospitals
from eqrm.level import Level
from eqrm.markup import typeset
from eqrm.tabular.result import TrainingResult
from eqrm.tabular.training import TableTraining
from eqrm.tabular.wording import CHOSEN, training_answer
from tabular.shifting_world import plan_of, some, trained_on, world

pytestmark = [
    pytest.mark.xdist_group("training-answer"),
    pytest.mark.usefixtures("no_figure"),
]


@pytest.fixture(scope="module")
def training() -> TableTraining:
    return trained_on(some(world()), plan_of([0.75, 0.9]))


def words_of(page: str) -> str:
    """The text of a page, tags left out."""
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", page).split()))


def test_the_decision_on_the_headline_level_is_the_answer(
    training: TableTraining, tmp_path: Path
) -> None:
    answer, decision = training_answer(training, 0.95), training.decision
    assert decision.alpha == Level(0.9)
    assert (answer.sentence, answer.evidence[0]) == (decision.sentence, decision.evidence)
    assert (answer.chosen, answer.role) == (decision.chosen, CHOSEN)
    assert set(answer.constants) == set(answer.references) == {"base rate", "50/50 guess"}
    trained = {name: str(level) for name, level in answer.trained_for.items()}
    ways = ("recalibrated for", "trained for")
    expected = {f"logistic, {way} 3 in 4": "0.75" for way in ways}
    assert trained == expected | {f"logistic, {way} 9 in 10": "0.9" for way in ways}
    assert [*answer.at_levels.values()] == [str(each) for each in training.decisions]
    path = tmp_path / "report.html"
    TrainingResult.of(training, command="eqrm train t.csv").report(path)
    page = path.read_text("utf-8")
    assert f">{typeset(answer.sentence)}</h1>" in page
    assert "trained for 0.9" in page
    assert "AUC" in page
    assert "checked by simulation and not proven" in words_of(page)


@pytest.mark.parametrize(("name", "number"), [("few", 14), ("worst", 14), ("certified", 70)])
def test_bounds_are_certificates_and_refusals_have_reasons_in_python_and_json(
    name: str, number: int, tmp_path: Path
) -> None:
    given = {"measure": "worst" if name == "worst" else "mean", "model": "linear"}
    given |= {"certify": 0.5} if name == "certified" else {}
    found = eqrm.train(hospitals(number=number), "ill", "hospital", **given, output=tmp_path / "o")
    if name == "certified":
        risks = np.sort(found.evaluation[found.recommended].risks)
        assert found.certificate == found.kept_aside.certificate(0.9, model=found.recommended)
        assert (found.expected.bound, found.refusals) == (risks[found.expected.rank - 1], {})
    else:
        why = "it takes at least 29 hospitals"
        if name == "worst":
            why = "none is possible for the worst of all new hospitals; certify a level below 1"
        assert (found.expected, found.certificate) == (None, None)
        assert found.refusals == {"expected": why}
    told = json.loads((tmp_path / "o" / "evaluation.json").read_text())["training"]
    for each in (found, eqrm.load(tmp_path / "o")):
        for key in ("expected", "certificate"):
            own = getattr(each, key)
            assert told[key] == (None if own is None else own.to_dict())
        assert told["refusals"] == each.refusals
        assert told["decision"] == each.decision.to_dict()
    decided = [told["decision"][key] for key in ("asked", "sureness", "probability", "alpha")]
    asked, level = ("worst", "1") if name == "worst" else ("mean", "0.9")
    assert decided == [asked, None, None, level]
