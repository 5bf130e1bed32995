"""Features of mean 0 and spread 1, in rows sorted by domain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eqrm.estimators.groups import Groups
from eqrm.linear.solving.risk_functions import Array


@dataclass(frozen=True, eq=False)
class Scaling:
    """Centre (d,) and spread (d,) of the features, both over rows; a constant has spread 1.

    Without an intercept nothing is centred: the predictor stays one through the origin.

    >>> scaling = Scaling.of(np.array([[1.0, 7.0], [3.0, 7.0]]), None, intercept=True)
    >>> scaling.rows(np.array([[5.0, 7.0]]))
    array([[3., 0., 1.]])
    """

    centre: Array
    spread: Array
    intercept: bool

    @classmethod
    def of(cls, X: Array, sample_weight: Array | None, intercept: bool) -> Scaling:
        """Weighted, where rows have weights."""
        rows = len(X)
        share = np.full(rows, 1.0 / rows) if sample_weight is None else sample_weight
        share = share / share.sum()
        pivot = X[0].copy()
        mean = np.zeros(X.shape[1])
        squares = np.zeros(X.shape[1])
        for start in range(0, rows, 4096):  # no second copy of X
            away = X[start : start + 4096] - pivot
            weighted = away * share[start : start + 4096, None]
            mean += weighted.sum(axis=0)
            squares += np.einsum("ij,ij->j", weighted, away)
        variance = squares - mean**2
        constant = variance <= 1e-24 * (squares + pivot**2)
        spread = np.sqrt(np.where(constant, 1.0, variance))
        centre = pivot + mean if intercept else np.zeros_like(mean)
        return cls(centre, spread, intercept)

    def rows(self, X: Array, order: NDArray[np.int64] | None = None) -> Array:
        """X standardised, in this order, with a last column of ones for the intercept."""
        n, d = X.shape
        found = np.empty((n, d + self.intercept))
        for start in range(0, n, 4096):
            part = slice(start, start + 4096)
            block = X[part] if order is None else X[order[part]]
            np.subtract(block, self.centre, out=found[part, :d])
            found[part, :d] /= self.spread
        if self.intercept:
            found[:, d] = 1.0
        return found

    def predictor(self, table: Array) -> tuple[Array, Array]:
        """Coefficients (C, d) and intercepts (C,) in the units of X, of standardised ones."""
        if not self.intercept:
            return table / self.spread, np.zeros(len(table))
        coefficients = table[:, :-1] / self.spread
        return coefficients, table[:, -1] - coefficients @ self.centre


def sorted_by_domain(
    groups: Groups, sample_weight: Array | None
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64], Array]:
    """An order that sorts rows by domain (None if they are), the ends, and shares in the domain.

    >>> from eqrm.estimators.groups import as_groups
    >>> sorted_by_domain(as_groups(["b", "a", "b"], rows=3), None)
    (array([1, 0, 2]), array([0, 1, 3]), array([1. , 0.5, 0.5]))
    """
    ends = np.concatenate([[0], np.cumsum(groups.counts)])
    shares = groups.row_weights(np.ones(len(groups)), sample_weight)
    if (np.diff(groups.ids) >= 0).all():
        return None, ends, shares
    order = np.argsort(groups.ids, kind="stable")
    return order, ends, shares[order]
