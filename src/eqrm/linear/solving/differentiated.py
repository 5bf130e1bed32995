"""The measure of a law that has no exact form here, by automatic differentiation of torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from eqrm.distributions.kernel import KDE
from eqrm.errors import DomainDataError
from eqrm.level import Level
from eqrm.linear.solving.measures import Local, Measure, no_curvature
from eqrm.linear.solving.risk_functions import Array

if TYPE_CHECKING:
    from eqrm.linear.solving.kernel_measures import MeasureChoice


class AnyDistribution(Measure):
    """The quantile or superquantile of a user's distribution, or of a KDE with any bandwidth.

    By automatic differentiation, which is slower than the exact forms of the other measures.
    """

    def __init__(self, choice: MeasureChoice, level: Level) -> None:
        self.choice, self.level = choice, level
        of_kde = choice.estimator is KDE and not choice.beyond
        self.may_fall_without_end = of_kde and level.alpha < 0.5

    def at(self, mean: float, spread: Array, smoothing: float = 0.0) -> Local:
        risks = torch.tensor(mean + spread, requires_grad=True)
        try:
            value = self.choice.value(self.level, risks)
        except DomainDataError:  # too large for a float: a place that the descent must not go to
            return Local(np.inf, np.full(len(spread), np.nan), no_curvature)
        (slope,) = torch.autograd.grad(value, risks, create_graph=True)

        def curvature(mean_slope: Array, slopes: Array) -> Array:
            columns = mean_slope + slopes
            if not slope.requires_grad:  # a law whose quantile is linear in the risks
                return np.zeros((columns.shape[1], columns.shape[1]))
            products = [self._second(slope, risks, column) for column in columns.T]
            found: Array = columns.T @ np.stack(products, axis=1)
            return 0.5 * (found + found.T)

        return Local(float(value.detach()), slope.detach().numpy().copy(), curvature)

    def _second(self, slope: Tensor, risks: Tensor, direction: Array) -> Array:
        """(∂²q/∂R²)·direction."""
        along = slope @ torch.from_numpy(np.ascontiguousarray(direction))
        (product,) = torch.autograd.grad(along, risks, retain_graph=True, allow_unused=True)
        return np.zeros(len(risks)) if product is None else np.asarray(product)
