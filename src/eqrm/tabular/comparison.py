"""Every level against ERM on held-out domains, in numbers: what it gains and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

from eqrm.errors import LevelError, TooFewDomainsError
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.certificates import Certificate
from eqrm.evaluation.inference.comparison import LEVELS as COMPARED_LEVELS
from eqrm.evaluation.inference.comparison import Difference
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.presenting.summary import Summary, summarised
from eqrm.level import Level
from eqrm.tabular.training import ERM, LEVELS, TableTraining, predictor_name

TOLD_FIRST = 0.9
"""The headline level is the trained level closest to this."""


@dataclass(frozen=True)
class LevelGain:
    """A level and ERM: the quantile that was trained for, the mean risk, and certificates.

    ``quantile`` and ``mean`` are differences, paired by domain, on domains that neither saw.
    Where there are too few domains for a certificate, it is replaced by a sentence that says so.
    """

    level: Level
    quantile: Difference
    mean: Difference
    certificate: Certificate | str
    certificate_of_erm: Certificate | str


@dataclass(frozen=True, eq=False)
class ComparisonWithERM:
    """All results of a training, computed once.

    ``table`` holds mean and quantiles at the trained levels (where there are none, the usual
    ones) and 1; ``summary`` holds noise and signs that domains are not exchangeable.
    """

    gains: tuple[LevelGain, ...]
    table: RiskTable
    summary: Summary
    confidence: float

    @property
    def first(self) -> LevelGain:
        """The level to speak of first."""
        return min(self.gains, key=lambda gain: abs(gain.level.alpha - TOLD_FIRST))

    @property
    def best_in_own_column(self) -> int:
        """How many levels have the lowest value of the quantile they were trained for."""
        places = {each.level: place for place, each in enumerate(self.table.statistics)}
        rows = self.table.cells
        return sum(rows[predictor_name(g.level)][places[g.level]].best for g in self.gains)


def compare_with_erm(training: TableTraining, confidence: float = 0.95) -> ComparisonWithERM:
    """Compare every trained level with ERM on the domains held out."""
    judged, levels = training.evaluation, training.levels
    # A certificate speaks of levels below 1.
    possible = [level for level in levels if level.alpha < 1.0]
    certified = min(possible, key=lambda level: abs(level.alpha - TOLD_FIRST), default=Level(0.9))
    summary = summarised(judged, certified, confidence)
    differences = summary.differences
    if any(level.alpha not in COMPARED_LEVELS for level in levels):
        differences = judged.compare(ERM, list(levels), confidence=confidence)
    gains = []
    for place, level in enumerate(levels):
        of_level = differences[predictor_name(level)]
        if differences is summary.differences:
            place = COMPARED_LEVELS.index(level.alpha)
        gains.append(
            LevelGain(
                level,
                [each for each in of_level if each.statistic == "quantile"][place],
                next(each for each in of_level if each.statistic == "mean"),
                _certificate(judged, level, predictor_name(level), confidence),
                _certificate(judged, level, ERM, confidence),
            )
        )
    below = [level for level in levels if level != Level(1.0)]
    return ComparisonWithERM(
        tuple(gains),
        judged.risk_table(
            [*(below or map(Level, LEVELS)), Level(1.0)], [], confidence=confidence, worst=0
        ),
        summary,
        confidence,
    )


def _certificate(
    evaluation: Evaluation, level: Level, predictor: str, confidence: float
) -> Certificate | str:
    try:
        return evaluation.certificate(level, confidence, predictor=predictor)
    except (TooFewDomainsError, LevelError) as refusal:
        return str(refusal)
