"""Figure 3 A's claim in other draws of the domains, without sampling noise.

The closed form of ``expected.py`` gives each level's predictor from the drawn σ2² alone, so that
many draws cost little. What decides is how well an estimator places the quantile of σ2², whose
law has a heavy tail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from eqrm.distributions.base import RiskDistribution
from eqrm.distributions.empirical import Empirical
from eqrm.distributions.kernel import KDE
from eqrm.level import Level
from eqrm.linear.scm.interventions import Noise
from eqrm.linear.scm.worlds import example_domains
from eqrm.reproductions.linear_regression.expected import (
    VARIANCE_Y,
    exact_risk,
    variance_quantile,
)
from eqrm.reproductions.linear_regression.settings import LEVELS, TEST_QUANTILES, expected_winner

ESTIMATORS: dict[str, Callable[[Tensor], RiskDistribution]] = {
    "KDE, Gaussian-optimal": lambda values: KDE(values),
    "KDE, Silverman": lambda values: KDE(values, bandwidth="silverman"),
    "empirical": lambda values: Empirical(values),
}


@dataclass(frozen=True)
class Exceptions:
    """Of one estimator: ``draws`` with an exception, and how many ``by_quantile`` (q,)."""

    estimator: str
    draws: int
    by_quantile: tuple[int, ...]


def count_exceptions(domains: int, draws: int, first_seed: int) -> list[Exceptions]:
    """How often a level does not win its own test quantile, by estimator."""
    wanted = [expected_winner(quantile) for quantile in TEST_QUANTILES]
    samples = [drawn_variances(domains, first_seed + k) for k in range(draws)]
    found = []
    for name, estimator in ESTIMATORS.items():
        winners = torch.tensor([_winners(estimator(sample)) for sample in samples])
        wrong = winners != torch.tensor(wanted)
        by_quantile = tuple(int(count) for count in wrong.sum(dim=0))
        found.append(Exceptions(name, int(wrong.any(dim=1).sum()), by_quantile))
    return found


def drawn_variances(domains: int, seed: int) -> Tensor:
    """σ2² of the domains of a seed (m,).

    >>> drawn_variances(3, seed=0).shape
    torch.Size([3])
    """
    drawn = (domain[0] for domain in example_domains().draw(domains, seed).values())
    sigmas = [each.std for each in drawn if isinstance(each, Noise)]
    return torch.tensor(sigmas, dtype=torch.float64) ** 2


def _winners(variances: RiskDistribution) -> list[int]:
    """Which level has the lowest risk at each test quantile."""
    effect = torch.tensor([_effect(variances, level) for level in LEVELS], dtype=torch.float64)
    tests = torch.tensor([variance_quantile(q) for q in TEST_QUANTILES], dtype=torch.float64)
    risks = exact_risk(torch.stack([1 - effect, effect], dim=1), tests)
    return [int(index) for index in risks.argmin(dim=0)]


def _effect(variances: RiskDistribution, level: Level) -> float:
    """β2; 0 for α → 1, where an empirical quantile would stop at the largest risk seen."""
    if level == LEVELS[-1]:
        return 0.0
    return VARIANCE_Y / (VARIANCE_Y + float(variances.quantile(level)))
