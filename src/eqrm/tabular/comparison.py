"""Every level against the references on unseen domains, in numbers: gains and certificates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eqrm.errors import LevelError, TooFewDomainsError
from eqrm.estimators.selection.surrogate_choice import SurrogateChoice
from eqrm.estimators.selection.surrogates import ERM as REFERENCE
from eqrm.estimators.selection.surrogates import RECALIBRATED
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.certificates import Certificate
from eqrm.evaluation.inference.comparison import SMOOTH
from eqrm.evaluation.inference.gains import fewest_to_compare, gain_over
from eqrm.evaluation.inference.resampling import smooth_quantile
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.presenting.summary import Summary, summarised
from eqrm.level import Level
from eqrm.tabular.references import ERM, Array, recalibrated_name, trained_name
from eqrm.tabular.request import TOLD_FIRST, headline_level
from eqrm.tabular.training import TableTraining
from eqrm.tabular.verdict import Verdict


@dataclass(frozen=True, eq=False)
class LevelResult:
    """What became of a level.

    ``recommended`` is the predictor to use: chosen on training domains, or the one that was trained
    for the level where there were too few of these to choose. ``certificates`` holds those of ERM,
    of recalibrated ERM and of the trained predictor; where there are too few domains for one, the
    sentence that says so is in its place. ``better`` are references with a lower quantile, beyond
    doubt and margin.
    """

    level: Level
    recommended: str
    choice: SurrogateChoice | None
    verdict: Verdict | None
    certificates: dict[str, Certificate | str]
    better: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class TrainingComparison:
    """All that is said about a training, computed once.

    ``table`` holds mean and quantiles at the trained levels (without one, 0.9) and 1; ``summary``
    holds noise and signs that domains are not exchangeable. Quantiles are Harrell–Davis estimates,
    those that verdicts and choices compare.
    """

    results: tuple[LevelResult, ...]
    table: RiskTable
    summary: Summary
    confidence: float

    @property
    def first(self) -> LevelResult | None:
        """The headline level, if any was trained for."""
        return min(
            self.results, key=lambda result: abs(result.level.alpha - TOLD_FIRST), default=None
        )

    @property
    def recommended(self) -> str:
        """The model to use for the headline level; ERM without one."""
        return ERM if self.first is None else self.first.recommended


def compare_training(training: TableTraining, confidence: float = 0.95) -> TrainingComparison:
    """Compare every trained level with the references on the domains held out."""
    judged, levels = training.evaluation, training.levels
    certified = headline_level(levels) or Level(TOLD_FIRST)
    return TrainingComparison(
        tuple(_result(training, level, confidence) for level in levels),
        judged.risk_table(
            table_levels(levels), [], confidence=confidence, worst=0, interpolation=SMOOTH
        ),
        summarised(judged, certified, confidence, baseline=ERM, interpolation=SMOOTH),
        confidence,
    )


def table_levels(levels: Sequence[Level]) -> list[Level]:
    """The columns of quantiles: the trained levels, without one 0.9, and the largest risk."""
    return [
        *([level for level in levels if level != Level(1.0)] or [Level(TOLD_FIRST)]),
        Level(1.0),
    ]


def _result(training: TableTraining, level: Level, confidence: float) -> LevelResult:
    trained, recalibrated = trained_name(level), recalibrated_name(level)
    choice = training.choices.get(level)
    risks = {name: one.risks for name, one in training.evaluation.predictors.items()}
    references = [*training.constants, ERM, *([recalibrated] if choice else [])]
    compared = references if training.measure == "quantile" else []
    verdict, recommended, pooled = None, trained, risks
    if choice is not None:
        left_out = risks_left_out(training, level, choice)
        order = sorted(references, key=lambda name: smooth_quantile(left_out[name], level))
        pooled = {name: risks[name] for name in left_out}
        if training.in_time is None:  # domains are exchangeable: those left out count as well
            pooled = {name: np.concatenate([left_out[name], risks[name]]) for name in left_out}
        verdict = Verdict.of(level, pooled, trained, recalibrated, order, confidence)
        if choice.chosen == REFERENCE:
            recommended = ERM
        elif choice.chosen in RECALIBRATED:
            recommended = recalibrated
    return LevelResult(
        level,
        recommended,
        choice,
        verdict,
        {
            name: certificate_of(training.evaluation, level, name, confidence)
            for name in (ERM, recalibrated, trained)
            if name in risks
        },
        tuple(name for name in compared if _loses(pooled, trained, name, level, confidence)),
    )


def _loses(
    risks: Mapping[str, Array], trained: str, reference: str, level: Level, confidence: float
) -> bool:
    """Whether a reference has a lower quantile, beyond doubt and margin."""
    if len(risks[trained]) < fewest_to_compare(level, confidence):
        return False
    return gain_over(risks, trained, reference, level, confidence).higher


def risks_left_out(
    training: TableTraining, level: Level, choice: SurrogateChoice
) -> dict[str, Array]:
    """The risks of the training domains by predictors that have not seen them."""
    return {
        **training.constants,
        ERM: choice.risks[0],
        recalibrated_name(level): choice.of(choice.recalibrated),
        trained_name(level): choice.of(choice.trained),
    }


def certificate_of(
    evaluation: Evaluation, level: Level, predictor: str, confidence: float
) -> Certificate | str:
    """A certificate, or the sentence that says why there is none."""
    try:
        return evaluation.certificate(level, confidence, predictor=predictor)
    except (TooFewDomainsError, LevelError) as refusal:
        return str(refusal)
