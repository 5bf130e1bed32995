"""All that is said about nested domains: spread per level, new groups, known groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqrm.between_domains import between_domains, restricted_log_likelihood
from eqrm.evaluation.inference.certificates import domains_needed
from eqrm.evaluation.inference.nested.bounds import (
    POOLED,
    SAMPLINGS,
    NestedCertificate,
    known_group_bound,
    nested_bound,
)
from eqrm.evaluation.inference.nested.members import NestedRisks
from eqrm.evaluation.inference.noise import sampling_variances
from eqrm.evaluation.inference.risk_checks import (
    Finding,
    LevelLike,
    Refused,
    Vector,
    checked_alpha,
    or_refused,
)
from eqrm.evaluation.rounding import as_percent, rounded_up
from eqrm.risks import MeasuredRisks
from eqrm.text import counted

SHOWN = 5
INDEPENDENT = (
    "Intervals in tables and of differences, and tests of order, treat domains as independent. "
    "Members of a group are not, so these are too sure; the certificates take it into account."
)


@dataclass(frozen=True)
class NestedFindings:
    """What one model's risks say about members of groups.

    ``new`` are the bounds for a new member of a new group, by sampling; where there are too few
    groups for one, the refusal is in its place. ``known`` are those for a new member
    of a known group, of every group with at least ``needed`` members. ``sizes`` counts the members
    of each group.
    """

    spread: NestedSpread
    new: dict[str, NestedCertificate | Refused]
    known: dict[str, NestedCertificate]
    needed: int
    sizes: dict[str, int]
    alpha: float
    confidence: float

    def to_dict(self) -> dict[str, Any]:
        """Plain types, ready for JSON."""
        return {
            "spread": self.spread.to_dict(),
            "new_groups": {sampling: c.to_dict() for sampling, c in self.new.items()},
            "known_groups": {name: c.to_dict() for name, c in self.known.items()},
            "members_needed": self.needed,
            "members": self.sizes,
        }

    @property
    def sentences(self) -> list[str]:
        """Everything but the certificate for a new member of a new group, which comes first."""
        pooled = self.new[POOLED]
        told = [] if isinstance(pooled, Refused) else [pooled.sentence]
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
    alpha: LevelLike,
    confidence: float,
    labels: tuple[str, str] | None,
) -> NestedFindings:
    """Spread and certificates of risks measured on members of groups, in plain data and words."""
    risks, level = measured.risks, checked_alpha(alpha)
    nested = NestedRisks.of(risks, groups)
    sizes = dict(zip(nested.names, nested.sizes.tolist(), strict=True))
    needed = domains_needed(level, confidence)
    # The variance of a constant's losses may not be known.
    counts = measured.counts if np.isfinite(measured.variances).any() else np.ones(len(risks))
    return NestedFindings(
        spread=nested_spread(nested, counts, measured.variances),
        new={
            sampling: or_refused(
                nested_bound, nested, level, confidence, sampling=sampling, labels=labels
            )
            for sampling in SAMPLINGS
        },
        known={
            name: known_group_bound(nested, name, level, confidence, labels=labels)
            for name, members in sizes.items()
            if members >= needed
        },
        needed=needed,
        sizes=sizes,
        alpha=level,
        confidence=confidence,
    )


GRID = 41
"""Values of B that are tried before the best is refined."""
LEAST = 1e-8
"""The smallest B tried, as a share of the variance of all risks: smaller ones count as 0."""


@dataclass(frozen=True, kw_only=True)
class NestedSpread(Finding):
    """The variance of measured risks by level: between groups, between members, noise.

    ``noise_variance`` is the mean sampling variance, None where no domain has two examples; then
    ``member_variance`` includes the noise. ``member_variance`` is None where no group has two
    members; then ``group_variance`` includes it. ``mean`` is that of the groups' risks.
    """

    derived = ("total_variance", "intraclass_correlation", "sentence")

    groups: int
    members: int
    mean: float
    group_variance: float
    member_variance: float | None
    noise_variance: float | None

    @property
    def total_variance(self) -> float:
        """The variance of a measured risk of a new member of a new group."""
        return self.group_variance + (self.member_variance or 0.0) + (self.noise_variance or 0.0)

    @property
    def intraclass_correlation(self) -> float | None:
        """The correlation of the true risks of two members of a group."""
        if self.member_variance is None:
            return None
        true = self.group_variance + self.member_variance
        return self.group_variance / true if true > 0.0 else 0.0

    @property
    def sentence(self) -> str:
        """The levels in words, as standard deviations and shares of the variance."""
        total = self.total_variance
        if total == 0.0:
            return f"The risks of all {self.members} members of {self.groups} groups are equal."
        members = "members of a group"
        if self.noise_variance is None:
            members += " (sampling noise included: every domain has one example)"
        levels = {
            "groups"
            if self.member_variance is not None
            else "groups and members together, because"
            " no group has two members": self.group_variance,
            members: self.member_variance,
        }
        named = {f"between {what}": variance for what, variance in levels.items()}
        named["sampling noise"] = self.noise_variance
        parts = [
            f"{what} {variance**0.5:.3g} ({as_percent(round(variance / total, 2))})"
            for what, variance in named.items()
            if variance is not None
        ]
        return (
            f"Standard deviations of the risks of {counted(self.members, 'member')} in "
            f"{self.groups} groups (and shares of the variance): {', '.join(parts)}."
        )


def nested_spread(nested: NestedRisks, counts: Any, loss_variances: Any) -> NestedSpread:
    """Split the variance of measured risks into groups, members of groups, and sampling noise.

    The risk of member i of group j is R = μ + a_j + b_ij + ε_ij, with the variances A between
    groups, B between members, and v_ij of sampling noise, which is known. A and B maximise the
    restricted likelihood. For a given B, each group has a mean, weighted by 1/(B + v), with a known
    variance, and A is the variance between these means as :mod:`eqrm.between_domains` estimates
    it; so only B is searched for.

    Risks (m,) are means of ``counts`` (m,) losses whose variances are ``loss_variances`` (m,).
    """
    noise = sampling_variances(counts, loss_variances, nested.risks.size)
    pivot, unit = float(nested.risks.mean()), float(np.ptp(nested.risks)) or 1.0
    known = np.zeros_like(nested.risks) if noise is None else noise / unit / unit
    scaled = (nested.risks - pivot) / unit, nested.ids, known
    several = nested.risks.size > len(nested)
    inside = _member_variance(*scaled) if several else 0.0
    between, mean = _at(inside, *scaled)[1:]
    return NestedSpread(
        groups=len(nested),
        members=nested.risks.size,
        mean=pivot + unit * mean,
        group_variance=between * unit * unit,
        member_variance=inside * unit * unit if several else None,
        noise_variance=None if noise is None else float(noise.mean()),
    )


def _member_variance(risks: Vector, ids: Any, noise: Vector) -> float:
    """B, at the maximum of the restricted likelihood."""
    from scipy.optimize import minimize_scalar

    scale = float(risks.var())
    if scale == 0.0:
        return 0.0

    def cost(log_variance: float) -> float:
        return -_at(math.exp(log_variance), risks, ids, noise)[0]

    grid = np.linspace(math.log(LEAST * scale), math.log(4.0 * scale), GRID)
    costs = [cost(float(each)) for each in grid]
    best = int(np.argmin(costs))
    if best == 0:
        return 0.0
    ends = grid[best - 1], grid[min(best + 1, GRID - 1)]
    return math.exp(float(minimize_scalar(cost, bounds=ends, method="bounded").x))


def _at(inside: float, risks: Vector, ids: Any, noise: Vector) -> tuple[float, float, float]:
    """The restricted likelihood at B = ``inside`` and the best A, up to a constant; A; the mean."""
    variances = np.maximum(noise + inside, LEAST * LEAST)
    weights = np.bincount(ids, 1.0 / variances)
    means = np.bincount(ids, risks / variances) / weights
    own = np.log(variances).sum() + np.log(weights).sum()
    own += ((risks - means[ids]) ** 2 / variances).sum()
    errors = 1.0 / weights
    mean, between, _ = between_domains(means, errors)
    likelihood = restricted_log_likelihood(between, means - mean, errors) - 0.5 * float(own)
    return likelihood, between, mean
