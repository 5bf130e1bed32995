"""Certificates for domains inside groups: a new ward of a new hospital, or of a known one.

What is bounded, and how, is in docs/nested-domains.md. Subsampling is that of Dunn, Wasserman &
Ramdas (2023, Distribution-free prediction sets for two-layer hierarchical models).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import betainc

from eqrm.checks import CONFIDENCE, one_of
from eqrm.evaluation.inference.certificates import (
    MEASURED,
    ROUNDING,
    Certificate,
    domains_needed,
    highest_level,
    quantile_bound,
    too_few,
)
from eqrm.evaluation.inference.nested.members import NestedRisks, effective_number
from eqrm.evaluation.inference.risk_checks import LevelLike, Vector, checked_alpha

ONCE, REPEATED, POOLED = "once", "repeated", "pooled"
SAMPLINGS = (ONCE, REPEATED, POOLED)
HALVES = 0.5 ** np.arange(8.0)
LOG_WEIGHTS = np.log(np.append(HALVES[1:], HALVES[-1]))
"""E-values of these sizes are mixed, as shares of the largest, with these weights."""
FEWEST_POOLED = 20
"""Fewer groups say too little about how alike their members are."""


@dataclass(frozen=True, kw_only=True)
class NestedCertificate(Certificate):
    """A :class:`Certificate` for a new member of a new group, or of a known ``group``.

    ``groups`` and ``members`` count what was measured, ``sampling`` says how members were drawn
    from groups ("" for a known group), and ``labels`` are what groups and members are called.
    ``domains`` is the number of independent units that the certificate rests on: groups, or the
    members of a known group.
    """

    derived = (*Certificate.derived, "approximate")

    groups: int
    members: int
    sampling: str = ""
    group: str | None = None
    labels: tuple[str, str] | None = None

    @property
    def estimated(self) -> str:
        return "how alike members are is estimated" if self.sampling == POOLED else ""

    @property
    def about(self) -> str:
        return new_members(self.risk_kind, self.labels, self.group)

    @property
    def assumption(self) -> str:
        if self.group is not None:
            return (
                "new members are drawn independently from the same distribution as the "
                f"{self.domains} of this group"
            )
        return (
            "new groups are drawn independently from the same distribution as these "
            f"{self.groups}, and a new member is any member of its group, each as likely as the "
            "others (every group counts the same, however many members it has)"
        )


def new_members(
    risk_kind: str, labels: tuple[str, str] | None = None, group: str | None = None
) -> str:
    """The new domains that a statement about members of groups, or of one group, is about."""
    groups, members = (f" ({label})" if label else "" for label in labels or ("", ""))
    size = " of similar size" if risk_kind == MEASURED else ""
    where = f"new groups{groups}" if group is None else f"the group {group!r}"
    return f"new members{members}{size} in {where}"


def nested_bound(
    nested: NestedRisks,
    alpha: LevelLike = 0.9,
    confidence: float = 0.95,
    *,
    sampling: str | None = None,
    seed: int = 0,
    labels: tuple[str, str] | None = None,
) -> NestedCertificate:
    """An upper confidence bound on the α-quantile of the risk of a new member of a new group.

    ``sampling`` is

    - "once": one member of each group, drawn with ``seed``, which must be chosen before the risks
      are seen;
    - "repeated": all draws together, by the mean of their e-values;
    - "pooled": all members, as so many independent domains as the variance of the groups' shares
      suggests, which is approximate;
    - None: "repeated" where there are enough groups for it, otherwise "once".
    """
    level, asked = checked_alpha(alpha), CONFIDENCE.check(confidence, "confidence")
    if sampling is None:
        sampling = REPEATED if len(nested) >= _groups_needed(level, asked, REPEATED) else ONCE
    one_of(sampling, SAMPLINGS, "sampling")
    needed = _groups_needed(level, asked, sampling)
    if len(nested) < needed:
        reach = highest_level(len(nested), asked if sampling == ONCE else (1.0 + asked) / 2.0)
        raise too_few(len(nested), level, asked, needed, kind="groups", highest=reach)
    if sampling == ONCE:
        chosen = nested.risks[nested.drawn_members(seed)]
        return as_nested(quantile_bound(chosen, level, asked), nested, sampling, labels)
    if sampling == REPEATED:
        miss = 1.0 - asked
        least = -math.log(miss) - ROUNDING
        bound, rank = nested.first_risk(lambda shares: _log_e_value(shares, level) >= least)
    else:
        bound, rank = nested.first_risk(_pooled(nested, level, asked))
    plain = Certificate(
        bound=bound,
        confidence=asked,
        achieved=asked,
        domains=len(nested),
        method="mean of e-values" if sampling == REPEATED else "pooled members",
        rank=rank,
        alpha=level,
    )
    return as_nested(plain, nested, sampling, labels)


def known_group_bound(
    nested: NestedRisks,
    group: str,
    alpha: LevelLike = 0.9,
    confidence: float = 0.95,
    *,
    labels: tuple[str, str] | None = None,
) -> NestedCertificate:
    """An upper confidence bound on the α-quantile of risk of a new member of one known group.

    It rests on the members of this group alone, which are independent given the group. A bound for
    every group holds with its confidence each, not for all of them together.
    """
    level, asked = checked_alpha(alpha), CONFIDENCE.check(confidence, "confidence")
    inside = nested.of_group(group)
    if inside.size < domains_needed(level, asked):
        raise too_few(inside.size, level, asked, kind=f"members of the group {group!r}")
    return as_nested(quantile_bound(inside, level, asked), nested, "", labels, group=group)


def outer_domains_needed(alpha: LevelLike, confidence: float, sampling: str = REPEATED) -> int:
    """The fewest groups that bound the α-quantile for a new member of a new group.

    The pooled form also needs that its members count as enough independent domains.
    """
    level, asked = checked_alpha(alpha), CONFIDENCE.check(confidence, "confidence")
    return _groups_needed(level, asked, sampling)


@lru_cache(maxsize=1024)
def _groups_needed(alpha: float, confidence: float, sampling: str) -> int:
    low, high = (domains_needed(alpha, c) for c in (confidence, (1.0 + confidence) / 2.0))
    if sampling != REPEATED:
        return low if sampling == ONCE else min(FEWEST_POOLED, low)
    least = -math.log(1.0 - confidence) - ROUNDING

    def is_enough(groups: int) -> bool:  # if all members are below the bound
        return _log_e_value(np.ones(groups), alpha) >= least

    return bisect_left(range(high), True, lo=low, key=is_enough)


def as_nested(
    plain: Certificate,
    nested: NestedRisks,
    sampling: str,
    labels: tuple[str, str] | None,
    *,
    group: str | None = None,
) -> NestedCertificate:
    """A certificate about members drawn from groups, in these words."""
    return NestedCertificate(
        **vars(plain),
        groups=len(nested),
        members=nested.risks.size,
        sampling=sampling,
        group=group,
        labels=labels,
    )


def _log_e_value(shares: Vector, alpha: float) -> float:
    """The logarithm of the mean over all draws of an e-value of the number drawn below a risk.

    Of one draw, Π (1 + λ(X_j − α)) with X_j = 1 where the member of group j lies below, 0 where
    not, and λ from 0 to 1/α, has a mean of at most 1 if P(X_j = 1) ≤ α. Draws from different groups
    are independent, so that the mean over all draws has the share s_j of group j in place of X_j.
    Mixed over λ = 1/α, half of it, and so on, with weights ½, ¼, …
    """
    with np.errstate(divide="ignore"):
        logs = np.log1p(HALVES[:, None] * (shares - alpha) / alpha).sum(axis=1)
    return float(np.logaddexp.reduce(logs + LOG_WEIGHTS))


def _pooled(nested: NestedRisks, alpha: float, confidence: float) -> Callable[[Vector], bool]:
    """Whether a risk is a bound, by the mean share of the groups as that of independent domains."""
    miss = 1.0 - confidence
    number = effective_number(nested, alpha, miss)
    if alpha**number > miss * (1.0 + ROUNDING):
        needed = math.ceil(len(nested) * domains_needed(alpha, confidence) / number)
        reach = highest_level(number, confidence)
        raise too_few(len(nested), alpha, confidence, needed, kind="groups", highest=reach)

    def is_enough(shares: Vector) -> bool:
        share = float(shares.mean())
        below, above = number * share, number * (1.0 - share)
        return share > 0.0 and bool(betainc(below, above + 1.0, alpha) <= miss * (1.0 + ROUNDING))

    return is_enough
