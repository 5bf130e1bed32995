"""Every candidate fitted to the same rows: linear models exactly, others by their estimators."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from eqrm import (
    KDE,
    Level,
    LGBMQRMClassifier,
    LGBMQRMRegressor,
    Phase,
    QRMClassifier,
    QRMRegressor,
    XGBQRMClassifier,
    XGBQRMRegressor,
    objectives,
)
from eqrm.errors import SettingError
from eqrm.estimators.fit_inputs import TrainingRows
from eqrm.estimators.groups import Groups
from eqrm.estimators.linear_fits import LogisticProblem, Scaling, standardised_moments
from eqrm.estimators.network_training import Examples, new_network, train_network
from eqrm.linear.solving.kernel_measures import MeasureChoice
from eqrm.linear.solving.measures import MeanPlusVariance, MeasureOfRisks
from eqrm.linear.solving.risk_functions import risk_quadratics
from eqrm.linear.solving.search import Problem, distinct_minima, starting_points
from studies.frontiers.settings import (
    EQRM,
    ERM,
    GROUPDRO,
    L2,
    LAWS,
    LIGHTGBM,
    LINEAR,
    MLP,
    PUBLISHED,
    SUPERQUANTILE,
    VREX,
    Candidate,
    StudySettings,
)

MAX_STEPS = 200
PUBLISHED_LAW = partial(KDE, gradient="bisection")
GROUPDRO_STEP = 0.1
Array = NDArray[np.float64]
Predictor = Callable[[Array], Array]
"""From features (n, d) to scores (n,)."""
Risks = Any
"""Risks of domains as functions of θ: values, slopes and Hessians of the package's solvers."""
Measure = Any
"""What of the risks is minimised."""


def fit_candidates(
    model: str, candidates: Sequence[Candidate], rows: TrainingRows, settings: StudySettings
) -> list[Predictor]:
    """A predictor for each candidate, all fitted to these rows."""
    classes = classes_of(rows)
    if model == LINEAR:
        return LinearFits.of(rows).fit(candidates, settings)
    if model == MLP:
        return _networks(candidates, rows, classes, settings)
    return [_boosted(model, candidate, rows, classes, settings) for candidate in candidates]


def classes_of(rows: TrainingRows) -> int:
    """2, or 0 where numbers are predicted."""
    return 2 if rows.y.dtype.kind == "i" else 0


def estimator_of(model: str, classes: int, settings: StudySettings) -> Any:
    """The package's estimator of a model, with the settings of the study."""
    if model in (LINEAR, MLP):
        kind: Any = QRMClassifier if classes else QRMRegressor
        steps = {"steps": settings.steps, "erm_steps": settings.steps}
        return kind(model=model, l2=L2, hidden=(settings.hidden,), **steps)
    pair = (LGBMQRMClassifier, LGBMQRMRegressor)
    if model != LIGHTGBM:
        pair = (XGBQRMClassifier, XGBQRMRegressor)
    return pair[0 if classes else 1](n_estimators=settings.rounds, n_jobs=1, random_state=0)


class LinearFits(ABC):
    """Linear predictors of some rows in parameters θ of standardised features."""

    risks: Risks
    penalty: Array
    erm: Array
    """θ of the least mean risk."""

    def __init__(self) -> None:
        self._descended: dict[tuple[Level, str, int, StudySettings], Array] = {}

    @classmethod
    def of(cls, rows: TrainingRows) -> LinearFits:
        """For the loss of the task."""
        return _Logistic(rows) if classes_of(rows) else _Quadratic(rows)

    @abstractmethod
    def least(self, measure: Measure, before: Array | None) -> Array:
        """θ with the least measure of the risks; ``before`` is that of the level before."""

    @abstractmethod
    def predictor(self, theta: Array) -> Predictor:
        """Scores in the units of the features."""

    @abstractmethod
    def some(self, domains: NDArray[np.int64]) -> Risks:
        """The risks of some of the domains."""

    def fit(self, candidates: Sequence[Candidate], settings: StudySettings) -> list[Predictor]:
        """A predictor for each candidate; levels of a method start from the level before."""
        found, method, before = [], "", None
        m = len(self.risks.at(self.erm).spread)
        for candidate in candidates:
            before = before if candidate.method == method else None
            method = candidate.method
            if method == ERM:
                theta = self.erm
            elif method == PUBLISHED:
                theta = self.descend(_level(candidate), "bisection", None, settings)
            else:
                theta = before = self.least(self._measure(candidate, m), before)
            found.append(self.predictor(theta))
        return found

    def _measure(self, candidate: Candidate, domains: int) -> Measure:
        if candidate.method == VREX:
            return MeanPlusVariance(_penalty(candidate) / self.risks.at(self.erm).mean)
        if candidate.method == GROUPDRO:
            return MeasureChoice.of(None, "worst", "gaussian-optimal").at(1.0, domains)
        measure = "superquantile" if candidate.method == SUPERQUANTILE else "quantile"
        choice = MeasureChoice.of(LAWS.get(candidate.method), measure, "gaussian-optimal")
        return choice.at(_level(candidate), domains)

    def descend(
        self, level: Level, gradient: str, domains: int | None, settings: StudySettings
    ) -> Array:
        """θ after Adam on the KDE's quantile from ERM, by the exact or the published gradient.

        Each step sees this many domains (None: all), as published: the quantile is of those
        alone. Of several learning rates the one with the lowest quantile over all training
        domains is kept.
        """
        m = len(self.risks.at(self.erm).spread)
        seen = m if domains is None else min(domains, m)
        asked = level, gradient, seen, settings
        if asked not in self._descended:
            ends = [self._adam(level, gradient, seen, settings.steps, r) for r in settings.rates]
            whole = MeasureChoice.of("kde", "quantile", "gaussian-optimal").at(level, m)
            values = [MeasureOfRisks(self.risks, whole, self.penalty).at(end).value for end in ends]
            self._descended[asked] = ends[int(np.argmin(values))]
        return self._descended[asked]

    def _adam(self, level: Level, gradient: str, domains: int, steps: int, rate: float) -> Array:
        theta, first, second = self.erm.copy(), np.zeros_like(self.erm), np.zeros_like(self.erm)
        generator = np.random.default_rng(0)
        m = len(self.risks.at(theta).spread)
        for step in range(1, steps + 1):
            seen = self.risks
            if domains < m:
                seen = self.some(np.sort(generator.permutation(m)[:domains]))
            here = seen.at(theta)
            weights = _quantile_slope(here.mean + here.spread, level, gradient)
            mean_slope, slopes = here.slopes
            slope = float(weights.sum()) * mean_slope + weights @ slopes
            slope += 2.0 * self.penalty * theta
            first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
            size = rate * 0.5 * (1.0 + math.cos(math.pi * (step - 1) / steps))
            moved = first / (1.0 - 0.9**step)
            theta = theta - size * moved / (np.sqrt(second / (1.0 - 0.999**step)) + 1e-8)
        return theta


def _quantile_slope(risks: Array, level: Level, gradient: str) -> Array:
    """dq/dR (m,) of the KDE's quantile."""
    values = torch.tensor(risks, dtype=torch.float64, requires_grad=True)
    KDE(values, gradient=gradient).quantile(level).backward()
    found: Array = values.grad.numpy()  # type: ignore[union-attr]
    return found


def _level(candidate: Candidate) -> Level:
    return Level(_penalty(candidate))


def _penalty(candidate: Candidate) -> float:
    if candidate.setting is None:
        raise SettingError(f"{candidate.method} needs a setting.")
    return candidate.setting


class _Logistic(LinearFits):
    """Log-loss."""

    def __init__(self, rows: TrainingRows) -> None:
        super().__init__()
        self.problem = LogisticProblem.of(rows, l2=L2, intercept=True, max_steps=MAX_STEPS)
        self.risks, self.penalty = self.problem.risks, self.problem.penalty
        self.erm = self.problem.least_mean.theta

    def least(self, measure: Measure, before: Array | None) -> Array:
        return self.problem.least(measure, before)[0].theta

    def predictor(self, theta: Array) -> Predictor:
        coefficients, intercepts = self.problem.predictor(theta)
        return lambda X: X @ coefficients[0] + intercepts[0]

    def some(self, domains: NDArray[np.int64]) -> Risks:
        starts, sizes = self.risks.ends[domains], np.diff(self.risks.ends)[domains]
        ends = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.repeat(starts - ends[:-1], sizes) + np.arange(ends[-1])
        whole = self.risks
        parts = {"rows": whole.rows[rows], "labels": whole.labels[rows]}
        return replace(whole, **parts, ends=ends, shares=whole.shares[rows])


class _Quadratic(LinearFits):
    """Squared error."""

    def __init__(self, rows: TrainingRows) -> None:
        super().__init__()
        self.scaling = Scaling.of(rows.X, None, intercept=True)
        moments = standardised_moments(rows.X, rows.y, rows.groups, None, self.scaling)
        self.risks, self.coordinates = risk_quadratics(moments, True)
        self.penalty = self.coordinates.l2(L2, self.risks.parameters)
        self.erm = self.risks.minimiser_of_mean(self.penalty)

    def least(self, measure: Measure, before: Array | None) -> Array:
        criterion = MeasureOfRisks(self.risks, measure, self.penalty)
        problem = Problem.of(criterion, self.risks, self.penalty)
        with threadpool_limits(1):
            starts = starting_points(problem, 8, 0)
            return distinct_minima(problem, starts, MAX_STEPS)[0].theta

    def predictor(self, theta: Array) -> Predictor:
        beta, intercept = self.coordinates.predictor(theta)
        coefficients, intercepts = self.scaling.predictor(np.append(beta, intercept)[None])
        return lambda X: X @ coefficients[0] + intercepts[0]

    def some(self, domains: NDArray[np.int64]) -> Risks:
        a, b, c = self.risks.deviations
        return replace(self.risks, deviations=(a[domains], b[domains], c[domains]))


def _networks(
    candidates: Sequence[Candidate], rows: TrainingRows, classes: int, settings: StudySettings
) -> list[Predictor]:
    """Networks with one hidden layer, each trained on from the same ERM network."""
    examples = Examples.of(rows, classes)
    start = new_network([rows.X.shape[1], settings.hidden, 1], True, seed=0)
    batches = examples.batches(None, None, np.random.RandomState(0))
    rate = 0.01
    ready = [Phase(objectives.ERM(), settings.steps, rate, "cosine")]
    train_network(examples, start, ready, batches, L2)
    with torch.no_grad():
        losses, ids = examples.losses(start, None)
        mean = float(objectives.ERM()(losses, ids))
    found: list[Predictor] = []
    for candidate in candidates:
        phase = Phase(_objective(candidate, mean), settings.steps, rate, "cosine")
        network = train_network(examples, copy.deepcopy(start), [phase], batches, L2)
        found.append(partial(_first_output, network))
    return found


def _first_output(network: Any, X: Array) -> Array:
    found: Array = network(X)[:, 0]
    return found


def _objective(candidate: Candidate, mean: float) -> Any:
    """What a network is trained for; ``mean`` is ERM's mean risk."""
    method = candidate.method
    if method == ERM:
        return objectives.ERM()
    if method == GROUPDRO:
        return objectives.GroupDRO(GROUPDRO_STEP)
    if method == VREX:
        return objectives.VREx(_penalty(candidate) / mean)
    if method == SUPERQUANTILE:
        return objectives.Superquantile(_level(candidate))
    options = {"gradient": "bisection"} if method == PUBLISHED else None
    return objectives.EQRM(_level(candidate), LAWS.get(method, "kde"), options=options)


def _boosted(
    model: str, candidate: Candidate, rows: TrainingRows, classes: int, settings: StudySettings
) -> Predictor:
    """Boosted trees by the package's estimators."""
    made = estimator_of(model, classes, settings)
    chosen: dict[str, Any] = {"alpha": candidate.setting}
    if candidate.method == GROUPDRO:
        chosen["measure"] = "worst"
        chosen["alpha"] = 1.0
    elif candidate.method == SUPERQUANTILE:
        chosen["measure"] = "superquantile"
    elif candidate.method == PUBLISHED:
        chosen["distribution"] = PUBLISHED_LAW
    elif candidate.method not in (ERM, EQRM):
        chosen["distribution"] = LAWS[candidate.method]
    made.set_params(**chosen).fit(rows.X, rows.y, groups=rows.groups.ids)
    found: Predictor = made._checked_scores
    return found


def rows_of(X: Any, y: Any, ids: Any, classes: int) -> TrainingRows:
    """Rows of some domains, numbered anew, in float64; classes are integers."""
    _, places, counts = np.unique(ids, return_inverse=True, return_counts=True)
    groups = Groups(places, tuple(range(len(counts))), counts)
    target = y.astype(np.int64) if classes else y.astype(np.float64)
    return TrainingRows(X.astype(np.float64), target, groups, None)
