"""What stands beside a decision: what to expect of a new domain, and what to mind, in words."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from eqrm.errors import LevelError, Setting, TooFewDomainsError
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.certificates import Certificate
from eqrm.evaluation.inference.exchangeability import ExchangeabilityTest
from eqrm.evaluation.inference.noise import MUCH
from eqrm.evaluation.inference.sureness import smooth_quantile
from eqrm.level import Level
from eqrm.tabular.choosing.decision import Decision, plural
from eqrm.tabular.training import TableTraining
from eqrm.text import one_line, shortened

MOST_LISTED = 3
ALL_BUT_PERFECT = 0.9995
"""An AUC or R² from which on predictions are too good to be true."""


def stated(
    evaluation: Evaluation, decision: Decision, confidence: float, model: str | None = None
) -> Certificate | str:
    """A bound on the risk that a share α of new domains has at most, or why there is none.

    The bound is one whose assumption the data do not reject: for domains that resemble those next
    to them in time it is the bound for spells. It is of the chosen model unless another is named.
    """
    name, level, several = model or decision.chosen, decision.alpha, plural(decision.domain)[1]
    tested = in_time_test(evaluation, name)
    try:
        if tested is None or tested.rejected is None:
            return evaluation.certificate(level, confidence, model=name)
        if tested.rejected == "trend":
            return "the risk changes over time"
        bounds = evaluation.in_time(spells=True, alpha=level, confidence=confidence, model=name)
        if isinstance(found := bounds["spells"], Certificate):
            return found
        return "their risks rise and fall in runs that are too long for one"
    except (TooFewDomainsError, LevelError) as refusal:
        if level == Level(1.0):
            return f"none is possible for the worst of all new {several}; certify a level below 1"
        needed = getattr(refusal, "needed", math.inf)
        if evaluation.nesting is None and 0.0 < needed < math.inf:
            return f"it takes at least {needed:,.0f} {several}"
        return shortened(str(refusal), 160)


def expected_of(evaluation: Evaluation, decision: Decision, confidence: float) -> Certificate | str:
    """What to expect of the chosen model by cross-fitted risks.

    The estimate is corrected for having been chosen by these risks, the bound is not: it is raised
    to the estimate where that is higher.
    """
    found = stated(evaluation, decision, confidence)
    if isinstance(found, str) or found.bound >= decision.quantile:
        return found
    return replace(found, bound=decision.quantile, method=f"{found.method}, raised to the estimate")


def in_time_test(evaluation: Evaluation, model: str) -> ExchangeabilityTest | None:
    """The test of whether the risk changes over time, where domains have an order."""
    tests = evaluation.exchangeability[model]
    return tests[0] if evaluation.time_order is not None and tests else None


def minded_of(training: TableTraining) -> list[str]:
    """What to mind, the most important first, a line each."""
    decision, judged = training.decision, training.evaluation
    one, several = plural(decision.domain)
    found = [*training.leaks]
    skill = training.skills[decision.chosen]
    if skill.ranking >= ALL_BUT_PERFECT:
        found.append(
            f"predictions are all but perfect ({next(iter(skill.named))} above {ALL_BUT_PERFECT}): "
            "is a column made from the target, or known only after it? Leave it out "
            f"({Setting('drop')})"
        )
    tested = in_time_test(judged, decision.chosen)
    if tested is not None and tested.rejected == "trend":
        found.append(f"the risk changes over time: new {several} may be unlike these")
    elif tested is not None and tested.rejected is not None:
        found.append(
            f"{several} next to each other in time resemble each other: intervals are for blocks "
            "of them"
        )
    found += _guessing(training, decision)
    noise, single = judged.noise[decision.chosen], judged[decision.chosen].counts < 2
    if noise is None:
        found.append(f"every {one} has one row: is this the right column for {Setting('domain')}?")
    elif noise.noise_share >= MUCH:
        found.append(
            f"{noise.noise_share:.0%} of the spread of its risks between {several} is sampling "
            "noise: the highest risks may be chance"
        )
    if single.any() and noise is not None:
        found.append(f"{single.mean():.0%} of the {several} have a single row")
    return found + [note for note in training.notes if note not in training.leaks]


def _guessing(training: TableTraining, decision: Decision) -> list[str]:
    """Where a constant has a lower quantile: in which domains the model is worse than guessing."""
    judged, level = training.evaluation, decision.alpha
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
    one, several = plural(decision.domain)
    average = f" and on the average {one}" if worse.mean() > 0.0 else ""
    most = ", ".join(map(one_line, names[:MOST_LISTED]))
    return [
        f"in {round(10.0 * (worse > 0.0).mean()) or 'less than 1'} of 10 {several} it is worse "
        f"than the {best}{average}: {most}{' …' if len(names) > MOST_LISTED else ''}"
    ]
