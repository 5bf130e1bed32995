"""The linear classifier with the smallest quantile of log-loss over domains.

Newton's method with the exact Hessian within a trust region (:mod:`eqrm.linear.solving.newton`), in
float64, from the minimiser of the mean risk. The mean risk is convex; a quantile is not, because
domains of low risk may have a negative weight in its gradient. The trust region needs no
convexity: it descends along negative curvature, and ends in a minimum to second order, near the
minimiser of the mean risk. With more than ``NEWTON_UP_TO`` parameters, L-BFGS takes over.
Empirical superquantiles are convex: :mod:`eqrm.linear.solving.interior_point` minimises them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.optimize import minimize

from eqrm.estimators.fit_inputs import TrainingRows
from eqrm.estimators.linear.standardised import Scaling, sorted_by_domain
from eqrm.linear.solving.criteria import Criterion, MeasureOfRisks
from eqrm.linear.solving.interior_point import proved_mean
from eqrm.linear.solving.logistic_risks import LogisticRisks
from eqrm.linear.solving.measures import Mean, Measure
from eqrm.linear.solving.newton import End, ParameterMetric, minimise_costly, one_thread
from eqrm.linear.solving.risk_functions import Array
from eqrm.linear.solving.search import Descent, Problem, distinct_minima

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
        workers = torch.get_num_threads() if rows.size >= LARGE else 1
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


def by_lbfgs(criterion: Criterion, start: Array, metric: ParameterMetric, max_steps: int) -> End:
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
