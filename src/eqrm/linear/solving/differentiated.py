"""The measure of a law that has no exact form here, by automatic differentiation of torch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from eqrm.errors import DomainDataError
from eqrm.linear.solving.measures import Local, Measure, no_curvature
from eqrm.linear.solving.risk_functions import Array


class AnyDistribution(Measure):
    """The quantile or superquantile of a user's distribution, or of a KDE with any bandwidth.

    By automatic differentiation, which is slower than the exact forms of the other measures.
    """

    def __init__(self, value: Callable[[Tensor], Tensor], may_fall_without_end: bool) -> None:
        self.value, self.may_fall_without_end = value, may_fall_without_end

    def at(self, mean: float, spread: Array, smoothing: float = 0.0) -> Local:
        risks = torch.tensor(mean + spread, requires_grad=True)
        try:
            value = self.value(risks)
        except DomainDataError:  # too large for a float: a place that the descent must not go to
            return Local(np.inf, np.full(len(spread), np.nan), no_curvature)
        (slope,) = torch.autograd.grad(value, risks, create_graph=True)

        def curvature(mean_slope: Array, slopes: Array) -> Array:
            columns = mean_slope + slopes
            if not slope.requires_grad:  # a law whose quantile is linear in the risks
                return np.zeros((columns.shape[1], columns.shape[1]))
            products = np.zeros(columns.shape)
            for place, column in enumerate(columns.T):
                along = slope @ torch.from_numpy(np.ascontiguousarray(column))
                (product,) = torch.autograd.grad(along, risks, retain_graph=True, allow_unused=True)
                if product is not None:
                    products[:, place] = product.numpy()
            found: Array = columns.T @ products
            return 0.5 * (found + found.T)

        return Local(float(value.detach()), slope.detach().numpy().copy(), curvature)
