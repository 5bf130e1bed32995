"""What is said beside a decision, as data: what to expect of a new domain, and what to mind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eqrm.errors import LevelError, TooFewDomainsError
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.certificates import Certificate
from eqrm.evaluation.inference.exchangeability import ExchangeabilityTest
from eqrm.evaluation.inference.noise import MUCH
from eqrm.evaluation.inference.sureness import smooth_quantile
from eqrm.level import Level
from eqrm.tabular.choosing.contest import Decision
from eqrm.tabular.training import TableTraining

MOST_LISTED = 3
ALL_BUT_PERFECT = 0.9995
"""An AUC or R² from which on predictions are too good to be true."""


@dataclass(frozen=True)
class Expectation:
    """A bound on the risk that a share α of new domains has at most, or why there is none.

    The bound is one whose assumption the data do not reject: for domains that resemble those next
    to them in time it is the bound for spells.
    """

    bound: Certificate | None
    refusal: str = ""
    dependent: bool = False
    needed: float = 0.0
    """How many domains it takes, where there are too few."""


@dataclass(frozen=True)
class Warned:
    """Something to mind, by its ``kind``, with the numbers and names that belong to it."""

    kind: str
    share: float = 0.0
    names: tuple[str, ...] = ()
    text: str = ""


def expectation(
    evaluation: Evaluation, predictor: str, level: Level, confidence: float
) -> Expectation:
    """What to expect of a new domain, by the risks of a predictor on domains it has not seen."""
    tested = in_time_test(evaluation, predictor)
    try:
        if tested is None or tested.rejected is None:
            return Expectation(evaluation.certificate(level, confidence, predictor=predictor))
        if tested.rejected == "trend":
            return Expectation(None, "the risk changes over time", dependent=True)
        found = evaluation.in_time(
            spells=True, alpha=level, confidence=confidence, predictor=predictor
        )["spells"]
        if isinstance(found, Certificate):
            return Expectation(found, dependent=True)
        why = "their risks rise and fall in runs that are too long for one"
        return Expectation(None, why, dependent=True)
    except TooFewDomainsError as refusal:
        needed = 0.0 if evaluation.nesting is not None else refusal.needed
        return Expectation(None, str(refusal), needed=needed)
    except LevelError as refusal:
        return Expectation(None, str(refusal))


def in_time_test(evaluation: Evaluation, predictor: str) -> ExchangeabilityTest | None:
    """The test of whether the risk changes over time, where domains have an order."""
    tests = evaluation.exchangeability[predictor]
    return tests[0] if evaluation.time_order is not None and tests else None


def worst_of(
    evaluation: Evaluation, predictor: str, most: int = MOST_LISTED
) -> list[tuple[str, float]]:
    """The domains with the highest risks."""
    measured = evaluation[predictor]
    order = np.argsort(-measured.risks, kind="stable")[:most]
    return [(str(measured.domains[i]), float(measured.risks[i])) for i in order.tolist()]


def minded_of(training: TableTraining, confidence: float) -> list[Warned]:
    """What to mind, the most important first."""
    decision, judged = training.decision, training.evaluation
    own = judged[decision.chosen]
    found = [Warned("note", text=leak) for leak in training.leaks]
    if training.skills[decision.chosen].ranking >= ALL_BUT_PERFECT:
        found.append(Warned("perfect"))
    found += [*_in_time(judged, decision), *_guessing(training, decision)]
    noise = judged.noise[decision.chosen]
    if noise is None:
        found.append(Warned("one row"))
    elif noise.noise_share >= MUCH:
        found.append(Warned("noise", noise.noise_share))
    if (own.counts < 2).any() and noise is not None:
        share = float((own.counts < 2).mean())
        found.append(Warned("one row domains", share))
    others = [note for note in training.notes if note not in training.leaks]
    return found + [Warned("note", text=note) for note in others]


def _in_time(judged: Evaluation, decision: Decision) -> list[Warned]:
    tested = in_time_test(judged, decision.chosen)
    if tested is None or tested.rejected is None:
        return []
    return [Warned("trend" if tested.rejected == "trend" else "serial")]


def _guessing(training: TableTraining, decision: Decision) -> list[Warned]:
    """Where a constant has a lower quantile: in which domains the model is worse than guessing."""
    judged, level = training.evaluation, decision.level
    lower = {
        name: smooth_quantile(judged[name].risks, level)
        for name in training.constants
        if smooth_quantile(judged[name].risks, level) < decision.quantile
    }
    if not lower:
        return []
    best = min(lower, key=lower.__getitem__)
    worse = judged[decision.chosen].risks - judged[best].risks
    order = np.argsort(-worse, kind="stable")
    names = [str(judged.domains[i]) for i in order.tolist() if worse[i] > 0.0]
    if not names:
        return []
    kind = "guessing" if worse.mean() <= 0.0 else "guessing on average"
    return [Warned(kind, float((worse > 0.0).mean()), tuple(names), best)]
