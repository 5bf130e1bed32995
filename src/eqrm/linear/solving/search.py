"""From several starts to the distinct minima of a criterion, or to the proof that it has none.

Below the median a Gaussian or a KDE quantile can fall below every risk, and then rewards risks
that are far apart. Along θ + t·d the risks grow as t²·dᵀA_e d, so a quantile that commutes with
shifts and scales goes as t²·q(dᵀA_e d): if that is negative for any direction d, the objective
has no minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh

from eqrm.errors import SettingError
from eqrm.linear.solving.interior_point import minimise_superquantile, proved_mean
from eqrm.linear.solving.measures import Mean, MeasureOfRisks
from eqrm.linear.solving.newton import SAME, End, ParameterMetric, minimise
from eqrm.linear.solving.risk_functions import Array, Quadratics, RiskFunctions
from eqrm.linear.solving.wide_steps import WIDE

EQUAL = 1e-7
"""Risks whose spread is below this part of the unit of value are equal."""
SMOOTHER = 0.2
"""Each smoothing, as a part of the one before."""
SMOOTHINGS = tuple(0.3 * SMOOTHER**k for k in range(14))
"""How far kinks are rounded off, in units of the spread of the risks; 2e-10 at last."""
CANDIDATES = 8
"""Directions from which the descent on the sphere starts."""

SOLVES_TOLD: ContextVar[Callable[[], None] | None] = ContextVar("solves", default=None)
"""Called after every search but those for the least mean risk, which take no time."""

Descent = Callable[[MeasureOfRisks, Array, ParameterMetric, int], End]
"""From a criterion, a start, a metric and the most steps to where the descent ended."""


class UnboundedError(SettingError):
    """An objective that is unbounded below, so that it has no minimum."""


@dataclass(frozen=True)
class Problem:
    """A criterion, the metric of its parameters and the risks it is about."""

    criterion: MeasureOfRisks
    metric: ParameterMetric
    risks: RiskFunctions
    reference: Array
    """The minimiser of the mean risk, from which units and starts are taken."""
    descent: Descent = minimise

    @classmethod
    def of(cls, criterion: MeasureOfRisks, quadratics: Quadratics, l2: Array) -> Problem:
        """With the Hessian of the mean risk as metric and the least mean risk as unit."""
        reference = quadratics.minimiser_of_mean(l2)
        # A perfect fit has no unit of its own: then a small part of what there was to explain.
        unit = max(quadratics.mean_risk(reference), 1e-12 * quadratics.mean[2], 1e-300)
        metric = ParameterMetric.of(quadratics.mean[0] + np.diag(l2), unit)
        return cls(criterion, metric, quadratics, reference)


def starting_points(problem: Problem, number: int, seed: int) -> list[Array]:
    """The least mean risk, zero, and points at random around the first.

    Random points raise the mean risk by about its least value times the number of parameters.
    """
    generator = np.random.default_rng(seed)
    points = [problem.reference, np.zeros_like(problem.reference)]
    while len(points) < number:
        draw = generator.standard_normal(len(problem.reference)) * problem.metric.length
        points.append(problem.reference + problem.metric.inverse @ draw)
    return points[:number]


def distinct_minima(problem: Problem, starts: Sequence[Array], max_steps: int) -> list[End]:
    """The ends of all descents, best first, without repetitions."""
    found, tell = _minima(problem, starts, max_steps), SOLVES_TOLD.get()
    if tell is not None and not isinstance(problem.criterion.measure, Mean):
        tell()
    return found


def _minima(problem: Problem, starts: Sequence[Array], max_steps: int) -> list[End]:
    _refuse_if_unbounded(problem)
    criterion = problem.criterion
    limit = criterion.measure.weight_limit
    if limit is not None:
        return [_convex_minimum(problem, limit, starts, max_steps)]
    if criterion.measure.has_kinks:
        # Where descents meet while the kinks are still rounded, one goes on.
        rounded = replace(criterion, smoothing=SMOOTHINGS[0] * _spread(problem))
        smooth = replace(problem, criterion=rounded)
        starts = [end.theta for end in _distinct(smooth, starts, max_steps)]
    ends = _distinct(problem, starts, max_steps)
    return [end for end in ends if end.converged] or ends[:1]


def _convex_minimum(problem: Problem, limit: float, starts: Sequence[Array], max_steps: int) -> End:
    """The one minimum of a convex measure: from the first start that leads to it."""
    criterion, metric, ends = problem.criterion, problem.metric, []
    for start in (*starts, problem.reference):
        ends.append(minimise_superquantile(criterion, limit, start, metric, max_steps))
        if ends[-1].converged:
            break
    return min(ends, key=lambda end: (not end.converged, end.value))


def _distinct(problem: Problem, starts: Sequence[Array], max_steps: int) -> list[End]:
    """Best first; of two at one place, a converged one is kept."""
    ends = sorted(_ends(problem, starts, max_steps), key=lambda end: end.value)
    kept: list[End] = []
    for end in ends:
        twin = next((i for i, other in enumerate(kept) if _same(problem, end, other)), None)
        if twin is None:
            kept.append(end)
        elif end.converged and not kept[twin].converged:
            kept[twin] = end
    return kept


def _ends(problem: Problem, starts: Sequence[Array], max_steps: int) -> list[End]:
    """Where the descents from all starts end.

    In many parameters a descent takes seconds. There the search ends with a minimum at which all
    risks are equal, to which practically every start leads, or that two starts have led to.
    """
    if problem.risks.parameters <= WIDE:
        return [_descend(problem, start, max_steps) for start in starts]
    ends: list[End] = []
    for start in starts:
        found = _descend(problem, start, max_steps)
        again = any(end.converged and _same(problem, end, found) for end in ends)
        ends.append(found)
        if found.converged and (again or _has_equal_risks(problem, found.theta)):
            break
    return ends


def _same(problem: Problem, one: End, other: End) -> bool:
    return problem.metric.norm(one.theta - other.theta) < SAME * problem.metric.length


def _spread(problem: Problem) -> float:
    """The unit of smoothing: the spread of the risks at the reference, unless they are equal."""
    unit = float(np.std(problem.risks.at(problem.reference).spread))
    return unit if unit > EQUAL * problem.metric.value else problem.metric.value


def _has_equal_risks(problem: Problem, theta: Array) -> bool:
    spread = float(np.std(problem.risks.at(theta).spread))
    return spread <= EQUAL * problem.metric.value


def _descend(problem: Problem, start: Array, max_steps: int) -> End:
    criterion = problem.criterion
    if criterion.measure.has_kinks and criterion.smoothing == 0.0:
        return _through_smoothings(problem, criterion, start, max_steps)
    end = problem.descent(criterion, start, problem.metric, max_steps)
    if isinstance(criterion.measure, Mean):
        return proved_mean(criterion, end, problem.metric)
    if criterion.measure.is_smooth:
        return end
    _refuse_if_diverged(criterion, end, start)
    if end.converged or criterion.smoothing > 0.0 or not np.isfinite(end.value):
        return end
    return _into_the_kink(problem, criterion, end, max_steps)


def _into_the_kink(problem: Problem, criterion: MeasureOfRisks, end: End, max_steps: int) -> End:
    """Go on from where a descent stopped, if that was the kink where all risks are equal."""
    milder = replace(criterion, measure=criterion.measure.milder())
    smooth = _through_smoothings(problem, milder, end.theta, max_steps)
    equal = _has_equal_risks(problem, smooth.theta)
    same_level = milder.measure is criterion.measure
    lower = smooth.value <= end.value + 1e-9 * problem.metric.value
    if smooth.converged and lower and (equal or same_level):
        return smooth
    if same_level:
        return end
    # Follow the minimum of the milder level to the level asked for.
    theta, steps = smooth.theta, end.steps + smooth.steps
    for measure in criterion.measure.approach():
        deeper = replace(criterion, measure=measure)
        found = problem.descent(deeper, theta, problem.metric, max_steps)
        theta, steps = found.theta, steps + found.steps
    better = found.value <= end.value + 1e-9 * problem.metric.value
    return replace(found, steps=steps) if better else end


def _through_smoothings(
    problem: Problem, criterion: MeasureOfRisks, start: Array, max_steps: int
) -> End:
    """Minimise with ever less smoothing, each from where the ones before point to.

    The minimum moves almost in proportion to the smoothing. Newton's method needs few steps from
    the place that this predicts, and many from the end before, which is many kinks away.
    """
    unit, theta, steps, converged = _spread(problem), start, 0, False
    before = start
    for smoothing in SMOOTHINGS:
        rounded = replace(criterion, smoothing=smoothing * unit)
        ahead = theta + SMOOTHER * (theta - before)
        nearer = steps > 0 and rounded.at(ahead).value < rounded.at(theta).value
        end = problem.descent(rounded, ahead if nearer else theta, problem.metric, max_steps)
        _refuse_if_diverged(rounded, end, start)
        before, theta, steps, converged = theta, end.theta, steps + end.steps, end.converged
    return End(theta, criterion.at(theta).value, converged, False, steps)


def _refuse_if_unbounded(problem: Problem) -> None:
    criterion = problem.criterion
    # How other risks grow is seen when a descent runs away.
    if not (criterion.measure.may_fall_without_end and isinstance(criterion.risks, Quadratics)):
        return
    growth = _growth(criterion, criterion.risks)
    for start in _candidates(criterion.risks):
        end = _descend_on_sphere(growth, start)
        if growth.at(end).value / float(end @ end) < -1e-12:
            raise _unbounded()


def _refuse_if_diverged(criterion: MeasureOfRisks, end: End, start: Array) -> None:
    if not end.diverged:
        return
    if isinstance(criterion.risks, Quadratics):
        direction = end.theta - start
        unit = direction / np.linalg.norm(direction)
        if not _growth(criterion, criterion.risks).at(unit).value < 0.0:
            return
    raise _unbounded()


def _unbounded() -> UnboundedError:
    return UnboundedError(
        "The quantile has no minimum: at this level it can be made arbitrarily low by "
        "predictors whose risks are far apart. Use a level of at least 0.5, or "
        'distribution="empirical", whose quantile never falls below every risk.'
    )


def _growth(criterion: MeasureOfRisks, quadratics: Quadratics) -> MeasureOfRisks:
    """q(dᵀA_e d) + Σ l2_j d_j², the factor of t²."""
    (A, b, _), (dA, db, dc) = quadratics.mean, quadratics.deviations
    pure = Quadratics((A, 0.0 * b, 0.0), (dA, 0.0 * db, 0.0 * dc))
    return MeasureOfRisks(pure, criterion.measure, criterion.l2)


def _candidates(quadratics: Quadratics) -> list[Array]:
    """Directions in which domains differ most, relative to their mean.

    The eigenvectors, in the metric of the mean, of the mean square of the deviations and of
    the most unusual domains.
    """
    A, dA = quadratics.mean[0], quadratics.deviations[0]
    sizes = np.einsum("eij,eij->e", dA, dA)
    unusual = np.argsort(sizes)[::-1][: max(1, CANDIDATES // 2)]
    square = np.einsum("eij,ekj->ik", dA, dA) / len(dA)
    jitter = 1e-12 * float(np.trace(A)) / len(A) * np.eye(len(A))
    found = []
    for matrix in [square, *(dA[e] for e in unusual)]:
        _, vectors = eigh(matrix, A + jitter)
        found += [vectors[:, -1], vectors[:, 0]]
    return found


def _descend_on_sphere(growth: MeasureOfRisks, start: Array) -> Array:
    """A minimum of growth(d)/|d|² near ``start``."""
    from scipy.optimize import minimize  # slow to import

    def quotient(direction: Array) -> tuple[float, Array]:
        norm = float(direction @ direction)
        point = growth.at(direction)
        value = point.value / norm
        return value, (point.gradient - 2.0 * value * direction) / norm

    scaled = start / np.linalg.norm(start)
    return np.asarray(minimize(quotient, scaled, jac=True, method="L-BFGS-B").x)
