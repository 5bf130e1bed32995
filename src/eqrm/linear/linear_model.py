"""What all linear predictors from moments share: data in, predictor out, errors."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from eqrm.errors import DomainDataError, EqrmWarning, SettingError, did_you_mean
from eqrm.linear.moments.domain_moments import DomainMoments
from eqrm.linear.moments.running import as_array
from eqrm.linear.settings import check_amount, check_whole
from eqrm.linear.solving.criteria import Criterion
from eqrm.linear.solving.newton import End
from eqrm.linear.solving.one_thread import one_thread
from eqrm.linear.solving.quadratics import Array, Coordinates, Quadratics, risk_quadratics
from eqrm.linear.solving.search import Problem, distinct_minima, starting_points

Starts = int | Sequence[Sequence[float]] | Tensor
Self = TypeVar("Self", bound="LinearModel")


class NotConvergedWarning(EqrmWarning):
    """No descent reached a point that is a minimum to second order."""


@dataclass(frozen=True)
class Minimum:
    """One minimum that was found: the predictor and the value of its objective there."""

    coefficients: Tensor
    intercept: float
    value: float


class LinearModel(ABC):
    """A linear predictor of squared error, chosen by a function of the domains' risks.

    After :meth:`fit` it has ``coefficients`` (d,), ``intercept``, ``risks`` (E,) of the domains
    it was fitted to, ``value`` of the objective (the ridge penalty included), ``minima`` (the
    distinct minima found, best first), ``converged`` and ``steps`` (of Newton's
    method, on the way to those minima).

    Args:
        ridge: r ≥ 0 adds r·Σβ_j² to the objective; the intercept is not shrunk.
        intercept: whether there is one.
        starts: how many points to descend from, or the points themselves, a row of
            coefficients each (and the intercept last, where there is one).
        seed: of the random ones among the starts.
        max_steps: of Newton's method in one descent.
    """

    least_domains = 2

    def __init__(
        self,
        *,
        ridge: float = 0.0,
        intercept: bool = True,
        starts: Starts = 8,
        seed: int = 0,
        max_steps: int = 200,
    ) -> None:
        if not isinstance(intercept, (bool, np.bool_)):
            raise SettingError(f"intercept must be True or False, but it is {intercept!r}.")
        if isinstance(starts, (int, str)):
            check_whole(starts, "starts", 1)
        self.ridge, self.has_intercept = check_amount(ridge, "ridge"), bool(intercept)
        self.starts, self.seed = starts, check_whole(seed, "seed", 0)
        self.max_steps = check_whole(max_steps, "max_steps", 1)
        self.features: tuple[str, ...] = ()
        self.moments: DomainMoments | None = None
        self.coefficients = torch.empty(0, dtype=torch.float64)
        self.intercept, self.value = 0.0, float("nan")
        self.risks = torch.empty(0, dtype=torch.float64)
        self.minima: tuple[Minimum, ...] = ()
        self.converged, self.steps = False, 0

    @abstractmethod
    def _criterion(
        self, moments: DomainMoments, quadratics: Quadratics, ridge: Array
    ) -> Criterion: ...

    def fit(self: Self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Fit to :class:`~eqrm.linear.DomainMoments`, or to X (n, d), y and domains (n,).

        ``groups`` says which domain each row of X comes from. Returns the fitted model.
        """
        moments = as_moments(X, y, groups)
        with one_thread():
            problem, coordinates = self._pose(moments)
            self._keep(moments, coordinates, self._solve(problem, coordinates))
        return self

    def _pose(self, moments: DomainMoments) -> tuple[Problem, Coordinates]:
        """The minimisation problem of these moments."""
        refuse_unusable(moments, self.has_intercept, self.ridge, self.least_domains)
        quadratics, coordinates = risk_quadratics(moments, self.has_intercept)
        ridge = coordinates.ridge(self.ridge, quadratics.parameters)
        criterion = self._criterion(moments, quadratics, ridge)
        try:
            return Problem.of(criterion, quadratics, ridge), coordinates
        except np.linalg.LinAlgError:
            raise DomainDataError(
                "The features are linearly dependent, so the coefficients are not determined. "
                "Leave some out, or set ridge above 0."
            ) from None

    def _solve(
        self, problem: Problem, coordinates: Coordinates, more: Sequence[Array] = ()
    ) -> list[End]:
        points = self._starting_points(problem, coordinates)
        return distinct_minima(problem, [*more, *points], self.max_steps)

    def _starting_points(self, problem: Problem, coordinates: Coordinates) -> list[Array]:
        if isinstance(self.starts, int):
            return starting_points(problem, self.starts, self.seed)
        width = problem.risks.parameters
        order = "coefficients, then the intercept" if self.has_intercept else "coefficients"
        try:
            rows = np.atleast_2d(np.asarray(self.starts, dtype=np.float64))
        except (TypeError, ValueError):
            raise SettingError(
                f"starts must be a whole number, or rows of {width} numbers each ({order})."
            ) from None
        if rows.ndim != 2 or rows.shape[1] != width:
            raise SettingError(
                f"Each start needs {width} numbers ({order}), but the shape is {rows.shape}."
            )
        if not np.isfinite(rows).all():
            raise SettingError("starts must hold finite numbers only.")
        if not self.has_intercept:
            return list(rows)
        return [coordinates.parameters(row[:-1], float(row[-1])) for row in rows]

    def _keep(self, moments: DomainMoments, coordinates: Coordinates, ends: list[End]) -> None:
        self.moments, self.features = moments, moments.features
        self.minima = tuple(_minimum(end, coordinates) for end in ends)
        best = ends[0]
        if not np.isfinite(best.value):
            raise SettingError(
                f"The objective of {type(self).__name__} is beyond what float64 can hold at every "
                "start. Use a level further from 1, a smaller penalty, or starts closer to 0."
            )
        self.coefficients, self.intercept = self.minima[0].coefficients, self.minima[0].intercept
        self.value, self.converged = best.value, best.converged
        self.steps = sum(end.steps for end in ends)
        self.risks = moments.risks(self.coefficients, self.intercept)
        if not best.converged:
            warnings.warn(
                f"{type(self).__name__} stopped before it reached a minimum. Give it more "
                "max_steps or starts, features of similar scale, or a small ridge.",
                NotConvergedWarning,
                stacklevel=3,
            )

    def cross_fitted_risks(
        self, X: Any, y: Any = None, groups: Any = None, *, folds: int = 10, seed: int = 0
    ) -> Tensor:
        """The risk (E,) of each domain under a model fitted to other domains only.

        Domains are dealt into ``folds``, and each fold is judged by a model of the rest. Two
        models' cross-fitted risks, compared by :func:`eqrm.evaluation.paired_differences`, tell
        before any new domain is seen whether one will do better there.

        >>> X, y, groups = [[0.0], [1.0], [2.0], [4.0]], [0.0, 2.0, 4.0, 9.0], ["a", "a", "b", "b"]
        >>> from eqrm.linear import LinearERM
        >>> LinearERM().cross_fitted_risks(X, y, groups, folds=2)
        tensor([0.6250, 0.5000], dtype=torch.float64)
        """
        moments = as_moments(X, y, groups)
        check_whole(folds, "folds", 2)
        check_whole(seed, "seed", 0)
        if folds > len(moments):
            raise SettingError(
                f"folds must lie between 2 and the number of domains, {len(moments)}, but it is "
                f"{folds}."
            )
        fold = np.random.default_rng(seed).permutation(len(moments)) % folds
        found = torch.empty(len(moments), dtype=torch.float64)
        for number in range(folds):
            out = torch.from_numpy(fold == number)
            kept = [
                name for name, left in zip(moments.names, out.tolist(), strict=True) if not left
            ]
            model = copy(self).fit(moments.subset(kept))
            found[out] = moments.risks(model.coefficients, model.intercept)[out]
        return found

    def predict(self, X: Any) -> Any:
        """βᵀx + b for X (n, d): a tensor for a tensor, otherwise an array.

        The columns of a data frame are found by the names of the features fitted to.
        """
        if len(self.coefficients) == 0:
            raise SettingError(f"This {type(self).__name__} is not fitted yet: call fit first.")
        if isinstance(X, Tensor):
            rows = X
        else:
            columns = as_array(_by_name(X, self.features), "X")
            rows = torch.from_numpy(np.array(columns, dtype=np.float64))
        if rows.ndim != 2 or rows.shape[1] != len(self.coefficients):
            raise DomainDataError(
                f"X must have shape (n, {len(self.coefficients)}), a column per feature, but its "
                f"shape is {tuple(rows.shape)}."
            )
        found = rows.to(torch.float64) @ self.coefficients + self.intercept
        return found if isinstance(X, Tensor) else found.numpy()


def _by_name(X: Any, features: Sequence[str]) -> Any:
    """The columns of a data frame that the features name; anything else as it is."""
    if not hasattr(X, "columns"):
        return X
    places = {str(name): place for place, name in enumerate(X.columns)}
    missing = [name for name in features if name not in places]
    if not missing:
        return X.iloc[:, [places[name] for name in features]] if hasattr(X, "iloc") else X
    if list(features) == [f"x{j + 1}" for j in range(len(features))]:
        return X  # fitted to an array, whose columns have no names
    raise DomainDataError(
        f"X has no column {missing[0]!r}, which the model was fitted to. "
        f"{did_you_mean(missing[0], places)}"
    )


def _minimum(end: End, coordinates: Coordinates) -> Minimum:
    beta, intercept = coordinates.predictor(end.theta)
    return Minimum(torch.from_numpy(beta.copy()), intercept, end.value)


def as_moments(X: Any, y: Any = None, groups: Any = None) -> DomainMoments:
    """The moments of arrays, or the moments that were given."""
    if isinstance(X, DomainMoments):
        if y is not None or groups is not None:
            raise SettingError("Moments hold the target and the domains already: fit(moments).")
        return X
    if y is None or groups is None:
        raise SettingError(
            "fit needs moments, or X, y and groups: groups says which domain each row is from."
        )
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else []
    target = next(name for name in ("y", "target", "the target") if name not in names)
    return DomainMoments.from_arrays(X, y, groups, features=names or None, target=target)


def refuse_unusable(moments: DomainMoments, intercept: bool, ridge: float, least: int) -> None:
    """Refuse too few domains, and what leaves coefficients undetermined without a ridge."""
    if len(moments) < least:
        raise DomainDataError(
            f"At least {least} domains are needed, but there is {len(moments)}: with one, there "
            "is no law of the risk over domains. LinearERM fits a single domain."
        )
    if ridge > 0.0:
        return
    if intercept:
        problems = moments.problems()
    else:
        problems = _without_intercept(moments)
    if problems:
        raise DomainDataError(
            f"The coefficients are not determined. {' '.join(problems)} Or set ridge above 0."
        )


def _without_intercept(moments: DomainMoments) -> list[str]:
    second = moments.second[:, 1:-1, 1:-1].mean(dim=0)
    size = second.diagonal()
    if bool((size <= 0.0).any()):
        return [f"Feature {moments.features[int(size.argmin())]!r} is 0 everywhere."]
    scale = size.rsqrt()
    values = torch.linalg.eigvalsh(second * scale[:, None] * scale)
    if float(values[0]) < 1e-12 * len(values):
        return ["The features are linearly dependent: leave one of them out."]
    return []
