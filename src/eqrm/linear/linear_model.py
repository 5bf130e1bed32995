"""What the exact linear models share: scikit-learn estimators that are fitted to moments."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from eqrm.checks import (
    FLAG,
    NON_NEGATIVE,
    POSITIVE_INTEGER,
    Rule,
    check_fields,
    is_integer,
    ruled,
)
from eqrm.data.tables.frames import data_frame, frame_columns, is_frame, number_matrix
from eqrm.errors import DomainDataError, EqrmWarning, SettingError
from eqrm.execution import is_tensor, namespace
from eqrm.linear.domain_moments import DomainMoments
from eqrm.linear.running_moments import default_names
from eqrm.linear.solving.measures import Mean, MeasureOfRisks
from eqrm.linear.solving.newton import End, one_thread
from eqrm.linear.solving.risk_functions import Array, Coordinates, Quadratics, risk_quadratics
from eqrm.linear.solving.search import Problem, distinct_minima, starting_points

Starts = int | Sequence[Sequence[float]] | Array
Self = TypeVar("Self", bound="LinearModel")

RANDOM_STATE = Rule(
    "None, an integer of at least 0, or a numpy RandomState",
    lambda v: v is None or (is_integer(v) and v >= 0) or isinstance(v, np.random.RandomState),
)
STARTS = Rule(
    "an integer of at least 1, or points to start from", lambda v: not is_integer(v) or v >= 1
)


class NotConvergedWarning(EqrmWarning):
    """No descent reached a point that is a minimum to second order."""


@dataclass(frozen=True, eq=False)
class Minimum:
    """One minimum that was found: the predictor and the value of its objective there."""

    coefficients: Array
    intercept: float
    value: float


@dataclass(eq=False, repr=False, kw_only=True)
class LinearModel(RegressorMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A linear predictor of squared error, chosen by a function of the domains' risks.

    Settings and attributes are those of :class:`eqrm.LinearQRM`.
    """

    l2: float = ruled(0.0, NON_NEGATIVE)
    fit_intercept: bool = ruled(True, FLAG)
    starts: Starts = field(default=8, metadata={"rule": STARTS})
    random_state: Any = field(default=0, metadata={"rule": RANDOM_STATE})
    max_steps: int = ruled(200, POSITIVE_INTEGER)

    # With metadata routing on, groups go to fit without being asked for.
    __metadata_request__fit = {"groups": True}  # noqa: RUF012
    _needs_domains = True

    @abstractmethod
    def _criterion(
        self, moments: DomainMoments, risks: Quadratics, l2: Array
    ) -> MeasureOfRisks: ...

    def fit(self: Self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Fit to :class:`~eqrm.linear.DomainMoments`, or to X (n, d), y (n,) and groups (n,).

        ``groups`` is the domain of each row; only LinearERM does without.
        """
        check_fields(self)
        self._fit_moments(self._moments_of(X, y, groups))
        return self

    def _moments_of(self, X: Any, y: Any, groups: Any) -> DomainMoments:
        """The moments that were given, or those of checked rows; keeps the features' names."""
        if isinstance(X, DomainMoments):
            if y is not None or groups is not None:
                raise SettingError(
                    "DomainMoments hold the target and the domains already: call fit(moments)."
                )
            self.n_features_in_ = X.num_features
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
            if X.features != default_names(X.num_features):
                self.feature_names_in_ = np.array(X.features, dtype=object)
            return X
        # Values that are not finite are refused by column and domain when they are summed.
        options = {"dtype": "numeric", "ensure_all_finite": False, "ensure_min_samples": 2}
        rows, target = self._checked(X, _off_device(y), y_numeric=True, **options)
        if groups is None and self._needs_domains:
            raise DomainDataError(
                "groups are missing: without the domain of each row there is no risk by domain. "
                "Pass them, fit(X, y, groups=groups); a Pipeline, GridSearchCV or cross_val_score "
                "passes them on after sklearn.set_config(enable_metadata_routing=True). LinearERM "
                "is least squares over all rows."
            )
        names = getattr(self, "feature_names_in_", None)
        domains = "all rows" if groups is None else groups
        return DomainMoments.from_arrays(rows, target, domains, names)

    def _checked(self, X: Any, y: Any = "no_validation", **options: Any) -> Any:
        """X and y as arrays that passed scikit-learn's checks, of any kind of frame."""
        rows = _off_device(X)
        if is_frame(X):
            names = frame_columns(X)
            rows = data_frame(dict(zip(map(str, names), number_matrix(X, names).T, strict=True)))
        try:
            return validate_data(self, rows, y, **options)
        except ValueError as error:
            raise DomainDataError(str(error)) from None

    def _fit_moments(self, moments: DomainMoments, more: Sequence[Array] = ()) -> Array:
        """Solve, keep what was found, and return the parameters of the best minimum."""
        with one_thread():
            problem, coordinates = self._pose(moments)
            points = [*more, *self._starting_points(problem, coordinates)]
            ends = distinct_minima(problem, points, self.max_steps)
            self._keep(moments, coordinates, ends)
        return ends[0].theta

    def _pose(self, moments: DomainMoments) -> tuple[Problem, Coordinates]:
        """The minimisation problem of these moments."""
        if self._needs_domains and len(moments) < 2:
            raise DomainDataError(
                "At least 2 domains are needed, got 1: one domain has no distribution of risk over "
                "domains. LinearERM fits a single domain."
            )
        problems = moments.problems(self.fit_intercept) if self.l2 == 0.0 else []
        if problems:
            raise DomainDataError(
                f"The coefficients are not determined. {' '.join(problems)} Or set l2 above 0."
            )
        quadratics, coordinates = risk_quadratics(moments, self.fit_intercept)
        l2 = coordinates.l2(self.l2, quadratics.parameters)
        criterion = self._criterion(moments, quadratics, l2)
        if len(moments) == 1:
            criterion = MeasureOfRisks(quadratics, Mean(), l2)
        try:
            return Problem.of(criterion, quadratics, l2), coordinates
        except np.linalg.LinAlgError:
            raise DomainDataError(
                "The features are linearly dependent. Leave some out, or set l2 above 0."
            ) from None

    def _starting_points(self, problem: Problem, coordinates: Coordinates) -> list[Array]:
        if is_integer(self.starts):
            seed = self.random_state
            if isinstance(seed, np.random.RandomState):
                seed = int(seed.randint(2**31))
            return starting_points(problem, int(self.starts), seed)  # type: ignore[arg-type]
        rows = np.atleast_2d(np.asarray(self.starts, dtype=np.float64))
        width = problem.risks.parameters
        if rows.shape != (len(rows), width) or not np.isfinite(rows).all():
            order = "coefficients, then the intercept" if self.fit_intercept else "coefficients"
            raise SettingError(
                f"starts must be an integer, or rows of {width} finite numbers each ({order})."
            )
        if not self.fit_intercept:
            return list(rows)
        return [coordinates.parameters(row[:-1], float(row[-1])) for row in rows]

    def _keep(self, moments: DomainMoments, coordinates: Coordinates, ends: list[End]) -> None:
        best = ends[0]
        if not np.isfinite(best.value):
            raise SettingError(
                f"The objective of {type(self).__name__} exceeds the range of float64 at every "
                "start. Use a level further from 1, a smaller penalty, or starts closer to 0."
            )
        self.moments_ = moments
        found = [(*coordinates.predictor(end.theta), end.value) for end in ends]
        self.minima_ = tuple(Minimum(beta.copy(), b, value) for beta, b, value in found)
        self.coef_, self.intercept_ = self.minima_[0].coefficients, self.minima_[0].intercept
        self.value_, self.converged_ = best.value, best.converged
        self.optimality_ = best.optimality
        self.n_iter_ = sum(end.steps for end in ends)
        self.risks_: Array = moments.risks(self.coef_, self.intercept_)
        if not best.converged:
            warnings.warn(
                f"{type(self).__name__} stopped before it reached a minimum. Increase max_steps "
                "or starts, scale the features, or set a small l2.",
                NotConvergedWarning,
                stacklevel=4,
            )

    def predict(self, X: Any) -> Any:
        """βᵀx + b for X (n, d): a tensor for a tensor, otherwise an array."""
        check_is_fitted(self)
        rows = self._checked(X, reset=False, dtype=np.float64)
        found = rows @ self.coef_ + self.intercept_
        return X.new_tensor(found, dtype=namespace(X).float64) if is_tensor(X) else found


def _off_device(values: Any) -> Any:
    return values.detach().cpu().numpy() if is_tensor(values) else values
