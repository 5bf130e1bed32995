"""The curves of a risk distribution, computed once and ready to draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from eqrm.distributions.base import RiskDistribution
from eqrm.distributions.empirical import Empirical
from eqrm.distributions.kernel import KDE
from eqrm.level import Level
from eqrm.risks import MeasuredRisks


@dataclass(frozen=True)
class RiskCurve:
    """A CDF, and where it exists a PDF, on a grid of risks.

    ``grid``, ``cdf`` and ``pdf`` are 1-d tensors of one length; ``risks`` (m,) are the risks
    that the distribution was estimated from. ``level`` and ``quantile`` mark one point
    F(quantile) = α of the curve.
    """

    label: str
    risks: Tensor
    grid: Tensor
    cdf: Tensor
    pdf: Tensor | None = None
    level: Level | None = None
    quantile: float | None = None

    @property
    def sf(self) -> Tensor:
        """P(risk > x) on the grid; for a picture, where the last digits do not show."""
        return 1 - self.cdf


def shared_grid(distribution: RiskDistribution, points: int = 400) -> Tensor:
    """Risks from the .0005 to the .9995-quantile, evenly spaced: shape (points,).

    >>> from eqrm import KDE
    >>> shared_grid(KDE(torch.tensor([0.1, 0.2, 0.4])), points=5).shape
    torch.Size([5])
    """
    with torch.no_grad():
        low = distribution.quantile(Level(0.0005))
        high = distribution.quantile(Level(0.9995))
    return torch.linspace(float(low), float(high), points, dtype=torch.float64)


def smooth_curve(
    distribution: RiskDistribution,
    label: str,
    grid: Tensor,
    level: Level | None = None,
) -> RiskCurve:
    """PDF and CDF of a distribution that has both, with its α-quantile marked.

    >>> from eqrm import KDE
    >>> kde = KDE(torch.tensor([0.1, 0.2, 0.4]))
    >>> curve = smooth_curve(kde, "KDE", shared_grid(kde), Level(0.9))
    >>> round(float(kde.cdf(torch.tensor(curve.quantile))), 4)
    0.9
    """
    with torch.no_grad():
        return RiskCurve(
            label=label,
            risks=distribution.risks.detach(),
            grid=grid,
            cdf=distribution.cdf(grid),
            pdf=distribution.log_prob(grid).exp(),
            level=level,
            quantile=None if level is None else float(distribution.quantile(level)),
        )


def smooth_curves(predictors: Mapping[str, MeasuredRisks], level: Level) -> list[RiskCurve]:
    """The KDE of the risks of each predictor, with its α-quantile marked."""
    laws = {name: KDE(torch.from_numpy(found.risks)) for name, found in predictors.items()}
    return [smooth_curve(law, name, shared_grid(law), level) for name, law in laws.items()]


def step_curve(distribution: RiskDistribution, label: str, grid: Tensor) -> RiskCurve:
    """The CDF of a law that jumps at its risks, such as ``Empirical``.

    The risks themselves join the grid, so that every step is at its exact place.

    >>> from eqrm import Empirical
    >>> risks = torch.tensor([0.1, 0.2], dtype=torch.float64)
    >>> step_curve(Empirical(risks), "steps", torch.tensor([0.0, 0.3])).cdf.tolist()
    [0.0, 0.5, 1.0, 1.0]
    """
    risks = distribution.risks.detach()
    points = torch.cat([grid.to(risks), risks]).sort().values
    with torch.no_grad():
        return RiskCurve(label=label, risks=risks, grid=points, cdf=distribution.cdf(points))


def step_curves(predictors: Mapping[str, MeasuredRisks]) -> list[RiskCurve]:
    """The step CDFs of all predictors, on one grid."""
    ends = [(found.risks.min(), found.risks.max()) for found in predictors.values()]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    grid = torch.linspace(float(low), float(high), 400).double()
    return [
        step_curve(Empirical(torch.from_numpy(measured.risks)), name, grid)
        for name, measured in predictors.items()
    ]
