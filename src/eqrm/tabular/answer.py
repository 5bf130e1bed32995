"""What the report of a training begins with: the decision."""

from __future__ import annotations

from dataclasses import replace

from eqrm.evaluation.evaluation import LEVELS, SUPERQUANTILES
from eqrm.evaluation.inference.comparison import SMOOTH
from eqrm.evaluation.presenting.report.answer import Answer, Fact, level_label
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.level import Level
from eqrm.tabular.findings import minded_of
from eqrm.tabular.training import TableTraining
from eqrm.tabular.wording import candidates_table, expected_lines, in_words

CHOSEN = "to use"


def report_table(training: TableTraining, confidence: float) -> RiskTable:
    """Mean and quantiles at usual and trained levels, estimated as decisions estimate them."""
    levels = sorted({*(Level.of(alpha) for alpha in LEVELS), *training.levels})
    found = training.evaluation.risk_table(
        levels, SUPERQUANTILES, confidence=confidence, interpolation=SMOOTH
    )
    return replace(found, skills=training.skills)


def training_answer(training: TableTraining, confidence: float) -> Answer:
    """The decision on the headline level, with what to expect and what to mind."""
    decision = training.decision
    facts = [Fact(in_words(training, each)) for each in minded_of(training, confidence)]
    told = [each.split(None, 1)[1].strip() for each in expected_lines(training, confidence)]
    return Answer(
        decision.sentence,
        (decision.evidence, *(f"{each[:1].upper()}{each[1:]}." for each in told)),
        decision.chosen,
        CHOSEN,
        references=training.constants,
        constants=training.constants,
        trained_for={
            each.name: each.level
            for contest in training.contests.values()
            for each in contest.candidates
            if each.level is not None and each.name in training.evaluation.predictors
        },
        at_levels={level_label(each.level): str(each) for each in training.decisions},
        facts=tuple(facts),
        notes=tuple(candidates_table(each) for each in training.contests.values()),
    )
