"""Recalibration for a level: the shift and scale of scores with the smallest quantile of risk.

The post-hoc way to a low quantile: no retraining, only the scores of a predictor. Two classes have
one shift and one scale of the logit, K classes a shift each and one scale of their logits, and
numbers an intercept and a slope. Solved by the Newton's method of the exact linear models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from eqrm.level import Level
from eqrm.linear.solving.chosen_measure import MeasureChoice
from eqrm.linear.solving.correction_risks import CorrectionRisks
from eqrm.linear.solving.criteria import MeasureOfRisks
from eqrm.linear.solving.logistic_risks import contrasts
from eqrm.linear.solving.measures import Mean, Measure
from eqrm.linear.solving.newton import End, ParameterMetric, minimise_costly, one_thread
from eqrm.linear.solving.risk_functions import Array, Quadratics, RiskFunctions
from eqrm.linear.solving.search import Problem, distinct_minima

WEAK = 1e-9
"""The penalty on the scale, for scores that separate the classes: it would grow without end."""
MAX_STEPS = 100
LARGE = 1_000_000
"""Rows beyond which the search for the best minimum uses some rows of every domain only."""
SOME = 64
"""How many rows of a domain that search uses."""


@dataclass(frozen=True)
class Correction:
    """Corrected scores are ``scale``·scores + ``shift``: a number, or one per class (K,).

    >>> Correction(0.5, 2.0)(np.array([0.0, 1.0]))
    array([0.5, 2.5])
    """

    shift: float | tuple[float, ...] = 0.0
    scale: float = 1.0

    def __call__(self, scores: Array) -> Array:
        """Correct scores: logits of two classes or numbers (n,), or logits of K classes (n, K)."""
        return np.asarray(self.scale * scores + np.asarray(self.shift), dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        shift = self.shift if isinstance(self.shift, float) else list(self.shift)
        return {"shift": shift, "scale": self.scale}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Correction:
        """The reverse of :meth:`to_dict`."""
        shift = content["shift"]
        return cls(
            tuple(map(float, shift)) if isinstance(shift, list) else float(shift),
            float(content["scale"]),
        )


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Scores and targets of rows, sorted by domain.

    ``scores`` are (n,), or (n, K) for K > 2 classes; ``target`` holds 0 … K−1, or numbers where
    ``classes`` is 0; ``ends`` (m+1,) are where the domains begin and end, and ``shares`` (n,) sum
    to 1 in each of them.
    """

    scores: Array
    target: NDArray[Any]
    classes: int
    ends: NDArray[np.int64]
    shares: Array

    @classmethod
    def of(
        cls,
        scores: Array,
        target: NDArray[Any],
        classes: int,
        domains: NDArray[np.integer[Any]],
        sample_weight: Array | None = None,
    ) -> ScoredRows:
        """From rows in any order; ``domains`` (n,) are numbers from 0, none left out."""
        counts = np.bincount(domains)
        ends = np.concatenate([[0], np.cumsum(counts)])
        if (np.diff(domains) < 0).any():
            order = np.argsort(domains, kind="stable")
            scores, target, domains = scores[order], target[order], domains[order]
            sample_weight = None if sample_weight is None else sample_weight[order]
        if sample_weight is None:
            shares = np.repeat(1.0 / counts, counts)
        else:
            shares = sample_weight / np.repeat(np.bincount(domains, sample_weight), counts)
        return cls(scores, target, classes, ends, shares)

    @property
    def domains(self) -> int:
        """m."""
        return len(self.ends) - 1

    def some(self, most: int) -> ScoredRows:
        """At most this many rows of each domain, evenly spread over its rows."""
        sizes = np.diff(self.ends)
        kept = np.minimum(sizes, most)
        ends = np.concatenate([[0], np.cumsum(kept)])
        within = np.arange(ends[-1]) - np.repeat(ends[:-1], kept)
        rows = np.repeat(self.ends[:-1], kept) + within * np.repeat(sizes / kept, kept).astype(int)
        shares = self.shares[rows]
        shares = shares / np.repeat(np.add.reduceat(shares, ends[:-1]), kept)
        return ScoredRows(self.scores[rows], self.target[rows], self.classes, ends, shares)

    def risks(self, correction: Correction) -> Array:
        """The risk of each domain (m,) with corrected scores."""
        scores = correction(self.scores)
        if not self.classes:
            losses = (scores - self.target) ** 2
        elif scores.ndim == 1:
            losses = np.logaddexp(0.0, np.where(self.target == 1, -1.0, 1.0) * scores)
        else:
            highest = scores.max(axis=1)
            own = np.take_along_axis(scores, self.target[:, None], axis=1)[:, 0]
            losses = highest + np.log(np.exp(scores - highest[:, None]).sum(axis=1)) - own
        found: Array = np.add.reduceat(self.shares * losses, self.ends[:-1])
        return found


def recalibrate(
    rows: ScoredRows,
    level: Level | None,
    choice: MeasureChoice | None = None,
    scaled: bool = True,
) -> Correction:
    """The correction with the smallest measure of risk over these domains; None is the mean.

    >>> generator = np.random.default_rng(0)
    >>> logits, domains = generator.normal(size=4000), np.repeat(np.arange(40), 100)
    >>> labels = (generator.random(4000) < 1.0 / (1.0 + np.exp(1.0 - 2.0 * logits))).astype(int)
    >>> rows = ScoredRows.of(logits, labels, 2, domains)
    >>> found = recalibrate(rows, None)
    >>> round(found.shift, 1), round(found.scale, 1)
    (-1.0, 2.0)
    """
    choice = choice or MeasureChoice.of("kde", "quantile", "gaussian-optimal")
    measure = Mean() if level is None or rows.domains < 2 else choice.at(level, rows.domains)
    problem = CorrectionProblem.of(rows, scaled)
    with one_thread():
        starts: Sequence[Array] = problem.starts
        if len(rows.target) > LARGE:
            few = CorrectionProblem.of(rows.some(SOME), scaled, problem.centre, problem.spread)
            starts = [few.least(measure, starts).theta]
        return problem.correction(problem.least(measure, starts).theta)


@dataclass(frozen=True, eq=False)
class CorrectionProblem:
    """The risks in the parameters of a correction of standardised scores.

    θ is (shifts, scale), scores being taken as (f⁰ − ``centre``)/``spread``.
    """

    risks: RiskFunctions
    centre: Array
    spread: float
    classes: int
    scaled: bool

    @classmethod
    def of(
        cls,
        rows: ScoredRows,
        scaled: bool,
        centre: Array | None = None,
        spread: float | None = None,
    ) -> CorrectionProblem:
        """``centre`` and ``spread`` are those of the scores, unless given."""
        outputs = rows.scores[:, None]
        if rows.classes > 2:
            outputs = rows.scores @ contrasts(rows.classes)
        if centre is None or spread is None:
            centre, spread = np.zeros(outputs.shape[1]), 1.0
            if scaled:
                centre = outputs.mean(axis=0)
                spread = float(np.sqrt(outputs.var(axis=0).mean())) or 1.0
        outputs = (outputs - centre) / spread
        kind = _quadratics if not rows.classes else _log_losses
        return cls(kind(rows, outputs, scaled), centre, spread, rows.classes, scaled)

    @property
    def starts(self) -> list[Array]:
        """The scores as they are, and no scores at all."""
        zero = np.zeros(self.risks.parameters)
        if not self.scaled:
            return [zero]
        return [np.append(self.centre, self.spread), zero]

    def least(self, measure: Measure, starts: Sequence[Array]) -> End:
        """The lowest minimum that is reached from the starts, or from the least mean risk."""
        penalty = np.zeros(self.risks.parameters)
        if self.scaled:
            penalty[-1] = WEAK
        here = self.risks.at(np.zeros(self.risks.parameters))
        m = len(here.spread)
        hessian = here.weighted_hessian(np.full(m, 1.0 / m))
        floor = 1e-9 * float(np.trace(hessian)) / len(hessian) + 1e-300
        metric = ParameterMetric.of(hessian + np.diag(penalty + floor), max(here.mean, 1e-300))
        mean = MeasureOfRisks(self.risks, Mean(), penalty)
        least_mean = minimise_costly(mean, starts[0], metric, MAX_STEPS)
        if isinstance(measure, Mean):
            return least_mean
        criterion = MeasureOfRisks(self.risks, measure, penalty)
        problem = Problem(criterion, metric, self.risks, least_mean.theta, minimise_costly)
        return distinct_minima(problem, [*starts, least_mean.theta], MAX_STEPS)[0]

    def correction(self, theta: Array) -> Correction:
        """In the units of the scores."""
        scale = float(theta[-1]) / self.spread if self.scaled else 1.0
        shifts = theta[: len(self.centre)] - (scale * self.centre if self.scaled else 0.0)
        if self.classes > 2:
            return Correction(tuple((contrasts(self.classes) @ shifts).tolist()), scale)
        return Correction(float(shifts[0]), scale)


def _log_losses(rows: ScoredRows, outputs: Array, scaled: bool) -> RiskFunctions:
    workers = torch.get_num_threads() if len(outputs) >= LARGE else 1
    labels = rows.target.astype(np.int64)
    return CorrectionRisks(
        outputs, labels, rows.classes, rows.ends, rows.shares, workers, scaled=scaled
    )


def _quadratics(rows: ScoredRows, outputs: Array, scaled: bool) -> RiskFunctions:
    """Of the squared error: the intercept, and the slope where there is one."""
    columns = np.column_stack([np.ones(len(outputs)), outputs[:, 0]])
    target = rows.target.astype(np.float64)
    if not scaled:
        columns, target = columns[:, :1], target - outputs[:, 0]
    width = columns.shape[1]

    def means(values: Array) -> Array:
        found: Array = np.add.reduceat(rows.shares * values, rows.ends[:-1])
        return found

    squares = np.empty((rows.domains, width, width))
    for a in range(width):
        for b in range(width):
            squares[:, a, b] = means(columns[:, a] * columns[:, b])
    products = np.column_stack([means(columns[:, a] * target) for a in range(width)])
    return Quadratics.of(squares, products, means(target * target))
