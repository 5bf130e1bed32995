"""Which model to hand over for the next domain, and how sure it is that this is right.

Every candidate has a risk on every domain by models that were fitted without it. The aim is a low
α-quantile of risk. The rule:

1. Plain training is the reference: of the families the one with the lowest mean risk.
2. Out of the question are candidates whose mean risk is above that of plain training by more than
   the budget, and those whose predictions hardly vary: a quantile of log-loss rewards being unsure.
3. The lowest quantile wins. It is averaged over levels near α, which orders candidates better.
4. Of the candidates that the winner is below with a probability of less than ``SURE`` the one with
   the lowest mean risk is taken. (The simplest of them was tried first: with regressions of 20
   domains it was worse than plain training by 7%, the lowest mean by 5%.)
5. Where its quantile, corrected for having been chosen, is more likely above than below that of
   plain training, plain training it is.

With fewer than one domain expected beyond the level nothing is trained for it: recalibration takes
two numbers and not a fit to domains that are not there. ``python -m studies policy`` measures what
the rule achieves, beside always and never training for the level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eqrm.estimators.selection.surrogates import WIDE
from eqrm.evaluation.inference.sureness import (
    QuantileChange,
    compare_quantiles,
    optimism_of_choosing,
    resampled_lognormal_quantiles,
    resampled_smooth_quantiles,
    smooth_quantile,
)
from eqrm.evaluation.measuring.requirement import Requirement
from eqrm.level import Level
from eqrm.tabular.choosing.candidates import Candidate
from eqrm.tabular.choosing.decision import Decision

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
BUDGET = 0.1
"""By how much the mean risk may be above that of plain training, as a share."""
SURE, EVEN = 0.55, 0.5
RESAMPLES = 400
KEPT_SKILL, KEPT_SPREAD = 0.5, 0.1
"""The least AUC above ½ (or R²), and spread of scores, as shares of those of plain training."""


@dataclass(frozen=True, eq=False)
class Contest:
    """Candidates for a level, and what is known of them on domains that they have not seen.

    ``risks`` (C, m) are those of the candidates on judged domains, ``rankings`` and ``spreads``
    (C,) the AUC above ½ or R², and the spread of their scores. ``block`` is how many domains that
    follow each other in time are drawn together. Where something is ``required``, what counts is
    ``kept`` (C,): what candidates keep at the setting at which a share α of the domains meet it.
    """

    level: Level
    candidates: tuple[Candidate, ...]
    risks: Array
    rankings: Array
    spreads: Array
    budget: float = BUDGET
    block: int | None = None
    measure: str = "quantile"
    required: Requirement | None = None
    kept: Array | None = None

    @property
    def plain(self) -> int:
        """The reference: of plain trainings the one with the lowest mean risk."""
        plain = [each.plain for each in self.candidates]
        return int(np.where(plain, self.risks.mean(axis=1), np.inf).argmin())

    def place(self, risks: Array | None = None) -> int:
        """The candidate that the rule takes by these risks, by default by those of all domains."""
        found = self.risks if risks is None else risks
        if self.required is not None and self.kept is not None:
            return int((self.kept if self.required.how.more else -self.kept).argmax())
        if self.measure != "quantile":
            return self._as_asked(found)
        allowed = self.allowed(found)
        compared, drawn = self._compared(found)
        winner = int(np.where(allowed, compared, np.inf).argmin())
        lower = drawn[:, [winner]] - drawn
        sure = (lower < 0.0).mean(axis=0) + 0.5 * (lower == 0.0).mean(axis=0)
        near = allowed & (sure < SURE)
        near[winner] = True
        means = found.mean(axis=1)
        # Of equal means the simpler: from plain to trained, and families in their order.
        order = list(dict.fromkeys(c.family for c in self.candidates))
        ranks = [(means[i], c.effort, order.index(c.family)) for i, c in enumerate(self.candidates)]
        return min(np.flatnonzero(near).tolist(), key=ranks.__getitem__)

    def _as_asked(self, risks: Array) -> int:
        """What was asked for by another measure, of the family in which that is lowest."""
        asked = [place for place, each in enumerate(self.candidates) if not each.plain]
        worst = 1 if self.measure == "worst" else max(1, round(self.beyond))
        tails = np.sort(risks, axis=1)[:, -worst:].mean(axis=1)
        return min(asked, key=tails.__getitem__, default=self.plain)  # for the mean

    def allowed(self, risks: Array | None = None) -> Mask:
        """Which candidates are within the budget and have predictions that vary."""
        found = self.risks if risks is None else risks
        means, plain = found.mean(axis=1), self.plain
        own = means[plain]
        within = means <= own + self.budget * abs(own)
        usable = within & self._ranks & (self.spreads >= KEPT_SPREAD * self.spreads[plain])
        if self.beyond < 1.0:
            usable &= [c.plain or c.way.correction is not None for c in self.candidates]
        usable[plain] = True
        return np.asarray(usable)

    @property
    def _ranks(self) -> Mask:
        """Which candidates order rows nearly as well as plain training, where that does so."""
        own = float(self.rankings[self.plain])
        return np.asarray((self.rankings >= KEPT_SKILL * own) | (own <= 0.0))

    @property
    def beyond(self) -> float:
        """How many judged domains are expected beyond the level."""
        return float(self.risks.shape[1] * self.level.tail) + 1e-9

    def _compared(self, risks: Array) -> tuple[Array, Array]:
        """What candidates are compared by (C,), and the same in resamples (B, C)."""
        if self.beyond < 1.0 and self.level != Level(1.0) and (risks > 0.0).all():
            return resampled_lognormal_quantiles(risks, self.level, RESAMPLES, seed=0)
        block = self.block or 1
        return resampled_smooth_quantiles(risks, self.level, RESAMPLES, 0, WIDE, block=block)

    def refusal(self, place: int) -> str:
        """Why a candidate is out of the question."""
        own, plain = self.risks[place].mean(), self.risks[self.plain].mean()
        if own > plain + self.budget * abs(plain):
            return f"average {(own - plain) / (abs(plain) or 1.0):.0%} higher"
        if self.beyond < 1.0:
            return "too few domains to train for it"
        return "predictions hardly vary" if self._ranks[place] else "orders rows much worse"

    def shown(self, chosen: int, *others: int) -> list[int]:
        """Of candidates with the same name one each: the chosen one and others, or the lowest.

        One that is allowed goes first where it is below plain training of its family.
        """
        allowed, compared = self.allowed(), self._compared(self.risks)[0]
        plain = {c.family: compared[i] for i, c in enumerate(self.candidates) if c.plain}
        good = [
            a and v <= plain[c.family]
            for c, a, v in zip(self.candidates, allowed, compared, strict=True)
        ]
        best: dict[str, int] = {}
        rank = {c: (not good[c], compared[c]) for c in range(len(self.candidates))}
        for place in sorted(rank, key=rank.__getitem__):
            best.setdefault(self.candidates[place].name, place)
        best |= {self.candidates[place].name: place for place in (*others, chosen)}
        return sorted(best.values(), key=lambda c: (c != chosen, compared[c]))


def decide(
    contest: Contest, confidence: float = 0.95, domain: str = "domain"
) -> tuple[Decision, list[int]]:
    """The decision for a level, and the candidates to show; ``domain`` is the domains' column."""
    place, plain, level = contest.place(), contest.plain, contest.level
    candidates, risks, means = contest.candidates, contest.risks, contest.risks.mean(axis=1)
    other, rival, found = place, None, None
    asked = "" if contest.measure == "quantile" else contest.measure
    asked = contest.required.text if contest.required is not None else asked
    if place != plain and not asked:
        found = _change(contest, other, plain, confidence)
        if found.probability < EVEN:
            place, rival = plain, candidates[other].name
    elif not asked:
        allowed, compared = contest.allowed(), contest._compared(risks)[0]
        open_to = [c for c in np.flatnonzero(allowed).tolist() if c != plain]
        if open_to:
            other = min(open_to, key=compared.__getitem__)
            rival = candidates[other].name
    found = found or _change(contest, other, plain, confidence)
    before = smooth_quantile(risks[plain], level)
    after = before * (1.0 + found.change) if place != plain else before
    decided = other != plain and not asked
    decision = Decision(
        level,
        candidates[place].name,
        candidates[plain].name,
        found.sureness if decided else None,
        found.probability if decided else None,
        after,
        before,
        found.change,
        found.low,
        found.high,
        float((means[other] - means[plain]) / (abs(means[plain]) or 1.0)),
        float(means[place]),
        float(means[plain]),
        risks.shape[1],
        confidence,
        rival,
        asked,
        domain,
    )
    return decision, contest.shown(place, other)


def _change(contest: Contest, other: int, plain: int, confidence: float) -> QuantileChange:
    """From plain training to another candidate; corrected for the choice among candidates."""
    level, risks, blocks = contest.level, contest.risks, contest.block
    optimism = 0.0
    if other != plain and len(contest.candidates) > 2:
        optimism = optimism_of_choosing(risks, level, contest.place, blocks=blocks)
    both = risks[other], risks[plain]
    return compare_quantiles(*both, level, confidence, blocks=blocks, optimism=optimism)
