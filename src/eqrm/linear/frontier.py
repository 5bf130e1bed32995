"""The risk-robustness frontier: what each level costs on average and gains in the tail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from eqrm.distributions.empirical import Empirical
from eqrm.level import Level
from eqrm.linear.moments.domain_moments import DomainMoments
from eqrm.measures import estimate, quantile_at

if TYPE_CHECKING:
    from eqrm.linear.linear_qrm import LinearQRM


@dataclass(frozen=True, eq=False)
class Frontier:
    """One predictor per level, and how it does on average and at every level.

    ``coefficients`` (L, d), ``intercepts`` (L,), ``values`` (L,) of each one's own objective,
    ``risks`` (L, E), ``mean_risks`` (L,) and ``quantile_risks`` (L, L): row i is the predictor of
    level i, column j its risk at the quantile of level j, by the distribution it was trained
    with. ``converged`` (L,). Printing it gives a table.
    """

    levels: tuple[Level, ...]
    features: tuple[str, ...]
    coefficients: Tensor
    intercepts: Tensor
    values: Tensor
    risks: Tensor
    mean_risks: Tensor
    quantile_risks: Tensor
    converged: Tensor

    @classmethod
    def of(cls, models: Sequence[LinearQRM], moments: DomainMoments) -> Frontier:
        """From fitted models, one per level."""
        levels = tuple(model.level for model in models)
        risks = torch.stack([model.risks for model in models])
        quantiles = [[_quantile(model, level) for level in levels] for model in models]
        return cls(
            levels=levels,
            features=moments.features,
            coefficients=torch.stack([model.coefficients for model in models]),
            intercepts=torch.tensor([model.intercept for model in models], dtype=torch.float64),
            values=torch.tensor([model.value for model in models], dtype=torch.float64),
            risks=risks,
            mean_risks=risks.mean(dim=1),
            quantile_risks=torch.tensor(quantiles, dtype=torch.float64),
            converged=torch.tensor([model.converged for model in models]),
        )

    def risks_on(self, moments: DomainMoments) -> Tensor:
        """The risks (L, E') of every predictor on other domains."""
        return moments.risks(self.coefficients, self.intercepts)

    def __str__(self) -> str:
        header = ["level", *self.features, "intercept", "mean risk"]
        header += [f"q({level})" for level in self.levels]
        rows = [header]
        for i, level in enumerate(self.levels):
            numbers = [*self.coefficients[i].tolist(), float(self.intercepts[i])]
            numbers += [float(self.mean_risks[i]), *self.quantile_risks[i].tolist()]
            rows.append([str(level), *(_short(number) for number in numbers)])
        widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        )


def _quantile(model: LinearQRM, level: Level) -> float:
    if level.log_tail == 0.0 and model.estimator is not Empirical:
        return -torch.inf  # where only a superquantile, the mean risk, can be trained for
    return float(quantile_at(estimate(model.estimator, model.risks, None, model.options), level))


def _short(number: float) -> str:
    return f"{number:.4f}" if 1e-3 <= abs(number) < 1e5 or number == 0.0 else f"{number:.4g}"
