"""Exact linear solutions level by level, each starting from its neighbour's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from eqrm.estimators.fit_inputs import TrainingRows
from eqrm.estimators.goal import Goal
from eqrm.estimators.groups import Groups
from eqrm.estimators.linear.logistic_solver import LogisticProblem
from eqrm.estimators.linear.standardised import Scaling, sorted_by_domain
from eqrm.linear.baselines import LinearERM
from eqrm.linear.linear_model import LinearModel
from eqrm.linear.linear_qrm import LinearQRM
from eqrm.linear.moments.domain_moments import DomainMoments
from eqrm.linear.solving.measures import Mean
from eqrm.linear.solving.newton import Optimality
from eqrm.linear.solving.risk_functions import Array


@dataclass(frozen=True, eq=False)
class Solution:
    """A linear predictor in the units of the features, and how it was found."""

    coefficients: Array
    intercepts: Any
    steps: int
    converged: bool
    optimality: Optimality | None


class Solver(ABC):
    """Data that are ready for any level; levels are asked for from the lowest to the highest."""

    @abstractmethod
    def __init__(self, rows: TrainingRows, l2: float, intercept: bool, max_steps: int) -> None: ...

    @abstractmethod
    def at(self, goal: Goal) -> Solution:
        """The linear predictor that minimises the goal."""


class LogisticLevels(Solver):
    """Log-loss: Newton's method from ERM's solution and from that of the level before."""

    def __init__(self, rows: TrainingRows, l2: float, intercept: bool, max_steps: int) -> None:
        self.problem = LogisticProblem.of(rows, l2=l2, intercept=intercept, max_steps=max_steps)
        self._before: Array | None = None

    def at(self, goal: Goal) -> Solution:
        measure = goal.measure(self.problem.risks.domains)
        end = self.problem.least(measure, self._before)[0]
        if not isinstance(measure, Mean):
            self._before = end.theta
        coefficients, intercepts = self.problem.predictor(end.theta)
        return Solution(coefficients, intercepts, end.steps, end.converged, end.optimality)


class QuadraticLevels(Solver):
    """Squared error: LinearQRM on moments of standardised features."""

    def __init__(self, rows: TrainingRows, l2: float, intercept: bool, max_steps: int) -> None:
        self.scaling = Scaling.of(rows.X, rows.sample_weight, intercept)
        self.moments = standardised_moments(
            rows.X, rows.y, rows.groups, rows.sample_weight, self.scaling
        )
        self.shared: dict[str, Any] = {
            "l2": l2,
            "fit_intercept": intercept,
            "max_steps": max_steps,
        }

    def at(self, goal: Goal) -> Solution:
        model = self._model(goal).fit(self.moments)
        table = model.coef_[None]
        if self.scaling.intercept:
            table = np.append(table, [[model.intercept_]], axis=1)
        coefficients, intercepts = self.scaling.predictor(table)
        return Solution(
            coefficients[0],
            float(intercepts[0]),
            model.n_iter_,
            model.converged_,
            model.optimality_,
        )

    def _model(self, goal: Goal) -> LinearModel:
        if goal.level is None or len(self.moments) < 2:
            return LinearERM(**self.shared)
        return LinearQRM(
            goal.level,
            goal.distribution,
            goal.choice.measure,
            bandwidth=goal.bandwidth,
            **self.shared,
        )


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
