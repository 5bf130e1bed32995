"""What the boosted estimators share: tables in, rounds of boosting, margins out.

A library brings three things (``_dataset``, ``_boost``, ``_margins_of``); a task brings two (what
the labels are, what margins mean). The four estimators are the pairs.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from eqrm.errors import DomainDataError, EqrmWarning, SettingError
from eqrm.estimators.boosting_objective import DomainTable, objective_of
from eqrm.estimators.groups import Groups, as_groups
from eqrm.level import Level
from eqrm.objectives import RiskObjective


class SeenDomainsWarning(EqrmWarning):
    """Domains of the validation set were also trained on, so it says nothing of unseen ones."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked rows of a table: features, labels as numbers, domains and weights."""

    X: NDArray[Any]
    y: NDArray[np.float64]
    groups: Groups
    sample_weight: NDArray[np.float64] | None

    def only(self, kept: NDArray[np.bool_]) -> Rows:
        """Some of the rows."""
        weight = None if self.sample_weight is None else self.sample_weight[kept]
        return Rows(self.X[kept], self.y[kept], self.groups.only(kept), weight)


@dataclass(frozen=True, eq=False)
class Boosted:
    """A booster, how many rounds of it count, and the curve of the validation metric."""

    booster: Any
    rounds: int
    validation: list[float]


class BoostedQRM(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no types
    """Gradient boosting that minimises the α-quantile of the risk over domains."""

    # With metadata routing on, groups go to fit without being asked for.
    __metadata_request__fit = {"groups": True}  # noqa: RUF012
    _loss: ClassVar[str]
    _library: ClassVar[str]

    # Set by the libraries' __init__.
    alpha: Any
    n_estimators: int
    distribution: Any
    measure: str
    bandwidth: Any
    early_stopping_rounds: int | None
    validation_fraction: float
    random_state: Any

    def fit(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
        eval_groups: Any = None,
        eval_sample_weight: Any = None,
    ) -> Any:
        """Boost ``n_estimators`` rounds, or fewer with ``early_stopping_rounds``.

        ``groups`` gives the domain of each row; ``None`` makes all rows one domain, which is ERM.
        Rows with a ``sample_weight`` of 0 are left out. Early stopping watches the α-quantile of
        the domains of ``eval_set``, a pair (X, y) with ``eval_groups``; without one it holds out
        ``validation_fraction`` of the training domains, each of them whole.
        """
        X, y = validate_data(
            self, X, y, dtype=(np.float64, np.float32), ensure_all_finite="allow-nan"
        )
        self.level_ = None if self.alpha is None else Level.of(self.alpha)
        named = as_groups(groups, len(X), level_asked=self.alpha is not None, stacklevel=2)
        train = _with_weight(Rows(X, y, named, _weights(sample_weight, len(X))))
        train = replace(train, y=self._fit_labels(train.y))
        validation = None
        if eval_set is not None:
            validation = self._validation_rows(eval_set, eval_groups, eval_sample_weight)
            _warn_of_seen(train.groups, validation.groups)
        elif self.early_stopping_rounds is not None:
            train, validation = self._hold_out(train)
        return self._fit_rows(train, validation)

    def _fit_rows(self, train: Rows, validation: Rows | None) -> Any:
        objective = self._objective()
        table = DomainTable(
            self._loss, train.y, train.groups, train.sample_weight, self._num_class()
        )
        self.start_ = table.start()
        boosted = self._boost(train, validation, objective)
        self.booster_, self.n_estimators_ = boosted.booster, boosted.rounds
        risks = table.risks(self._margins(train.X))
        self.domains_ = train.groups.names
        self.domain_counts_ = train.groups.counts
        self.domain_risks_ = risks
        self.quantile_risk_, _ = table.weigh(risks, objective)
        self.validation_curve_ = boosted.validation
        return self

    def _objective(self) -> RiskObjective:
        return objective_of(self.alpha, self.distribution, self.bandwidth, self.measure)

    def _validation_rows(self, eval_set: Any, groups: Any, sample_weight: Any) -> Rows:
        if isinstance(eval_set, list) and len(eval_set) == 1:
            eval_set = eval_set[0]
        if not isinstance(eval_set, (tuple, list)) or len(eval_set) != 2:
            raise SettingError("eval_set must be one pair (X, y), with its domains as eval_groups.")
        X, y = validate_data(
            self,
            *eval_set,
            reset=False,
            dtype=(np.float64, np.float32),
            ensure_all_finite="allow-nan",
        )
        if groups is None and self.alpha is not None:
            raise DomainDataError(
                "eval_set needs eval_groups, the domain of each of its rows: the quantile over "
                "validation domains cannot be watched without them."
            )
        named = as_groups(groups, len(X), level_asked=False)
        weights = _weights(sample_weight, len(X))
        return _with_weight(Rows(X, self._known_labels(y), named, weights))

    def _hold_out(self, rows: Rows) -> tuple[Rows, Rows]:
        """Some of the domains, each of them whole, as validation domains."""
        domains = len(rows.groups)
        if not 0.0 < self.validation_fraction < 1.0:
            raise SettingError(
                "validation_fraction must lie between 0 and 1, but it is "
                f"{self.validation_fraction!r}."
            )
        if domains < 2:
            raise DomainDataError(
                "Early stopping holds out whole domains and needs at least 2 of them, but there "
                f"is {domains}. Pass groups, or an eval_set with eval_groups."
            )
        count = min(max(round(domains * self.validation_fraction), 1), domains - 1)
        held = check_random_state(self.random_state).permutation(domains)[:count]
        out = np.isin(rows.groups.ids, held)
        return rows.only(~out), rows.only(out)

    def _margins(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Margins (n,) or (n, K), the constant start included."""
        found = self._margins_of(X)
        start = self.start_[0] if found.ndim == 1 else self.start_
        return np.asarray(found + start, dtype=found.dtype)

    def _checked_margins(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        X = validate_data(
            self, X, reset=False, dtype=(np.float64, np.float32), ensure_all_finite="allow-nan"
        )
        return self._margins(X)

    def __sklearn_tags__(self) -> Any:
        """Missing features are welcome: both libraries learn which way they go."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @abstractmethod
    def _boost(self, train: Rows, validation: Rows | None, objective: RiskObjective) -> Boosted:
        """Train with the library, from margins of ``start_``."""

    @abstractmethod
    def _margins_of(self, X: NDArray[Any]) -> NDArray[Any]:
        """What the booster adds to ``start_``."""

    @abstractmethod
    def _fit_labels(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Learn what the labels are and turn them into numbers."""

    @abstractmethod
    def _known_labels(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """The same for labels of a validation set."""

    @abstractmethod
    def _num_class(self) -> int | None:
        """K where there are more than two classes."""


class BoostedClassifier(ClassifierMixin, BoostedQRM):  # type: ignore[misc]
    """Log-loss of two or more classes."""

    _loss = "log-loss"

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class (n, K), in the order of ``classes_``."""
        margins = self._checked_margins(X)
        if margins.ndim == 1:
            margins = np.column_stack([np.zeros_like(margins), margins])
        margins = np.exp(margins - margins.max(axis=1, keepdims=True))
        return np.asarray(margins / margins.sum(axis=1, keepdims=True))

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Margins: log-odds of the second of two classes (n,), or one per class (n, K)."""
        return self._checked_margins(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of each row."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def _fit_labels(self, y: NDArray[Any]) -> NDArray[np.float64]:
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise DomainDataError(
                f"A classifier needs at least two classes, but y has one class: "
                f"{self.classes_[0]!r}."
            )
        return np.asarray(numbers, dtype=np.float64)

    def _known_labels(self, y: NDArray[Any]) -> NDArray[np.float64]:
        unknown = ~np.isin(y, self.classes_)
        if unknown.any():
            raise DomainDataError(
                f"eval_set has the class {y[unknown][0]!r}, which the training data do not have."
            )
        return np.searchsorted(self.classes_, y).astype(np.float64)

    def _num_class(self) -> int | None:
        return len(self.classes_) if len(self.classes_) > 2 else None


class BoostedRegressor(RegressorMixin, BoostedQRM):  # type: ignore[misc]
    """Squared error."""

    _loss = "squared"

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The predicted target of each row."""
        return self._checked_margins(X)

    def _fit_labels(self, y: NDArray[Any]) -> NDArray[np.float64]:
        return self._known_labels(y)

    def _known_labels(self, y: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(y, dtype=np.float64)

    def _num_class(self) -> int | None:
        return None


def given_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Those that were given: ``None`` leaves a parameter to the library.

    >>> given_parameters({"max_depth": 3, "subsample": None})
    {'max_depth': 3}
    """
    return {name: value for name, value in parameters.items() if value is not None}


def refuse_own_parameters(extra: Mapping[str, Any], own: tuple[str, ...]) -> None:
    """Parameters that the estimator sets itself cannot be given to the booster."""
    for name in own:
        if name in extra:
            raise SettingError(
                f"booster_params must not set {name!r}: the estimator does. For other objectives "
                "use the library itself with eqrm.xgboost_objective or eqrm.lightgbm_objective."
            )


def seed_of(random_state: Any) -> int | None:
    """A seed for the library; ``None`` leaves its own.

    >>> seed_of(7), seed_of(None)
    (7, None)
    """
    if random_state is None or isinstance(random_state, (int, np.integer)):
        return None if random_state is None else int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _weights(sample_weight: Any, rows: int) -> NDArray[np.float64] | None:
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        return np.full(rows, float(weights))
    if weights.shape != (rows,):
        raise DomainDataError(
            f"sample_weight must be one number per row: there are {rows} rows, and its shape is "
            f"{weights.shape}."
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise DomainDataError("sample_weight must hold finite numbers of at least 0.")
    return weights


def _with_weight(rows: Rows) -> Rows:
    """Rows of weight 0 are absent, as zero weight is everywhere in this package."""
    if rows.sample_weight is None or (rows.sample_weight > 0).all():
        return rows
    if not (rows.sample_weight > 0).any():
        raise DomainDataError("All sample weights are zero: there is nothing to learn from.")
    return rows.only(rows.sample_weight > 0)


def _warn_of_seen(train: Groups, validation: Groups) -> None:
    seen = sorted(set(map(str, train.names)) & set(map(str, validation.names)))
    if seen and len(train) > 1:
        warnings.warn(
            f"{len(seen)} of {len(validation)} validation domains are also trained on ({seen[0]!r} "
            "among them). Their risk says nothing of domains not seen: give eval_set other "
            "domains.",
            SeenDomainsWarning,
            stacklevel=3,
        )
