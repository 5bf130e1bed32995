"""Exact linear solutions level by level, each starting from its neighbour's.

Log-loss is minimised by Newton's method within a trust region from the minimiser of the mean risk,
beyond ``NEWTON_UP_TO`` parameters by L-BFGS; empirical superquantiles, which are convex, by
:mod:`eqrm.linear.solving.interior_point`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from eqrm.estimators.fit_inputs import TrainingRows
from eqrm.estimators.goal import Goal
from eqrm.estimators.groups import Groups
from eqrm.execution import thread_count
from eqrm.linear.domain_moments import DomainMoments
from eqrm.linear.linear_model import LinearModel
from eqrm.linear.linear_qrm import LinearERM, LinearQRM
from eqrm.linear.solving.interior_point import proved_mean
from eqrm.linear.solving.logistic_risks import LogisticRisks
from eqrm.linear.solving.measures import Mean, Measure, MeasureOfRisks
from eqrm.linear.solving.newton import End, Optimality, ParameterMetric, minimise_costly, one_thread
from eqrm.linear.solving.risk_functions import Array
from eqrm.linear.solving.search import Descent, Problem, distinct_minima


@dataclass(frozen=True, eq=False)
class Solution:
    """A linear predictor in the units of the features, and how it was found."""

    coefficients: Array
    intercepts: Any
    steps: int
    converged: bool
    optimality: Optimality | None


def of_log_loss(
    rows: TrainingRows, goals: Iterable[Goal], l2: float, intercept: bool, max_steps: int
) -> Iterator[Solution]:
    """By Newton's method from ERM's solution and from that of the level before."""
    problem = LogisticProblem.of(rows, l2=l2, intercept=intercept, max_steps=max_steps)
    before: Array | None = None
    for goal in goals:
        measure = goal.measure(problem.risks.domains)
        end = problem.least(measure, before)[0]
        if not isinstance(measure, Mean):
            before = end.theta
        coefficients, intercepts = problem.predictor(end.theta)
        yield Solution(coefficients, intercepts, end.steps, end.converged, end.optimality)


def of_squared_error(
    rows: TrainingRows, goals: Iterable[Goal], l2: float, intercept: bool, max_steps: int
) -> Iterator[Solution]:
    """By LinearQRM on moments of standardised features."""
    scaling = Scaling.of(rows.X, rows.sample_weight, intercept)
    moments = standardised_moments(rows.X, rows.y, rows.groups, rows.sample_weight, scaling)
    shared: dict[str, Any] = {"l2": l2, "fit_intercept": intercept, "max_steps": max_steps}
    for goal in goals:
        model: LinearModel = LinearERM(**shared)
        if goal.level is not None and len(moments) >= 2:
            shape = goal.distribution, goal.choice.measure
            model = LinearQRM(goal.level, *shape, bandwidth=goal.bandwidth, **shared)
        model.fit(moments)
        table = model.coef_[None]
        if intercept:
            table = np.append(table, [[model.intercept_]], axis=1)
        coefficients, intercepts = scaling.predictor(table)
        found = model.n_iter_, model.converged_, model.optimality_
        yield Solution(coefficients[0], float(intercepts[0]), *found)


def standardised_moments(
    X: Array, y: Array, groups: Groups, sample_weight: Array | None, scaling: Scaling
) -> DomainMoments:
    """Means and covariances of (standardised x, y) in each domain, rows weighted."""
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
        counts=groups.counts.astype(np.float64),
        features=tuple(f"x{j + 1}" for j in range(width)),
        mean=mean,
        covariance=covariance,
    )


NEWTON_UP_TO = 300
"""Parameters beyond which a Hessian costs more than the steps it saves."""
LARGE = 1_000_000
"""Numbers in X from which more than one thread saves time."""
GRADIENT_TOLERANCE = 1e-7
"""Where L-BFGS stops: the largest slope in a parameter of a standardised feature."""


@dataclass(frozen=True, eq=False)
class LogisticProblem:
    """Rows of all domains, standardised and sorted, ready for any level.

    ``penalty`` is l2 for each parameter, and 0 for intercepts.
    """

    risks: LogisticRisks
    scaling: Scaling
    penalty: Array
    max_steps: int

    @classmethod
    def of(
        cls, given: TrainingRows, *, l2: float, intercept: bool, max_steps: int
    ) -> LogisticProblem:
        """From rows with labels 0 … K−1; l2·Σβ² of standardised coefficients is added."""
        scaling = Scaling.of(given.X, given.sample_weight, intercept)
        order, ends, shares = sorted_by_domain(given.groups, given.sample_weight)
        rows = scaling.rows(given.X, order)
        labels = given.y if order is None else given.y[order]
        # BLAS threads are worth it for large blocks only, so the rows are divided among our own.
        workers = thread_count() if rows.size >= LARGE else 1
        risks = LogisticRisks(rows, labels, int(labels.max()) + 1, ends, shares, workers)
        penalty = np.full(rows.shape[1], float(l2))
        if intercept:
            penalty[-1] = 0.0
        return cls(risks, scaling, np.tile(penalty, risks.outputs), max_steps)

    @cached_property
    def least_mean(self) -> End:
        """The minimiser of the mean risk: ERM, and where every level starts."""
        zero = np.zeros(self.risks.parameters)
        criterion = MeasureOfRisks(self.risks, Mean(), self.penalty)
        with one_thread():
            end = self._descent(criterion, zero, self._metric, self.max_steps)
            return proved_mean(criterion, end, self._metric)

    def least(self, measure: Measure, start: Array | None = None) -> list[End]:
        """The minima of a measure of the risks, best first.

        From the least mean and, where given, also from ``start``, such as the solution of a
        neighbouring level: on the flights, each of the two finds the lower minimum at some level.
        """
        if isinstance(measure, Mean):
            return [self.least_mean]
        reference = self.least_mean.theta
        criterion = MeasureOfRisks(self.risks, measure, self.penalty)
        problem = Problem(criterion, self._metric, self.risks, reference, self._descent)
        with one_thread():
            starts = [reference] if start is None else [start, reference]
            return distinct_minima(problem, starts, self.max_steps)

    def predictor(self, theta: Array) -> tuple[Array, Array]:
        """Coefficients and intercepts in the units of X: (1, d), (1,) or (K, d), (K,)."""
        table = theta.reshape(self.risks.outputs, -1)
        if self.risks.classes > 2:
            table = self.risks.basis @ table
        return self.scaling.predictor(table)

    @property
    def _wide(self) -> bool:
        return self.risks.parameters > NEWTON_UP_TO

    @property
    def _descent(self) -> Descent:
        return by_lbfgs if self._wide else minimise_costly

    @cached_property
    def _metric(self) -> ParameterMetric:
        """The Hessian of the mean risk at 0, where it has the most curvature."""
        size = self.risks.parameters
        if self._wide:
            return ParameterMetric(np.eye(1), np.eye(1), 1.0, 1.0)
        here = self.risks.at(np.zeros(size))
        hessian = here.weighted_hessian(np.full(self.risks.domains, 1.0 / self.risks.domains))
        # Dependent columns leave it singular: a small multiple of the identity is added.
        floor = 1e-9 * float(np.trace(hessian)) / size + 1e-300
        return ParameterMetric.of(hessian + np.diag(self.penalty + floor), here.mean)


def by_lbfgs(
    criterion: MeasureOfRisks, start: Array, metric: ParameterMetric, max_steps: int
) -> End:
    """Descend by L-BFGS until the gradient is flat, for more parameters than Newton is good for."""

    def value_and_slope(theta: Array) -> tuple[float, Array]:
        point = criterion.at(theta)
        return point.value, point.gradient

    options = {
        "maxiter": 20 * max_steps,
        "maxfun": 40 * max_steps,
        "maxcor": 20,
        "gtol": GRADIENT_TOLERANCE,
        "ftol": 0.0,
    }
    found = minimize(value_and_slope, start, jac=True, method="L-BFGS-B", options=options)
    flat = float(np.abs(found.jac).max()) <= 100.0 * GRADIENT_TOLERANCE
    return End(np.asarray(found.x), float(found.fun), flat, False, int(found.nit))


@dataclass(frozen=True, eq=False)
class Scaling:
    """Centre (d,) and spread (d,) of the features, both over rows; a constant has spread 1.

    Without an intercept nothing is centred: the predictor stays one through the origin.
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
    """An order that sorts rows by domain (None if they are), the ends, and shares in the domain."""
    ends = np.concatenate([[0], np.cumsum(groups.counts)])
    shares = groups.row_weights(np.ones(len(groups)), sample_weight)
    if (np.diff(groups.ids) >= 0).all():
        return None, ends, shares
    order = np.argsort(groups.ids, kind="stable")
    return order, ends, shares[order]
