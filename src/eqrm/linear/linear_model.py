"""What the exact linear models share: scikit-learn estimators that are fitted to moments."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from eqrm.checks import FLAG, NON_NEGATIVE, POSITIVE_INTEGER, Rule, integer, is_integer
from eqrm.data.tables.frames import frame_columns, is_frame, number_matrix
from eqrm.errors import DomainDataError, EqrmWarning, SettingError
from eqrm.linear.domain_moments import DomainMoments
from eqrm.linear.running_moments import default_names
from eqrm.linear.solving.measures import Criterion, Mean, MeasureOfRisks
from eqrm.linear.solving.newton import End, one_thread
from eqrm.linear.solving.risk_functions import Array, Coordinates, Quadratics, risk_quadratics
from eqrm.linear.solving.search import Problem, distinct_minima, starting_points

Starts = int | Sequence[Sequence[float]] | Tensor
Self = TypeVar("Self", bound="LinearModel")

RANDOM_STATE = Rule(
    "None, an integer of at least 0, or a numpy RandomState",
    lambda v: v is None or (is_integer(v) and v >= 0) or isinstance(v, np.random.RandomState),
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

    After :meth:`fit` it has ``coef_`` (d,), ``intercept_``, ``risks_`` (E,) of the domains it was
    fitted to, ``value_`` of the objective (the penalty included), ``minima_`` (the distinct
    minima found, best first), ``converged_``, ``n_iter_`` (steps of Newton's method on the way
    to those minima), ``optimality_`` (the :class:`~eqrm.linear.Optimality` of a convex objective,
    else None), ``moments_``, ``n_features_in_`` and, where columns have names,
    ``feature_names_in_``.

    Args:
        l2: strength ≥ 0 of the penalty: adds l2·Σβ_j² to the objective. The intercept is not
            penalised, and features are not standardised.
        fit_intercept: whether the predictor has an intercept.
        starts: number of points to descend from, or the points themselves, a row of
            coefficients each (and the intercept last, where there is one).
        random_state: seed of the random points among the starts.
        max_steps: maximum number of steps of Newton's method in one descent.
    """

    l2: float = 0.0
    fit_intercept: bool = True
    starts: Starts = 8
    random_state: Any = 0
    max_steps: int = 200

    # With metadata routing on, groups go to fit without being asked for.
    __metadata_request__fit = {"groups": True}  # noqa: RUF012
    _needs_domains = True

    @abstractmethod
    def _criterion(self, moments: DomainMoments, risks: Quadratics, l2: Array) -> Criterion: ...

    def fit(self: Self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Fit to :class:`~eqrm.linear.DomainMoments`, or to X (n, d), y (n,) and groups (n,).

        ``groups`` is the domain of each row; only LinearERM does without.
        """
        self._check_settings()
        self._fit_moments(self._moments_of(X, y, groups))
        return self

    def _check_settings(self) -> None:
        NON_NEGATIVE.check(self.l2, "l2")
        FLAG.check(self.fit_intercept, "fit_intercept")
        RANDOM_STATE.check(self.random_state, "random_state")
        POSITIVE_INTEGER.check(self.max_steps, "max_steps")
        if is_integer(self.starts):
            POSITIVE_INTEGER.check(self.starts, "starts")

    def _moments_of(self, X: Any, y: Any, groups: Any) -> DomainMoments:
        """The moments that were given, or those of checked rows; keeps the features' names."""
        if isinstance(X, DomainMoments):
            if y is not None or groups is not None:
                raise SettingError(
                    "DomainMoments hold the target and the domains already: call fit(moments)."
                )
            self.n_features_in_ = X.num_features
            named = X.features != default_names(X.num_features)
            self._keep_names(X.features if named else ())
            return self._of_several_domains(X)
        names = frame_columns(X) if is_frame(X) else []
        # Values that are not finite are refused by column and domain when they are summed.
        options = {"dtype": "numeric", "ensure_all_finite": False, "ensure_min_samples": 2}
        rows, target = self._checked(X, _off_device(y), y_numeric=True, **options)
        self._keep_names(names if all(isinstance(name, str) for name in names) else ())
        if groups is not None:
            moments = DomainMoments.from_arrays(rows, target, groups, features=names or None)
            return self._of_several_domains(moments)
        if self._needs_domains:
            raise DomainDataError(
                "groups are missing: without the domain of each row there is no risk by domain. "
                "Pass them, fit(X, y, groups=groups); a Pipeline, GridSearchCV or cross_val_score "
                "passes them on after sklearn.set_config(enable_metadata_routing=True). LinearERM "
                "is least squares over all rows."
            )
        return DomainMoments.from_arrays(rows, target, "all rows", features=names or None)

    def _of_several_domains(self, moments: DomainMoments) -> DomainMoments:
        if self._needs_domains and len(moments) < 2:
            raise DomainDataError(
                "At least 2 domains are needed, got 1: one domain has no distribution of risk over "
                "domains. LinearERM fits a single domain."
            )
        return moments

    def _keep_names(self, names: Sequence[str]) -> None:
        if hasattr(self, "feature_names_in_"):
            delattr(self, "feature_names_in_")  # of an earlier fit
        if len(names):
            self.feature_names_in_ = np.array(names, dtype=object)

    def _checked(self, X: Any, y: Any = "no_validation", **options: Any) -> Any:
        """X and y as arrays that passed scikit-learn's checks."""
        rows = number_matrix(X, frame_columns(X)) if is_frame(X) else _off_device(X)
        with warnings.catch_warnings():
            if is_frame(X):  # its names were looked at
                warnings.filterwarnings("ignore", "X does not have valid feature names")
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
                "The features are linearly dependent, so the coefficients are not determined. "
                "Leave some out, or set l2 above 0."
            ) from None

    def _starting_points(self, problem: Problem, coordinates: Coordinates) -> list[Array]:
        if is_integer(self.starts):
            seed = self.random_state
            if isinstance(seed, np.random.RandomState):
                seed = int(seed.randint(2**31))
            return starting_points(problem, int(self.starts), seed)  # type: ignore[arg-type]
        width = problem.risks.parameters
        order = "coefficients, then the intercept" if self.fit_intercept else "coefficients"
        try:
            rows = np.atleast_2d(np.asarray(self.starts, dtype=np.float64))
        except (TypeError, ValueError):
            rows = np.empty(0)
        if rows.shape != (len(rows), width) or not np.isfinite(rows).all():
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
        self.risks_: Array = moments.risks(self.coef_, self.intercept_).numpy()
        if not best.converged:
            warnings.warn(
                f"{type(self).__name__} stopped before it reached a minimum. Increase max_steps "
                "or starts, scale the features, or set a small l2.",
                NotConvergedWarning,
                stacklevel=4,
            )

    def cross_fitted_risks(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        *,
        folds: int = 10,
        random_state: int = 0,
    ) -> Array:
        """The risk (E,) of each domain under a model fitted to other domains only.

        Domains are divided into ``folds``, and each fold is evaluated by a model of the rest.
        Compare the cross-fitted risks of two models by :func:`eqrm.evaluation.paired_differences`
        to estimate which will do better on new domains.

        >>> X, y, groups = [[0.0], [1.0], [2.0], [4.0]], [0.0, 2.0, 4.0, 9.0], ["a", "a", "b", "b"]
        >>> from eqrm.linear import LinearERM
        >>> LinearERM().cross_fitted_risks(X, y, groups, folds=2)
        array([0.625, 0.5  ])
        """
        self._check_settings()
        moments = clone(self)._moments_of(X, y, groups)
        integer(2, len(moments)).check(folds, "folds (at most the number of domains)")
        RANDOM_STATE.check(random_state, "random_state")
        fold = np.random.default_rng(random_state).permutation(len(moments)) % folds
        names, found = np.array(moments.names, dtype=object), np.empty(len(moments))
        for number in range(folds):
            out = fold == number
            model = clone(self).fit(moments.subset(names[~out]))
            found[out] = moments.risks(model.coef_, model.intercept_).numpy()[out]
        return found

    def predict(self, X: Any) -> Any:
        """βᵀx + b for X (n, d): a tensor for a tensor, otherwise an array.

        The columns of a frame must have the names of the features fitted to, in the same order.
        """
        check_is_fitted(self)
        if is_frame(X):
            self._refuse_other_names([str(name) for name in frame_columns(X)])
        rows = self._checked(X, reset=False, dtype=np.float64)
        found = rows @ self.coef_ + self.intercept_
        return torch.from_numpy(found).to(X.device) if isinstance(X, Tensor) else found

    def _refuse_other_names(self, names: list[str]) -> None:
        """With scikit-learn's wording, which its own checks look for."""
        fitted = list(self.moments_.features)
        named = hasattr(self, "feature_names_in_") or fitted != [*default_names(len(fitted))]
        unseen, missing = sorted({*names} - {*fitted}), sorted({*fitted} - {*names})
        if names == fitted or not (named or not (unseen or missing)):
            return
        message = "The feature names should match those that were passed during fit.\n"
        if unseen:
            message += f"Feature names unseen at fit time:\n{_bullets(unseen)}"
        if missing:
            message += f"Feature names seen at fit time, yet now missing:\n{_bullets(missing)}"
        else:
            if not unseen:
                message += "Feature names must be in the same order as they were in fit.\n"
            message += "Select them by name: X[list(model.moments_.features)]."
        raise DomainDataError(message)


def _bullets(names: list[str], most: int = 5) -> str:
    return "".join(f"- {name}\n" for name in names[:most]) + "- ...\n" * (len(names) > most)


def _off_device(values: Any) -> Any:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else values
