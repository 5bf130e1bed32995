"""Moments of standardised features per domain, weighted, for the exact solver."""

from __future__ import annotations

import numpy as np
import torch

from eqrm.estimators.groups import Groups
from eqrm.estimators.linear.standardised import Scaling, sorted_by_domain
from eqrm.linear.moments.domain_moments import DomainMoments
from eqrm.linear.solving.risk_functions import Array


def standardised_moments(
    X: Array, y: Array, groups: Groups, sample_weight: Array | None, scaling: Scaling
) -> DomainMoments:
    """Means and covariances of (standardised x, y) in each domain, rows weighted.

    >>> from eqrm.estimators.groups import as_groups
    >>> X, y = np.array([[0.0], [2.0], [4.0]]), np.array([1.0, 3.0, 4.0])
    >>> groups = as_groups(["a", "a", "b"], rows=3)
    >>> scaling = Scaling(np.zeros(1), np.full(1, 2.0), intercept=True)
    >>> standardised_moments(X, y, groups, None, scaling).mean
    tensor([[0.5000, 2.0000],
            [2.0000, 4.0000]], dtype=torch.float64)
    """
    order, ends, shares = sorted_by_domain(groups, sample_weight)
    width = X.shape[1]
    table = np.empty((len(X), width + 1))
    table[:, :width] = scaling.rows(X, order)[:, :width]
    table[:, width] = y if order is None else y[order]
    m = len(groups)
    mean, covariance = np.empty((m, width + 1)), np.empty((m, width + 1, width + 1))
    for e in range(m):
        rows, share = table[ends[e] : ends[e + 1]], shares[ends[e] : ends[e + 1]]
        mean[e] = rows[0] + share @ (rows - rows[0])
        away = (rows - mean[e]) * np.sqrt(share)[:, None]
        covariance[e] = away.T @ away
    return DomainMoments(
        names=tuple(map(str, groups.names)),
        counts=torch.from_numpy(groups.counts.astype(np.float64)),
        features=tuple(f"x{j + 1}" for j in range(width)),
        mean=torch.from_numpy(mean),
        covariance=torch.from_numpy(covariance),
    )
