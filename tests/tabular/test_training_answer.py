"""The verdict that the report of a training begins with is that of its summary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eqrm.data.splits import TimeSplit
from eqrm.evaluation.presenting.report.page import report_html
from eqrm.markup import typeset
from eqrm.tabular.answer import CHOSEN, report_table, training_answer
from eqrm.tabular.comparison import TrainingComparison, compare_training
from eqrm.tabular.output import write_training
from eqrm.tabular.training import TableTraining, TrainingPlan, train_on_table
from tabular.shifting_world import world

pytestmark = [
    pytest.mark.xdist_group("training-answer"),
    pytest.mark.usefixtures("no_figure"),
]


def parts(domains: int = 60) -> tuple:
    table = world()
    return table.in_domains(table.domain_names[:domains]).split(0.5)


@pytest.fixture(scope="module")
def training() -> TableTraining:
    return train_on_table(*parts(), TrainingPlan.of([0.75, 0.9]))


@pytest.fixture(scope="module")
def compared(training: TableTraining) -> TrainingComparison:
    return compare_training(training)


def test_the_verdict_of_the_headline_level_is_the_answer(
    training: TableTraining, compared: TrainingComparison, tmp_path: Path
) -> None:
    table = report_table(training, 0.95)
    answer, first = training_answer(training, compared, table), compared.first
    assert first is not None
    assert first.verdict is not None
    head, _, rest = first.verdict.sentence.partition(": ")
    assert answer.sentence == f"{head}."
    assert rest[1:] in answer.evidence[0]
    assert (answer.chosen, answer.role) == (first.recommended, CHOSEN)
    constants = set(training.evaluation.predictors) - set(training.models)
    assert set(answer.constants) == constants
    assert set(answer.references) == constants | {
        "ERM",
        "ERM recalibrated for 0.75",
        "ERM recalibrated for 0.9",
    }
    assert {name: str(level) for name, level in answer.trained_for.items()} == {
        "α = 0.75": "0.75",
        "α = 0.9": "0.9",
    }
    assert set(answer.at_levels) == {"0.75", "0.9"}
    write_training(training, compared, tmp_path / "out", command="eqrm train t.csv")
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert f">{typeset(answer.sentence)}</h1>" in page
    assert "trained for 0.9" in page
    assert "AUC" in page


def test_the_numbers_of_the_report_are_those_of_the_summary(
    training: TableTraining, compared: TrainingComparison
) -> None:
    table = report_table(training, 0.95)
    at = [str(s.level) for s in table.statistics].index("0.9")
    own = [str(s.level) for s in compared.table.statistics].index("0.9")
    for name, cells in compared.table.cells.items():
        assert table.cells[name][at] == cells[own]


def test_references_that_are_better_and_the_future_are_among_what_could_be_wrong(
    training: TableTraining, compared: TrainingComparison
) -> None:
    one, two = compared.results
    results = replace(one, better=("ERM",)), replace(two, better=("ERM", "base rate"))
    split = TimeSplit(("a",), ("b",), (), ("1", "2"), ("3", "4"), "day", np.zeros(1))
    later = replace(training, in_time=split)
    answer = training_answer(
        later, replace(compared, results=results), report_table(training, 0.95)
    )
    told = [fact.text for fact in answer.facts]
    assert told[0] == "'ERM', a reference, has a clearly lower 0.75-quantile of risk."
    assert told[1].startswith("'ERM', 'base rate' (references) have a clearly lower 0.9-quantile")
    assert told[2].startswith("A certificate assumes that future domains")
    assert answer.facts[1].models == ("α = 0.9",)


@pytest.mark.parametrize("plan", [{"measure": "mean"}, {"measure": "worst"}])
def test_without_a_verdict_the_lowest_quantile_is_the_answer(plan: dict[str, str]) -> None:
    found = train_on_table(*parts(40), TrainingPlan.of(**plan))
    compared = compare_training(found)
    table = report_table(found, 0.95)
    answer = training_answer(found, compared, table)
    wanted = "ERM" if plan["measure"] == "mean" else "worst"
    assert answer.chosen == wanted
    assert wanted not in answer.references
    assert "20 domains are too few to compare models at level 0.9" in answer.sentence
    page = report_html(found.evaluation, table, compared.summary, answer)
    assert np.char.find(page, "No certificate") > 0
