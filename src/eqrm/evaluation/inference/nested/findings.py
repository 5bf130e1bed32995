"""All that is said about nested domains: spread per level, new groups, known groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqrm.errors import TooFewDomainsError
from eqrm.evaluation.inference.binomial_ranks import domains_needed
from eqrm.evaluation.inference.certificates import quantile_bound
from eqrm.evaluation.inference.nested.bounds import (
    POOLED,
    SAMPLINGS,
    NestedCertificate,
    as_nested,
    new_group_bound,
)
from eqrm.evaluation.inference.nested.members import NestedRisks
from eqrm.evaluation.inference.nested.spread import NestedSpread, nested_spread
from eqrm.evaluation.inference.risk_checks import LevelLike, checked_alpha
from eqrm.evaluation.rounding import as_percent, rounded_up
from eqrm.risks import MeasuredRisks

SHOWN = 5
INDEPENDENT = (
    "Intervals in tables and of differences, and tests of order, treat domains as independent. "
    "Members of a group are not, so these are too sure; the certificates take it into account."
)


@dataclass(frozen=True)
class NestedFindings:
    """What one predictor's risks say about members of groups.

    ``new`` are the bounds for a new member of a new group, by sampling; where there are too few
    groups for one, the sentence that says so is in its place. ``known`` are those for a new member
    of a known group, of every group with at least ``needed`` members. ``sizes`` counts the members
    of each group.
    """

    spread: NestedSpread
    new: dict[str, NestedCertificate | str]
    known: dict[str, NestedCertificate]
    needed: int
    sizes: dict[str, int]
    alpha: float
    confidence: float

    def to_dict(self) -> dict[str, Any]:
        """Plain types, ready for JSON."""
        return {
            "spread": self.spread.to_dict(),
            "new_groups": {
                sampling: {"refused": c} if isinstance(c, str) else c.to_dict()
                for sampling, c in self.new.items()
            },
            "known_groups": {name: c.to_dict() for name, c in self.known.items()},
            "members_needed": self.needed,
            "members": self.sizes,
        }

    @property
    def sentences(self) -> list[str]:
        """Everything but the certificate for a new member of a new group, which comes first."""
        pooled = self.new[POOLED]
        told = [] if isinstance(pooled, str) else [pooled.sentence]
        return [*told, self._known_in_words(), self.spread.sentence, INDEPENDENT]

    def _known_in_words(self) -> str:
        enough = len(self.known)
        opening = (
            f"A certificate for a new member of a known group needs {self.needed} members of it: "
            f"{enough or 'none'} of the {len(self.sizes)} groups "
            f"{'have' if enough > 1 else 'has'} as many"
        )
        if not enough:
            largest = max(self.sizes, key=lambda name: self.sizes[name])
            return f"{opening} (the largest, {largest!r}, has {self.sizes[largest]})."
        bounds = [f"{rounded_up(c.bound)} in {name!r}" for name, c in self.known.items()]
        more = f" and {enough - SHOWN} more" if enough > SHOWN else ""
        return (
            f"{opening}. With {as_percent(self.confidence)} confidence each, at least "
            f"{as_percent(self.alpha)} of new members have a measured risk of at most "
            f"{', '.join(bounds[:SHOWN])}{more}, provided that they are drawn independently from "
            "the same distribution as the measured members of their group."
        )


def nested_findings(
    measured: MeasuredRisks,
    groups: Sequence[str],
    alpha: LevelLike = 0.9,
    confidence: float = 0.95,
    labels: tuple[str, str] | None = None,
) -> NestedFindings:
    """Spread and certificates of risks measured on members of groups, in plain data and words.

    >>> import numpy as np
    >>> domains, losses = np.arange(80), np.arange(80) / 100
    >>> measured = MeasuredRisks.of(domains, [2] * 80, losses, [1.0] * 80)
    >>> found = nested_findings(measured, ["Oslo"] * 40 + ["Rome"] * 20 + ["Bonn"] * 20)
    >>> list(found.known), found.new["once"]
    (['Oslo'], '3 groups are too few to bound the 0.9-quantile of risk with 95% confidence: ...')
    """
    risks, level = measured.risks, checked_alpha(alpha)
    nested = NestedRisks.of(risks, groups)
    sizes = dict(zip(nested.names, nested.sizes.tolist(), strict=True))
    needed = domains_needed(level, confidence)
    # The variance of a constant's losses may not be known.
    counts = measured.counts if np.isfinite(measured.variances).any() else np.ones(len(risks))
    new: dict[str, NestedCertificate | str] = {}
    for sampling in SAMPLINGS:
        try:
            new[sampling] = new_group_bound(
                nested, level, confidence, sampling=sampling, labels=labels
            )
        except TooFewDomainsError as refusal:
            new[sampling] = str(refusal)
    return NestedFindings(
        spread=nested_spread(risks, groups, counts, measured.variances),
        new=new,
        known={
            name: as_nested(
                quantile_bound(inside, level, confidence), nested, "", labels, group=name
            )
            for name, inside in nested.with_members(needed)
        },
        needed=needed,
        sizes=sizes,
        alpha=level,
        confidence=confidence,
    )
