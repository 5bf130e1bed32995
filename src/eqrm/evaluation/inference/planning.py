"""How many domains must be collected before a statement about new ones is possible."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from eqrm.checks import CONFIDENCE, POSITIVE, integer
from eqrm.errors import SettingError
from eqrm.evaluation.inference import binomial_ranks
from eqrm.evaluation.inference.finding import Finding
from eqrm.evaluation.inference.paper_bound import PaperBound, paper_bound
from eqrm.evaluation.inference.risk_checks import LevelLike, checked_alpha
from eqrm.evaluation.rounding import as_percent
from eqrm.level import Level

PREDICTORS = integer(1, 1_000_000)


@dataclass(frozen=True)
class PlanRow:
    """What is bounded, the domains that it takes (None: no number is enough), and by what."""

    statement: str
    domains: int | None
    bound: str


@dataclass(frozen=True)
class DomainPlan(Finding):
    """The domains needed for each kind of statement, and what a given number can bound.

    ``domains`` is the fewest with which the α-quantile of risk can be bounded at all.
    """

    alpha: float
    confidence: float
    predictors: int
    domains: int
    rows: list[PlanRow]
    paper: PaperBound
    in_hand: str | None

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        several = "" if self.predictors == 1 else f", for {self.predictors:,} predictors at once"
        return (
            f"Collect at least {self.domains:,} domains that no model is trained or chosen on: "
            f"with {as_percent(self.confidence)} confidence, {_new_domains(self.alpha)} then have "
            f"at most the largest of their risks{several}."
        )

    @property
    def tighter(self) -> str:
        """What more domains give."""
        second, fifth, tight = self.rows[1:4]
        return (
            f"More domains give a lower bound: {second.domains:,} the second largest of their "
            f"risks, {fifth.domains:,} the 5th largest, {tight.domains:,} {tight.bound}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {**super().to_dict(), "paper": self.paper.to_dict()}


def domain_plan(
    alpha: LevelLike = 0.9,
    confidence: float = 0.95,
    *,
    slack: float | None = None,
    domains: int | None = None,
    predictors: int = 1,
    covering_number: float | None = None,
    lipschitz: float = 1.0,
    bias: float = 0.0,
) -> DomainPlan:
    """Answer "how many domains must I collect?".

    ``slack`` says how tight the bound should be: at most the (α + slack)-quantile of the
    measured risks; from (1−α)/1000 to 1−α, and (1−α)/2 unless given. ``domains`` adds what that
    many can bound. With several ``predictors`` measured on the same domains, the statements hold
    for all of them at once, so the best may be chosen afterwards: each gets its share of 1 −
    confidence. The rest are the constants of the paper's bound
    (:func:`eqrm.evaluation.paper_bound`); its covering number is the number of predictors unless
    given.

    >>> plan = domain_plan(0.9, 0.95)
    >>> plan.domains, plan.paper.domains_needed
    (29, 16241)
    """
    level, asked = checked_alpha(alpha), CONFIDENCE.check(confidence, "confidence")
    PREDICTORS.check(predictors, "predictors")
    tail = 1.0 - level
    room = tail / 2.0 if slack is None else float(POSITIVE.check(slack, "slack"))
    least = tail / 1000.0
    if not least * (1.0 - 1e-12) <= room <= tail * (1.0 + 1e-12):
        raise SettingError(
            f"slack must be from (1 − alpha)/1000 = {least:.4g} to 1 − alpha = {tail:.4g}, got "
            f"{slack!r}."
        )
    cover = float(predictors) if covering_number is None else covering_number
    each = CONFIDENCE.check(1.0 - (1.0 - asked) / predictors, "confidence for each predictor")
    needed = binomial_ranks.domains_needed(level, each)
    here = needed if domains is None else domains
    paper = paper_bound(here, level, asked, covering_number=cover, lipschitz=lipschitz, bias=bias)
    rows = [_order_row(level, each, beyond) for beyond in (0, 1, 4)]
    rows += [_tight_row(level, each, room), *_dkw_rows(level, each, room)]
    rows += _paper_rows(level, room, paper)
    in_hand = None if domains is None else _in_hand(domains, level, each)
    return DomainPlan(level, asked, predictors, needed, rows, paper, in_hand)


def tight_domains(alpha: float, confidence: float, slack: float) -> tuple[int, int]:
    """The fewest domains whose bound is at most the (α + slack)-quantile of their risks.

    With j risks beyond the bound, m(j) domains are needed; the first j with
    j ≥ (1 − α − slack)·m(j) is found by bisection, and a look back because m(j) is rounded.
    Returns m and j.

    >>> tight_domains(0.9, 0.95, 0.05)
    (116, 6)
    """

    def tight(beyond: int) -> bool:
        needed = binomial_ranks.domains_needed(alpha, confidence, beyond)
        return beyond >= (1.0 - alpha - slack) * needed * (1.0 - 1e-12)

    low, high = -1, 1
    while not tight(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tight(middle) else (middle, high)
    first = next(j for j in range(max(0, high - 200), high + 1) if tight(j))
    return binomial_ranks.domains_needed(alpha, confidence, first), first


def _order_row(alpha: float, confidence: float, beyond: int) -> PlanRow:
    bound = f"the {_largest(beyond)} measured risk"
    needed = binomial_ranks.domains_needed(alpha, confidence, beyond)
    return PlanRow(f"the {alpha:.6g}-quantile of risk", needed, bound)


def _tight_row(alpha: float, confidence: float, slack: float) -> PlanRow:
    needed, beyond = tight_domains(alpha, confidence, slack)
    bound = f"their {alpha + slack:.6g}-quantile ({beyond} above)"
    return PlanRow(f"the {alpha:.6g}-quantile of risk", needed, bound)


def _dkw_rows(alpha: float, confidence: float, slack: float) -> list[PlanRow]:
    """All quantiles at once, by the two-sided DKW band: m = log(2/δ)/2ε²."""

    def row(room: float, bound: str) -> PlanRow:
        needed = math.ceil(math.log(2.0 / (1.0 - confidence)) / (2.0 * room**2))
        return PlanRow(f"quantiles up to {alpha:.6g} (DKW)", needed, bound)

    return [
        row(1.0 - alpha, "the largest measured risk"),
        row(slack, f"measured quantiles {slack:.3g} higher"),
    ]


def _paper_rows(alpha: float, slack: float, paper: PaperBound) -> list[PlanRow]:
    statement = f"the {alpha:.6g}-quantile (Theorem D.1)"
    rows = [PlanRow(statement, paper.domains_needed, "the largest estimated risk")]
    room = slack - paper.bias
    needed = None
    if room > 0.0:
        constant = paper.slack**2 * paper.domains
        needed = math.ceil(constant / room**2 * (1.0 - 1e-12))
    rows.append(PlanRow(statement, needed, f"the estimated {alpha + slack:.6g}-quantile"))
    return rows


def _in_hand(domains: int, alpha: float, confidence: float) -> str:
    """What a number of domains can bound."""
    rank = binomial_ranks.upper_rank(domains, alpha, 1.0 - confidence)
    reach = math.floor(1e4 * binomial_ranks.highest_level(domains, confidence)) / 1e4
    most = f"The most that they can bound is {as_percent(reach)} of new domains."
    if rank is None:
        needed = binomial_ranks.domains_needed(alpha, confidence)
        return f"{domains:,} domains are too few: {needed:,} are needed. {most}"
    achieved = math.floor(1e4 * (1.0 - binomial_ranks.at_least(rank, domains, alpha))) / 1e4
    return (
        f"{domains:,} domains are enough: the {_largest(domains - rank)} of their risks is the "
        f"bound (confidence achieved {as_percent(achieved)}). {most}"
    )


def _largest(beyond: int) -> str:
    """The place of a risk that so many others exceed.

    >>> [_largest(beyond) for beyond in (0, 1, 2, 10, 20)]
    ['largest', 'second largest', 'third largest', '11th largest', '21st largest']
    """
    place = beyond + 1
    if place <= 3:
        return ("largest", "second largest", "third largest")[beyond]
    last = 0 if 10 < place % 100 < 20 else place % 10
    return f"{place:,}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') } largest"


def _new_domains(alpha: float) -> str:
    """The share of new domains that is bounded.

    >>> _new_domains(0.9), _new_domains(0.97)
    ('9 in 10 new domains', '97% of new domains')
    """
    share = Level(alpha).share_in_words
    return f"{share} new domains" if " in " in share else f"{share} of new domains"
