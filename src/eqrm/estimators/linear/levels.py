"""Exact linear solutions level by level, each from its neighbour's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqrm.estimators.goal import Goal
from eqrm.estimators.linear.logistic_solver import LogisticProblem
from eqrm.estimators.linear.standardised import Scaling
from eqrm.linear.baselines import LinearERM
from eqrm.linear.linear_model import LinearModel
from eqrm.linear.linear_qrm import LinearQRM
from eqrm.linear.moments.domain_moments import DomainMoments
from eqrm.linear.solving.risk_functions import Array


@dataclass(frozen=True, eq=False)
class Solution:
    """A linear predictor in the units of the features, and how it was found."""

    coefficients: Array
    intercepts: Any
    steps: int
    converged: bool


class Solver(ABC):
    """Data that are ready for any level; levels are asked for from the lowest to the highest."""

    @abstractmethod
    def at(self, goal: Goal) -> Solution:
        """The linear predictor of the least mean, quantile or superquantile."""


class LogisticLevels(Solver):
    """Log-loss: Newton's method from ERM's solution and from that of the level before."""

    def __init__(self, problem: LogisticProblem) -> None:
        self.problem = problem
        self._before: Array | None = None

    def at(self, goal: Goal) -> Solution:
        measure = goal.measure(self.problem.risks.domains)
        end = self.problem.least(measure, self._before)[0]
        if measure is not None:
            self._before = end.theta
        coefficients, intercepts = self.problem.predictor(end.theta)
        return Solution(coefficients, intercepts, end.steps, end.converged)


class QuadraticLevels(Solver):
    """Squared error: LinearQRM on moments of standardised features."""

    def __init__(
        self, moments: DomainMoments, scaling: Scaling, ridge: float, max_steps: int
    ) -> None:
        self.moments, self.scaling = moments, scaling
        self.shared: dict[str, Any] = {
            "ridge": ridge,
            "intercept": scaling.intercept,
            "max_steps": max_steps,
        }

    def at(self, goal: Goal) -> Solution:
        model = self._model(goal).fit(self.moments)
        table = model.coefficients.numpy()[None]
        if self.scaling.intercept:
            table = np.append(table, [[model.intercept]], axis=1)
        coefficients, intercepts = self.scaling.predictor(table)
        return Solution(coefficients[0], float(intercepts[0]), model.steps, model.converged)

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
