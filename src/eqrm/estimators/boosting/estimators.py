"""What the boosted estimators share: tables in, rounds of boosting, margins out.

A library brings three things (``_dataset``, ``_boost``, ``_margins_of``); a task brings two (what
the labels are, what margins mean). The four estimators are the pairs.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from eqrm.errors import DomainDataError, EqrmWarning, SettingError
from eqrm.estimators.boosting.losses import boosting_loss
from eqrm.estimators.boosting.objective import DomainTable
from eqrm.estimators.fit_inputs import TrainingRows, checked_features, training_rows
from eqrm.estimators.goal import Goal
from eqrm.estimators.groups import Groups
from eqrm.estimators.saved_state import Arrays, Content, Savable
from eqrm.estimators.unseen_domains import JudgedByDomain
from eqrm.linear.settings import check_whole
from eqrm.objectives.base import RiskObjective


class SeenDomainsWarning(EqrmWarning):
    """Domains of the validation set were also trained on, so it says nothing of unseen ones."""


@dataclass(frozen=True, eq=False)
class Boosted:
    """A booster, how many rounds of it count, and the curve of the validation metric."""

    booster: Any
    rounds: int
    validation: list[float]


class BoostedQRM(Savable, JudgedByDomain, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no types
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
        goal = Goal.of(self.alpha, self.distribution, self.measure, self.bandwidth)
        check_whole(self.n_estimators, "n_estimators", 1)
        if self.early_stopping_rounds is not None:
            check_whole(self.early_stopping_rounds, "early_stopping_rounds", 1)
        rows = self._rows(X, y, groups, sample_weight, level_asked=goal.level is not None)
        train = replace(rows, y=self._fit_labels(rows.y))
        validation = None
        if eval_set is not None:
            validation = self._validation_rows(eval_set, eval_groups, eval_sample_weight)
            _warn_of_seen(train.groups, validation.groups)
        elif self.early_stopping_rounds is not None:
            train, validation = self._hold_out(train)
        self.level_ = goal.level
        return self._fit_rows(train, validation, goal.objective())

    def _rows(
        self, X: Any, y: Any, groups: Any, sample_weight: Any, **options: Any
    ) -> TrainingRows:
        classes = self._loss == "log-loss"
        return training_rows(self, X, y, groups, sample_weight, classification=classes, **options)

    def _fit_rows(
        self, train: TrainingRows, validation: TrainingRows | None, objective: RiskObjective
    ) -> Any:
        table = DomainTable(
            self._loss, train.y, train.groups, train.sample_weight, self._num_class()
        )
        self.start_ = table.start()
        boosted = self._boost(train, validation, objective)
        self.booster_, self.n_estimators_ = boosted.booster, boosted.rounds
        self.validation_curve_ = boosted.validation
        self.domains_ = train.groups.names
        stopped = validation is not None and self.early_stopping_rounds is not None
        self.validation_domains_ = validation.groups.names if validation and stopped else ()
        self.domain_counts_ = train.groups.counts
        self.domain_risks_ = table.risks(self._margins(train.X))
        self.quantile_risk_, _ = table.weigh(self.domain_risks_, objective)
        return self

    def losses(self, X: Any, y: Any) -> NDArray[np.float64]:
        """The loss of every row (n,): log-loss, or squared error."""
        check_is_fitted(self)
        margins = self._checked_margins(X)
        if np.shape(y) != margins.shape[:1]:
            raise DomainDataError(
                f"y must give one label per row: there are {len(margins)} rows, and y's shape is "
                f"{np.shape(y)}."
            )
        labels = self._known_labels(np.asarray(y))
        loss = boosting_loss(self._loss, labels, self._num_class())
        return np.asarray(loss.losses(margins), dtype=np.float64)

    def _validation_rows(self, eval_set: Any, groups: Any, sample_weight: Any) -> TrainingRows:
        if isinstance(eval_set, list) and len(eval_set) == 1:
            eval_set = eval_set[0]
        pair = isinstance(eval_set, (tuple, list)) and len(eval_set) == 2
        if not pair or isinstance(eval_set[0], tuple):
            raise SettingError("eval_set must be one pair (X, y), with its domains as eval_groups.")
        if groups is None and self.alpha is not None:
            raise DomainDataError(
                "eval_set needs eval_groups, the domain of each of its rows: the quantile over "
                "validation domains cannot be watched without them."
            )
        X, y = eval_set
        rows = self._rows(X, y, groups, sample_weight, level_asked=False, reset=False)
        return replace(rows, y=self._known_labels(rows.y))

    def _hold_out(self, rows: TrainingRows) -> tuple[TrainingRows, TrainingRows]:
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
        return self._margins(checked_features(self, X))

    def __sklearn_tags__(self) -> Any:
        """Missing features are welcome: both libraries learn which way they go."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True  # and made dense
        tags.input_tags.allow_nan = True
        return tags

    def _own_state(self) -> tuple[Content, Arrays]:
        content = {
            "rounds": self.n_estimators_,
            "validation": list(self.validation_curve_),
            "validation_domains": list(self.validation_domains_),
        }
        booster = np.frombuffer(self._booster_bytes(), dtype=np.uint8)
        return content, {"start": self.start_, "booster": booster}

    def _restore_own(self, content: Content, arrays: Arrays) -> None:
        self.n_estimators_ = int(content["rounds"])
        self.validation_curve_ = [float(value) for value in content["validation"]]
        self.validation_domains_ = tuple(content["validation_domains"])
        self.start_ = arrays["start"]
        self.booster_ = self._booster_of(arrays["booster"].tobytes())

    @abstractmethod
    def _booster_bytes(self) -> bytes:
        """The booster in its library's own format, which holds trees and no code."""

    @abstractmethod
    def _booster_of(self, content: bytes) -> Any:
        """The reverse of ``_booster_bytes``."""

    def _start_margins(self, rows: int) -> NDArray[Any]:
        """``start_`` for every row: (n,), or (n, classes) where there are several."""
        shape = (rows,) if len(self.start_) == 1 else (rows, len(self.start_))
        return np.broadcast_to(self.start_, shape)

    @abstractmethod
    def _boost(
        self, train: TrainingRows, validation: TrainingRows | None, objective: RiskObjective
    ) -> Boosted:
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
                f"The label {y[unknown][0]!r} is none of the classes seen in training: "
                f"{self.classes_.tolist()}."
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


@contextmanager
def naming_settings(library: str, refusal: type[Exception]) -> Iterator[None]:
    """Turn what a library refuses into an error of settings, without its stack.

    >>> with naming_settings("XGBoost", KeyError):
    ...     raise KeyError("max_depth must be a number")
    Traceback (most recent call last):
    ...
    eqrm.errors.SettingError: XGBoost refuses its settings: 'max_depth must be a number'.
    """
    try:
        yield
    except refusal as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        told = lines[0] if lines else type(error).__name__
        raise SettingError(f"{library} refuses its settings: {told.rstrip('.')}.") from error


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
                "use xgboost_objective or lightgbm_objective in a training call of your own."
            )


def seed_of(random_state: Any) -> int | None:
    """A seed for the library; ``None`` leaves its own.

    >>> seed_of(7), seed_of(None)
    (7, None)
    """
    if random_state is None or isinstance(random_state, (int, np.integer)):
        return None if random_state is None else int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


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
