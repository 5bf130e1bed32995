"""Figure 3 D: risk quantiles estimated from few domains against those of all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eqrm.distributions.kernel import KDE
from eqrm.level import Level
from eqrm.linear.frontier import Frontier
from eqrm.reproductions.linear_regression.expected import exact_risk, variance_quantile
from eqrm.reproductions.linear_regression.settings import LEVELS, Settings

PROBABILITIES = tuple(round(0.05 * k, 2) for k in range(1, 20))


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
    frontier: Frontier, settings: Settings, generator: np.random.Generator
) -> QuantileCurves:
    """Estimate quantiles from random subsets of the domains (KDE, Silverman)."""
    index = LEVELS.index(Level(0.9))
    risks, coefficients = frontier.risks[index], frontier.coefficients[index]
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
