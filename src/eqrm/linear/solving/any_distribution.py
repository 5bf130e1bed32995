"""Measures of any distribution with a differentiable quantile, by automatic differentiation.

Slower than the exact forms of :mod:`eqrm.linear.solving.measures`, which cover the Gaussian law,
the empirical law and the KDE with bandwidths that are fixed or proportional to σ̂.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from eqrm.distributions.kernel import KDE
from eqrm.errors import DomainDataError
from eqrm.level import Level
from eqrm.linear.solving.measures import Local, Measure, no_curvature
from eqrm.linear.solving.quadratics import Array
from eqrm.measures import Estimator, estimate, quantile_at


class AnyDistribution(Measure):
    """The quantile or superquantile of a user's distribution, or of a KDE with any bandwidth."""

    def __init__(
        self,
        estimator: Estimator,
        level: Level,
        superquantile: bool = False,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.estimator, self.level, self.superquantile = estimator, level, superquantile
        self.options = dict(options or {})
        self.may_fall_without_end = estimator is KDE and level.alpha < 0.5 and not superquantile

    def of_risks(self, risks: Tensor) -> Tensor:
        """The measure of risks (m,), with a graph."""
        found = estimate(self.estimator, risks, None, self.options)
        if self.superquantile:
            value: Tensor = found.superquantile(self.level)
            return value
        return quantile_at(found, self.level)

    def at(self, mean: float, spread: Array, smoothing: float = 0.0) -> Local:
        risks = torch.tensor(mean + spread, dtype=torch.float64, requires_grad=True)
        try:
            value = self.of_risks(risks)
        except DomainDataError:  # too large for a float: a place that the descent must not go to
            return Local(np.inf, np.full(len(spread), np.nan), no_curvature)
        (slope,) = torch.autograd.grad(value, risks, create_graph=True)

        def curvature(mean_slope: Array, slopes: Array) -> Array:
            columns = mean_slope + slopes
            if not slope.requires_grad:  # a law whose quantile is linear in the risks
                return np.zeros((columns.shape[1], columns.shape[1]))
            products = [
                _second(slope, risks, torch.from_numpy(np.ascontiguousarray(column)))
                for column in columns.T
            ]
            found: Array = columns.T @ np.stack(products, axis=1)
            return 0.5 * (found + found.T)

        return Local(float(value.detach()), slope.detach().numpy().copy(), curvature)


def _second(slope: Tensor, risks: Tensor, direction: Tensor) -> Array:
    """(∂²q/∂R²)·direction."""
    (product,) = torch.autograd.grad(slope @ direction, risks, retain_graph=True, allow_unused=True)
    found: Array = np.zeros(len(risks)) if product is None else product.numpy()
    return found
