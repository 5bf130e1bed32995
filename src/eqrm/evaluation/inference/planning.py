"""How many domains must be collected before a statement about new ones is possible.

**The paper's own bound (Theorem D.1).** For m independent domains, an estimate F̂_f of the CDF F_f
of the risk of f, any ε > 0, and L the Lipschitz constant of F̂ as a function of the empirical CDF,
the proof gives

    P( sup_f F_f⁻¹(α − B − ε) − F̂_f⁻¹(α) > t ) ≤ δ + 8·𝒩·exp(−m·ε²/(32·L²)).

B is the bias sup (E F̂_f − F_f), and with probability 1 − δ every measured risk is within t of
its true risk. Where this departs from the text of appendix D:

- The exponent is m·ε²/(32·L²): DKW is used at ε/(8L), and 2·(ε/8L)² = ε²/(32L²). The text
  prints ε²/(64L).
- The proof bounds F − F̂ from above; the quantiles need F̂ − F. Its steps are symmetric, so
  both hold, each with its own bias.
- 𝒩 must count models: the fewest such that every f has one of them, g, with
  ‖F̂_f − F̂_g‖ ≤ ε/16 whatever the domains. The text covers the set of CDFs F̂_f instead; which
  member is near F̂_f then depends on the sample, and the union bound of the proof fails. With
  risks 0 or 1, the m+1 possible empirical CDFs are a cover, yet a class that can fit any m
  domains (risk 0 on those drawn, 1 elsewhere) has F̂⁻¹ = 0 and F⁻¹ = 1 with probability 1.

Here the CDF is the empirical one, so that L = 1 and B = 0, the risks are measured ones, so that
δ = 0, and k models, of which one may be chosen afterwards, have 𝒩 = k. For the miss 1 −
confidence, ε is then √(32·log(8k/miss)/m).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

from eqrm.checks import CONFIDENCE, POSITIVE, integer
from eqrm.errors import SettingError
from eqrm.evaluation.inference import certificates
from eqrm.evaluation.inference.risk_checks import Finding, LevelLike, checked_alpha
from eqrm.evaluation.rounding import as_percent

MODELS = integer(1, 1_000_000)


@dataclass(frozen=True)
class PlanRow:
    """What is bounded, the domains that it takes, and by what."""

    statement: str
    domains: int
    bound: str


@dataclass(frozen=True)
class DomainPlan(Finding):
    """The domains needed for each kind of statement, and what a given number can bound.

    ``domains`` is the fewest with which the α-quantile of risk can be bounded at all.
    """

    alpha: float
    confidence: float
    models: int
    domains: int
    rows: list[PlanRow]
    paper: PaperBound
    in_hand: str | None

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        several = "" if self.models == 1 else f", for {self.models:,} models at once"
        return (
            f"Collect at least {self.domains:,} domains that no model is trained or chosen on: "
            f"with {as_percent(self.confidence)} confidence, {as_percent(self.alpha)} of new "
            f"domains then have at most the largest of their risks{several}."
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
    models: int = 1,
) -> DomainPlan:
    """Answer "how many domains must I collect?".

    ``slack`` says how tight the bound should be: at most the (α + slack)-quantile of the
    measured risks; from (1−α)/1000 to 1−α, and (1−α)/2 unless given. ``domains`` adds what that
    many can bound. With several ``models`` measured on the same domains, the statements hold
    for all of them at once, so the best may be chosen afterwards: each gets its share of 1 −
    confidence.

    >>> plan = domain_plan(0.9, 0.95)
    >>> plan.domains, plan.paper.domains_needed
    (29, 16241)
    """
    level, asked = checked_alpha(alpha), CONFIDENCE.check(confidence, "confidence")
    MODELS.check(models, "models")
    tail = 1.0 - level
    room = tail / 2.0 if slack is None else float(POSITIVE.check(slack, "slack"))
    least = tail / 1000.0
    if not least * (1.0 - 1e-12) <= room <= tail * (1.0 + 1e-12):
        raise SettingError(
            f"slack must be from (1 − alpha)/1000 = {least:.4g} to 1 − alpha = {tail:.4g}, got "
            f"{slack!r}."
        )
    each = CONFIDENCE.check(1.0 - (1.0 - asked) / models, "confidence for each model")
    needed = certificates.domains_needed(level, each)
    paper = paper_bound(needed if domains is None else domains, level, asked, models)
    rows = _rows(level, each, room, paper)
    in_hand = None if domains is None else _in_hand(domains, level, each)
    return DomainPlan(level, asked, models, needed, rows, paper, in_hand)


def tight_domains(alpha: float, confidence: float, slack: float) -> tuple[int, int]:
    """The fewest domains whose bound is at most the (α + slack)-quantile of their risks.

    With j risks beyond the bound, m(j) domains are needed; the first j with
    j ≥ (1 − α − slack)·m(j) is found by bisection, and a look back because m(j) is rounded.
    Returns m and j.
    """

    def tight(beyond: int) -> bool:
        needed = certificates.domains_needed(alpha, confidence, beyond)
        return beyond >= (1.0 - alpha - slack) * needed * (1.0 - 1e-12)

    most = 1
    while not tight(most):
        most *= 2
    near = bisect_left(range(most), True, key=tight)
    first = next(j for j in range(max(0, near - 200), near + 1) if tight(j))
    return certificates.domains_needed(alpha, confidence, first), first


def _rows(alpha: float, confidence: float, slack: float, paper: PaperBound) -> list[PlanRow]:
    """By order statistics; by the two-sided DKW band (m = log(2/δ)/2ε²); by the paper's bound."""
    tight, beyond = tight_domains(alpha, confidence, slack)
    quantile, theorem = f"the {alpha:.6g}-quantile", f"the {alpha:.6g}-quantile (Theorem D.1)"
    rows = [
        PlanRow(
            f"{quantile} of risk",
            certificates.domains_needed(alpha, confidence, above),
            f"the {_largest(above)} measured risk",
        )
        for above in (0, 1, 4)
    ]
    bound = f"their {alpha + slack:.6g}-quantile ({beyond} above)"
    rows.append(PlanRow(f"{quantile} of risk", tight, bound))
    for room, bound in (
        (1.0 - alpha, "the largest measured risk"),
        (slack, f"measured quantiles {slack:.3g} higher"),
    ):
        needed = math.ceil(math.log(2.0 / (1.0 - confidence)) / (2.0 * room**2))
        rows.append(PlanRow(f"quantiles up to {alpha:.6g} (DKW)", needed, bound))
    rows.append(PlanRow(theorem, paper.domains_needed, "the largest estimated risk"))
    enough = math.ceil(paper.slack**2 * paper.domains / slack**2 * (1.0 - 1e-12))
    return [*rows, PlanRow(theorem, enough, f"the estimated {alpha + slack:.6g}-quantile")]


def _in_hand(domains: int, alpha: float, confidence: float) -> str:
    """What a number of domains can bound."""
    rank = certificates.upper_rank(domains, alpha, 1.0 - confidence)
    reach = math.floor(1e4 * certificates.highest_level(domains, confidence)) / 1e4
    most = f"The most that they can bound is {as_percent(reach)} of new domains."
    if rank is None:
        needed = certificates.domains_needed(alpha, confidence)
        return f"{domains:,} domains are too few: {needed:,} are needed. {most}"
    achieved = math.floor(1e4 * (1.0 - certificates.at_least(rank, domains, alpha))) / 1e4
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


@dataclass(frozen=True, kw_only=True)
class PaperBound(Finding):
    """What Theorem D.1 says of the α-quantile with m domains.

    The bound on F⁻¹(α) is the estimated quantile F̂⁻¹ at ``read_at`` = α + ε, ε being ``slack``. If
    that exceeds 1, the quantile does not exist and the bound is ``vacuous``. ``failure`` is the
    theorem's bound on the probability of error if one reads at level 1, the highest there is.
    ``domains_needed`` is the number from which the theorem says something.
    """

    alpha: float
    confidence: float
    domains: int
    slack: float
    read_at: float
    failure: float
    vacuous: bool
    domains_needed: int
    models: int

    @property
    def sentence(self) -> str:
        """The statement, or that there is none."""
        opening = f"Theorem D.1 with {self.domains:,} domains"
        if not self.vacuous:
            return (
                f"{opening}: with {as_percent(self.confidence)} confidence, the "
                f"{self.alpha:.6g}-quantile of risk is at most the estimated "
                f"{self.read_at:.4g}-quantile."
            )
        return (
            f"{opening} is vacuous: its bound on the probability of error is "
            f"{min(self.failure, 1.0):.3g}, where {1 - self.confidence:.3g} is required. It needs "
            f"at least {self.domains_needed:,} domains."
        )


def paper_bound(domains: int, alpha: float, confidence: float, models: int = 1) -> PaperBound:
    """Theorem D.1 for m domains and some models, with the constants that its proof gives."""
    log_cover = math.log(8.0) + math.log(models)
    rate = 32.0 * (log_cover - math.log(1.0 - confidence))
    slack, room = math.sqrt(rate / domains), 1.0 - alpha
    # 8·𝒩·exp(−m·ε²/32) at the largest ε that leaves a level to read at; it may exceed 1
    log_failure = log_cover - domains * room**2 / 32.0
    return PaperBound(
        alpha=alpha,
        confidence=confidence,
        domains=domains,
        slack=slack,
        read_at=alpha + slack,
        failure=math.exp(log_failure),
        vacuous=slack > room,
        domains_needed=math.ceil(rate / room**2 * (1.0 - 1e-12)),
        models=models,
    )
