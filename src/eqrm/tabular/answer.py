"""The answer that the report of a training begins with: the verdict on its headline level."""

from __future__ import annotations

from dataclasses import replace

from eqrm.evaluation.evaluation import LEVELS, SUPERQUANTILES
from eqrm.evaluation.inference.comparison import SMOOTH
from eqrm.evaluation.presenting.report.answer import Answer, Fact, answer_of
from eqrm.evaluation.presenting.report.levels import level_label
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.level import Level
from eqrm.tabular.comparison import TrainingComparison
from eqrm.tabular.references import ERM, recalibrated_name, trained_name
from eqrm.tabular.training import TableTraining
from eqrm.tabular.wording import about_the_future, answer_in_words, unseen_in_words
from eqrm.text import listed

CHOSEN = "chosen on training domains"


def report_table(training: TableTraining, confidence: float) -> RiskTable:
    """Mean and quantiles at usual and trained levels, estimated as verdicts estimate them."""
    levels = sorted({*(Level.of(alpha) for alpha in LEVELS), *training.levels})
    found = training.evaluation.risk_table(
        levels, SUPERQUANTILES, confidence=confidence, interpolation=SMOOTH
    )
    return replace(found, skills=training.skills)


def training_answer(
    training: TableTraining, compared: TrainingComparison, table: RiskTable
) -> Answer:
    """The verdict on the headline level; without one, which model has the lowest quantile.

    References are constants, ERM and recalibrated ERM; without levels, constants alone.
    """
    constants = [name for name in training.evaluation.predictors if name not in training.models]
    recalibrated = [recalibrated_name(level) for level in training.levels]
    references = [*constants, *([ERM] if training.levels else [])]
    references += [name for name in recalibrated if name in training.models]
    found = answer_of(training.evaluation, compared.summary, table, references, constants)
    first = compared.first
    if first is not None and first.verdict is not None:
        head, _, _ = first.verdict.sentence.partition(": ")
        told = answer_in_words(training, compared, first).removeprefix(f"{head}: ")
        found = replace(
            found,
            sentence=f"{head}.",
            evidence=(told[:1].upper() + told[1:], unseen_in_words(training, compared)),
            chosen=first.recommended,
            role=CHOSEN,
        )
    return replace(
        found,
        trained_for={trained_name(r.level): r.level for r in compared.results},
        at_levels={level_label(r.level): r.verdict.sentence for r in compared.results if r.verdict},
        facts=tuple(_facts(training, compared)),
        notes=(*training.notes, *(r.choice.sentence for r in compared.results if r.choice)),
    )


def _facts(training: TableTraining, compared: TrainingComparison) -> list[Fact]:
    """What the report cannot know: references that are better, and that the future is unknown."""
    found = [
        Fact(
            f"{listed(result.better)} (references) have a clearly lower {result.level}-quantile of "
            "risk."
            if len(result.better) > 1
            else f"{result.better[0]!r}, a reference, has a clearly lower {result.level}-quantile "
            "of risk.",
            (trained_name(result.level),),
        )
        for result in compared.results
        if result.better
    ]
    future = about_the_future(training.in_time).strip()
    return [
        *found,
        *([Fact(future.replace("This assumes", "A certificate assumes", 1))] if future else []),
    ]
