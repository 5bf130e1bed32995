"""How much risks differ between groups, between members of a group, and by sampling noise.

The measured risk of member i of group j is R = μ + a_j + b_ij + ε_ij, with the variances A between
groups, B between members of a group, and v_ij of sampling noise, which is known
(:func:`eqrm.evaluation.inference.noise.sampling_variances`). A and B maximise the restricted
likelihood. For a given B, each group has a mean, weighted by 1/(B + v), with a known variance, and
A is the variance between these means as :mod:`eqrm.between_domains` estimates it; so only B has
to be searched for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from eqrm.between_domains import between_domains, restricted_log_likelihood
from eqrm.evaluation.inference.finding import Finding
from eqrm.evaluation.inference.nested.members import NestedRisks
from eqrm.evaluation.inference.noise import sampling_variances
from eqrm.evaluation.inference.risk_checks import Vector
from eqrm.evaluation.rounding import as_percent
from eqrm.text import counted

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


def nested_spread(risks: Any, groups: Any, counts: Any, loss_variances: Any) -> NestedSpread:
    """Split the variance of measured risks into groups, members of groups, and sampling noise.

    ``risks`` (m,) are means of ``counts`` (m,) losses whose variances are ``loss_variances`` (m,),
    as in :func:`eqrm.evaluation.noise_split`; ``groups`` (m,) say which group each domain is in.

    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(np.arange(400), 10)
    >>> true = rng.normal(1.0, 0.2, 400)[groups] + rng.normal(0.0, 0.1, 4000)
    >>> found = nested_spread(true + rng.normal(0.0, 0.1, 4000), groups, 100, 1.0)
    >>> [round(v**0.5, 2) for v in (found.group_variance, found.member_variance)]
    [0.2, 0.1]
    """
    nested = NestedRisks.of(risks, groups)
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
    values, errors = torch.from_numpy(means), torch.from_numpy(1.0 / weights)
    found = between_domains(values, errors)
    between = float(found.variance)
    centred = values - float(found.mean)
    likelihood = restricted_log_likelihood(between, centred, errors) - 0.5 * float(own)
    return likelihood, between, float(found.mean)
