"""What other domains would have given: quantiles from few of them, and other draws of all.

Figure 3 D compares risk quantiles estimated from few domains with those of all. Figure 3 A's claim
in other draws of the domains is evaluated by the closed form of ``settings.py``, which gives each
level's predictor from the drawn σ2² alone, so that many draws cost little. What decides is how
well an estimator places the quantile of σ2², whose law has a heavy tail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eqrm import KDE, Empirical, Level
from eqrm.distributions import RiskDistribution
from eqrm.linear.linear_qrm import Frontier
from studies.linear_regression.settings import (
    LEVELS,
    TEST_QUANTILES,
    VARIANCE_Y,
    RegressionSettings,
    exact_risk,
    expected_winner,
    variance_quantile,
)
from studies.linear_worlds import example_domains

PROBABILITIES = tuple(round(0.05 * k, 2) for k in range(1, 20))
ESTIMATORS: dict[str, Callable[[Tensor], RiskDistribution]] = {
    "KDE, Gaussian-optimal": lambda values: KDE(values),
    "KDE, Silverman": lambda values: KDE(values, bandwidth="silverman"),
    "empirical": lambda values: Empirical(values),
}


@dataclass(frozen=True, eq=False)
class QuantileCurves:
    """Quantiles of the risk of the predictor trained for α = 0.9, at ``PROBABILITIES``.

    ``of_all`` (p,) from all domains and ``exact`` (p,) from the known law; ``estimated``
    (sizes, p) from the random subset of median error of each size. ``error`` (sizes,) is the
    root mean square distance from ``of_all``, averaged over subsets, ``exact_error`` that from
    ``exact`` and ``standard_error`` (sizes,) the uncertainty of ``error``.
    """

    sizes: tuple[int, ...]
    of_all: Tensor
    exact: Tensor
    estimated: Tensor
    error: Tensor
    exact_error: Tensor
    standard_error: Tensor


def quantile_curves(
    frontier: Frontier, settings: RegressionSettings, generator: np.random.Generator
) -> QuantileCurves:
    """Estimate quantiles from random subsets of the domains (KDE, Silverman)."""
    index = LEVELS.index(Level(0.9))
    risks = torch.from_numpy(frontier.risks[index])
    coefficients = torch.from_numpy(frontier.coefficients[index])
    of_all = _quantiles(risks[None])[0]
    variances = torch.tensor([variance_quantile(p) for p in PROBABILITIES], dtype=torch.float64)
    exact = exact_risk(coefficients, variances)
    estimated = [
        _quantiles(risks[_subsets(len(risks), size, settings.subsets, generator)])
        for size in settings.subset_sizes
    ]
    distances = torch.stack([_distance(each, of_all) for each in estimated])
    return QuantileCurves(
        sizes=settings.subset_sizes,
        of_all=of_all,
        exact=exact,
        estimated=torch.stack(
            [
                each[row.median(dim=0).indices]
                for each, row in zip(estimated, distances, strict=True)
            ]
        ),
        error=distances.mean(dim=1),
        exact_error=torch.stack([_distance(each, exact).mean() for each in estimated]),
        standard_error=distances.std(dim=1) / settings.subsets**0.5,
    )


def _subsets(total: int, size: int, count: int, generator: np.random.Generator) -> Tensor:
    """Random subsets (count, size) of the domains."""
    chosen = [generator.choice(total, size, replace=False) for _ in range(count)]
    return torch.from_numpy(np.stack(chosen))


def _quantiles(risks: Tensor) -> Tensor:
    """Quantiles (k, p) of k rows of risks."""
    kde = KDE(risks, bandwidth="silverman")
    with torch.no_grad():
        return torch.stack([kde.quantile(Level(p)) for p in PROBABILITIES], dim=-1)


def _distance(estimated: Tensor, truth: Tensor) -> Tensor:
    return ((estimated - truth) ** 2).mean(dim=-1).sqrt()


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
    """σ2² of the domains of a seed (m,)."""
    sigmas = [domain["X2"] for domain in example_domains(domains, seed).values()]
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
