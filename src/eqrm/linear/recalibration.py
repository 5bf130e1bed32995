"""Recalibration for a level: the shift and scale of scores with the smallest quantile of risk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.level import Level
from eqrm.linear.scored_rows import Correction, ScoredRows
from eqrm.linear.solving.kernel_measures import KernelMeasure, MeasureChoice
from eqrm.linear.solving.logistic_risks import CorrectionRisks, contrasts
from eqrm.linear.solving.measures import Mean, Measure, MeasureOfRisks
from eqrm.linear.solving.newton import End, ParameterMetric, minimise_costly, one_thread
from eqrm.linear.solving.risk_functions import Array, Quadratics, RiskFunctions, RisksAt
from eqrm.linear.solving.search import Problem, distinct_minima

WEAK = 1e-9
"""The penalty on the scale, for scores that separate the classes: it would grow without end."""
NEGLIGIBLE = 5e-5
"""A scale is 0 where that changes the measure by at most this share: scores that say nothing."""
MAX_STEPS = 100
DIRECTIONS = 64
"""In which equal odds are compared with what is next to them."""
LARGE = 1_000_000
"""Rows beyond which the search for the best minimum uses some rows of every domain only."""
SOME = 64
"""How many rows of a domain that search uses."""


def recalibrate(
    rows: ScoredRows,
    level: Level | None,
    choice: MeasureChoice | None = None,
    scaled: bool = True,
    near: Correction | None = None,
) -> Correction:
    """The correction with the smallest measure of risk over these domains; None is the mean.

    ``near`` is the correction of similar rows, which saves the search for the best minimum. Where
    the scores add nothing the scale is exactly 0: the correction is a constant.
    """
    choice = choice or MeasureChoice.of("kde", "quantile", "gaussian-optimal")
    measure = Mean() if level is None or rows.domains < 2 else choice.at(level, rows.domains)
    with one_thread():
        units = Units.of(rows, scaled)
        problem = CorrectionProblem.of(rows, units)
        if near is not None:
            return units.correction(problem.solved(measure, units.theta(near)))
        if len(rows.target) <= LARGE:
            return units.correction(problem.solved(measure))
        few = CorrectionProblem.of(rows.some(SOME), units)
        return units.correction(problem.solved(measure, few.least(measure).theta))


def cross_recalibrated(
    rows: Callable[[NDArray[np.bool_]], ScoredRows],
    scores: Array,
    folds: NDArray[np.integer[Any]],
    level: Level,
    choice: MeasureChoice | None = None,
    scaled: bool = True,
    in_time: bool = False,
) -> Array:
    """Scores of every row, corrected for a level by a correction fitted to the other folds.

    ``folds`` (n,) says in which fold a row is left out, −1 if in none, and ``rows`` makes the rows
    to fit to. With ``in_time`` these are of earlier folds; the first one keeps its scores.
    """
    found, near = scores.copy(), None
    if not in_time:
        near = recalibrate(rows(folds >= 0), level, choice, scaled)
    for fold in range(1 if in_time else 0, int(folds.max()) + 1):
        inside = folds == fold
        others = (folds >= 0) & (folds < fold if in_time else ~inside)
        correction = recalibrate(rows(others), level, choice, scaled, near)
        found[inside] = correction(scores[inside])
    return found


@dataclass(frozen=True, eq=False)
class Units:
    """Where zero is and what one is: scores are taken as (f⁰ − ``centre``)/``spread``.

    Targets that are numbers are taken from ``origin``.
    """

    centre: Array
    spread: float
    origin: float
    classes: int
    scaled: bool

    @classmethod
    def of(cls, rows: ScoredRows, scaled: bool) -> Units:
        """From the mean and the spread of the scores, where they are to be scaled."""
        width, spread = max(rows.classes - 1, 1), 1.0
        centre = np.zeros(width)
        raw = CorrectionRisks(rows, centre, spread)

        def moments(part: slice) -> Array:
            outputs = raw.outputs(part).T
            if rows.classes:
                return np.concatenate([outputs, outputs**2])
            target = rows.target[part] if scaled else rows.target[part] - outputs[0]
            return np.stack([outputs[0], outputs[0] ** 2, target])

        found = rows.means(moments).mean(axis=1)
        origin = 0.0 if rows.classes else float(found[-1])
        if scaled:
            centre, squares = found[:width], found[width : 2 * width]
            spread = float(np.sqrt(np.maximum(squares - centre**2, 0.0).mean())) or 1.0
        return cls(centre, spread, origin, rows.classes, scaled)

    @property
    def starts(self) -> list[Array]:
        """θ of the scores as they are, and of no scores at all."""
        if not self.scaled:
            return [np.zeros(len(self.centre)) - self.origin]
        zero = np.zeros(len(self.centre) + 1)
        return [np.append(self.centre - self.origin, self.spread), zero]

    def correction(self, theta: Array) -> Correction:
        """θ in the units of the scores and the target."""
        scale = float(theta[-1]) / self.spread if self.scaled else 1.0
        shifts = theta[: len(self.centre)] - (scale * self.centre if self.scaled else 0.0)
        if self.classes > 2:
            return Correction(tuple((contrasts(self.classes) @ shifts).tolist()), scale)
        return Correction(float(shifts[0]) + self.origin, scale)

    def theta(self, correction: Correction) -> Array:
        """The reverse of :meth:`correction`."""
        shifts = np.atleast_1d(np.asarray(correction.shift, dtype=np.float64))
        if self.classes > 2:
            shifts = contrasts(self.classes).T @ shifts
        shifts = shifts - self.origin
        if not self.scaled:
            return shifts
        return np.append(shifts + correction.scale * self.centre, correction.scale * self.spread)


@dataclass(frozen=True, eq=False)
class CorrectionProblem:
    """The risks in θ = (shifts, scale) of a correction, in the units of the scores."""

    risks: RiskFunctions
    units: Units

    @classmethod
    def of(cls, rows: ScoredRows, units: Units) -> CorrectionProblem:
        """Log-losses of classes, squared errors of numbers."""
        if not rows.classes:
            return cls(_quadratics(rows, units), units)
        return cls(CorrectionRisks(rows, units.centre, units.spread, units.scaled), units)

    def solved(self, measure: Measure, near: Array | None = None) -> Array:
        """θ of :meth:`least`, with the scale 0 where it is negligible."""
        theta = self.least(measure, near).theta
        if not self.units.scaled:
            return theta
        without = np.append(theta[:-1], 0.0)
        criterion = MeasureOfRisks(self.risks, measure, np.zeros(len(theta)))
        least, flat = (criterion.at(each).value for each in (theta, without))
        return without if flat - least <= NEGLIGIBLE * abs(least) else theta

    def least(self, measure: Measure, near: Array | None = None) -> End:
        """The lowest minimum that is reached from the starts, or from the least mean risk.

        Where it is known to be ``near`` a point, that is the only start.
        """
        penalty = np.zeros(self.risks.parameters)
        if self.units.scaled:
            penalty[-1] = WEAK
        here = self.risks.at(np.zeros(self.risks.parameters))
        m = len(here.spread)
        hessian = here.weighted_hessian(np.full(m, 1.0 / m))
        floor = 1e-9 * float(np.trace(hessian)) / len(hessian) + 1e-300
        metric = ParameterMetric.of(hessian + np.diag(penalty + floor), max(here.mean, 1e-300))
        starts: Sequence[Array] = self.units.starts if near is None else [near]
        if near is None or isinstance(measure, Mean):
            mean = MeasureOfRisks(self.risks, Mean(), penalty)
            least_mean = minimise_costly(mean, starts[0], metric, MAX_STEPS)
            if isinstance(measure, Mean):
                return least_mean
            near, starts = least_mean.theta, [*starts, least_mean.theta]
        criterion = MeasureOfRisks(self.risks, measure, penalty)
        problem = Problem(criterion, metric, self.risks, near, minimise_costly)
        equal = self._equal_odds(measure, here) if len(starts) > 1 else None
        if equal is None:
            return distinct_minima(problem, starts, MAX_STEPS)[0]
        # Into a kink from elsewhere there are many ever shorter steps: they end when they are near.
        problem = replace(problem, descent=partial(minimise_costly, known=equal))
        found = distinct_minima(problem, [s for s in starts if s.any()], MAX_STEPS)[0]
        return found if found.converged and found.value < equal.value else equal

    def _equal_odds(self, measure: Measure, here: RisksAt) -> End | None:
        """θ = 0 if it is a minimum: all log-losses are equal there, a kink of a KDE's quantile.

        Along d the quantile rises from it at the rate q(∇R_e·d), which has to be positive in
        every direction. Only two classes have so few directions (of shift and scale) to look at.
        """
        of_spread = isinstance(measure, KernelMeasure) and measure.fixed is None
        if not (of_spread and self.units.scaled and self.units.classes == 2):
            return None
        mean_slope, slopes = here.slopes
        for angle in np.linspace(0.0, 2.0 * np.pi, DIRECTIONS, endpoint=False):
            along = np.array([np.cos(angle), np.sin(angle)])
            if measure.at(float(mean_slope @ along), slopes @ along).value <= 0.0:
                return None
        return End(np.zeros(2), here.mean, converged=True, diverged=False, steps=0)


def _quadratics(rows: ScoredRows, units: Units) -> RiskFunctions:
    """Of the squared error: the intercept, and the slope where there is one."""
    raw = CorrectionRisks(rows, units.centre, units.spread)

    def moments(part: slice) -> Array:
        outputs = raw.outputs(part)[:, 0]
        target = rows.target[part] - units.origin
        if not units.scaled:
            target = target - outputs
            return np.stack([np.ones(len(target)), target, target**2])
        columns = (np.ones(len(target)), outputs, outputs**2, target, outputs * target, target**2)
        return np.stack(columns)

    found = rows.means(moments).T
    if not units.scaled:
        return Quadratics.of(found[:, :1, None], found[:, 1:2], found[:, 2])
    squares = found[:, [0, 1, 1, 2]].reshape(-1, 2, 2)
    return Quadratics.of(squares, found[:, 3:5], found[:, 5])
