"""Gradient boosting of the α-quantile of risk: everything that does not depend on the library.

A library is an adapter of a few methods: how it holds data, trains, predicts and is saved.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from eqrm.checks import OPEN_FRACTION, POSITIVE_INTEGER, Rule, integer, optional, ruled
from eqrm.errors import DomainDataError, EqrmWarning, SettingError
from eqrm.estimators.base import DomainEstimator
from eqrm.estimators.boosting.category_columns import checked_categories, coded, learned_categories
from eqrm.estimators.boosting.objective import BoostingObjective, import_library
from eqrm.estimators.boosting.rounds import (
    ROUNDS_OR_SHARE,
    Boosting,
    fit_together,
    number_of_rounds,
)
from eqrm.estimators.fit_inputs import TrainingRows, training_rows
from eqrm.estimators.goal import Goal
from eqrm.estimators.groups import Groups
from eqrm.linear.scored_rows import ScoredRows
from eqrm.linear.solving.risk_functions import Array
from eqrm.measures import measured_level
from eqrm.text import listed

PARAMETERS = optional(Rule("a dictionary", lambda v: isinstance(v, Mapping)))


@dataclass(eq=False, repr=False, kw_only=True)
class BoostedQRM(DomainEstimator):
    """The parameters, training and results of boosting with any library."""

    n_estimators: int = ruled(100, POSITIVE_INTEGER)
    erm_rounds: float = ruled(0.7, ROUNDS_OR_SHARE)
    learning_rate: float = 0.1
    max_depth: int | None = None
    min_child_weight: float | None = None
    subsample: float | None = None
    colsample_bytree: float | None = None
    reg_alpha: float | None = None
    reg_lambda: float | None = None
    early_stopping_rounds: int | None = ruled(None, optional(POSITIVE_INTEGER))
    validation_fraction: float = ruled(0.2, OPEN_FRACTION)
    booster_params: Mapping[str, Any] | None = ruled(None, PARAMETERS)
    callbacks: Sequence[Any] | None = None
    n_jobs: int | None = ruled(None, optional(integer()))
    verbose: int = 0

    _takes_long = True
    _allows_nan = True
    _objective: ClassVar[type[BoostingObjective]]
    _refusal: ClassVar[str]
    """Where the library has the error that it raises for wrong parameters."""
    _passed_on: ClassVar[tuple[str, ...]] = (
        "learning_rate",
        "max_depth",
        "min_child_weight",
        "subsample",
        "colsample_bytree",
        "reg_alpha",
        "reg_lambda",
    )
    """Parameters of the library, by the names they have there."""
    _defaults: ClassVar[Mapping[str, Any]] = {}
    _fixed: ClassVar[Mapping[str, Any]] = {}
    """Parameters that the estimator sets, and that ``booster_params`` must not."""

    @abstractmethod
    def _dataset(self, library: Any, rows: TrainingRows, start: Array, reference: Any) -> Any:
        """Rows as the library holds them, with margins that begin at ``start``."""

    @abstractmethod
    def _train(
        self, library: Any, boosting: Boosting, first: Any = None, margins: Array | None = None
    ) -> Any:
        """A booster of at most so many rounds, after those of ``first``, which left ``margins``."""

    @abstractmethod
    def _kept(self, library: Any, booster: Any, rounds: int | None) -> tuple[Any, int]:
        """A booster of its first rounds (None: all that count), and how many these are."""

    @abstractmethod
    def _margins_of(self, X: Array) -> NDArray[Any]:
        """What the booster adds to ``start_``."""

    @abstractmethod
    def _booster_bytes(self) -> bytes:
        """The booster in its library's own format, which holds trees and no code."""

    @abstractmethod
    def _checked_booster(self, content: bytes, outputs: int) -> bytes:
        """What ``_booster_bytes`` gave, written again from checked trees; else ``ValueError``."""

    @abstractmethod
    def _booster_of(self, library: Any, content: bytes) -> Any:
        """The booster of checked bytes."""

    def _coded(self, X: Any, reset: bool) -> Any:
        if reset:
            self.categories_ = learned_categories(X)
        return coded(X, self.categories_)

    @property
    def _category_counts(self) -> list[int]:
        """How many categories each feature has; 0 for numbers."""
        if not self.categories_:
            return [0] * self.n_features_in_
        return [len(self.categories_.get(name, ())) for name in self.feature_names_in_]

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

        ``groups`` gives the domain of each row; only plain training (``alpha=None`` or
        ``measure="mean"``) does without.
        Category columns of a pandas or polars frame are split by their values; missing values
        and categories that training has not seen are missing features.
        Rows with a ``sample_weight`` of 0 are left out. Early stopping watches the measure over
        the domains of ``eval_set``, a pair (X, y) with ``eval_groups``; without one it holds out
        ``validation_fraction`` of the training domains, each of them whole.
        """
        if self.surrogate is not None:
            watched = {"eval_set": eval_set, "eval_groups": eval_groups}
            watched["eval_sample_weight"] = eval_sample_weight
            self._fit_surrogate(X, y, groups, sample_weight, **watched)
            return self
        goal = self._checked_goal()
        self._forget()
        asked = goal.level is not None
        train = training_rows(self, X, y, groups, sample_weight, level_asked=asked)
        stopping, validation = self.early_stopping_rounds is not None, None
        if eval_set is not None:
            validation = self._validation_rows(eval_set, eval_groups, eval_sample_weight)
            _warn_of_seen(train.groups, validation.groups)
        elif stopping:
            train, validation = self._hold_out(train)
        self._boost(goal, train, validation)
        if validation is not None and stopping:
            self.validation_domains_ = validation.groups.names
        return self

    def _fit_goals(self, goals: Sequence[Mapping[str, Any]], *data: Any) -> list[Any]:
        return fit_together(self, goals, *data)

    def _boost(self, goal: Goal, train: TrainingRows, validation: TrainingRows | None) -> None:
        library, data = self._prepared(train)
        domains, watched = {data: train.groups}, None
        if validation is not None:
            watched = self._dataset(library, validation, self._start_margins(validation), data)
            domains[watched] = validation.groups
        objective = self._objective_of(goal, domains)
        if goal.level is not None:
            objective.erm_rounds = number_of_rounds(self.erm_rounds, self.n_estimators)
        patience = self.early_stopping_rounds
        boosting = Boosting(data, watched, objective, self.n_estimators, patience)
        with self._naming_settings(library):
            booster = self._train(library, boosting)
        erm_rounds = self.n_estimators if goal.level is None else objective.erm_rounds
        self._keep_rounds(library, goal, train, boosting, booster, erm_rounds)

    def _prepared(self, rows: TrainingRows) -> tuple[Any, Any]:
        """The library, and rows as it holds them, which start from the best constant."""
        library, classes = self._import_library(), len(getattr(self, "classes_", ()))
        scored = ScoredRows.of(rows.y, rows.y, classes, rows.groups.ids, rows.sample_weight)
        self.start_ = np.atleast_1d(scored.constant().shift)
        return library, self._dataset(library, rows, self._start_margins(rows), None)

    def _objective_of(self, goal: Goal, domains: Mapping[Any, Groups]) -> BoostingObjective:
        return self._objective(domains, goal, metric=self.loss_name, num_class=self._num_class)

    def _keep_rounds(
        self,
        library: Any,
        goal: Goal,
        rows: TrainingRows,
        boosting: Boosting,
        booster: Any,
        erm_rounds: int,
    ) -> None:
        """The rounds that count, and the risks of the training domains."""
        best = boosting.best
        self.booster_, self.n_estimators_ = self._kept(library, booster, best)
        self.erm_rounds_ = min(erm_rounds, self.n_estimators_)
        self.validation_curve_, self.validation_domains_ = boosting.curve, ()
        scores = self._scores(rows.X) if boosting.margins is None or best else boosting.margins
        losses = self._losses_of(scores, rows.y)
        self._keep_domains(goal, rows.groups, rows.groups.means(losses, rows.sample_weight))

    def _import_library(self) -> Any:
        return import_library(self._objective.package, type(self).__name__)

    @contextmanager
    def _naming_settings(self, library: Any) -> Iterator[None]:
        """Turn what a library refuses into an error of settings, without its stack."""
        try:
            yield
        except attrgetter(self._refusal)(library) as error:
            told = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise SettingError(
                f"{self._objective.package} rejected its parameters: {told.rstrip('.')}."
            ) from error

    def _parameters(self) -> dict[str, Any]:
        """What the library's training call is told, without what was left to its defaults."""
        extra = dict(self.booster_params or {})
        for name in ("objective", "num_class", *self._fixed):
            if name in extra:
                raise SettingError(
                    f"booster_params must not set {name!r}, which the estimator sets. For other "
                    "objectives use xgboost_objective or lightgbm_objective in a training call of "
                    "your own."
                )
        seed = self.random_state
        if not isinstance(seed, (int, np.integer, type(None))):
            seed = check_random_state(seed).randint(2**31 - 1)
        named = {name: getattr(self, name) for name in self._passed_on}
        named |= {"nthread": self.n_jobs, "seed": seed, "num_class": self._num_class}
        given = {name: value for name, value in named.items() if value is not None}
        return {**self._defaults, **given, **extra, **self._fixed}

    def _validation_rows(self, eval_set: Any, groups: Any, sample_weight: Any) -> TrainingRows:
        if not isinstance(eval_set, (tuple, list)) or len(eval_set) != 2:
            raise SettingError("eval_set must be one pair (X, y), with its domains as eval_groups.")
        if groups is None and measured_level(self.measure, self.alpha) is not None:
            raise DomainDataError(
                "eval_set needs eval_groups, the domain of each of its rows: early stopping "
                f"watches the {self.measure} over validation domains."
            )
        X, y = eval_set
        return training_rows(self, X, y, groups, sample_weight, level_asked=False, reset=False)

    def _hold_out(self, rows: TrainingRows) -> tuple[TrainingRows, TrainingRows]:
        """Some of the domains, each of them whole, as validation domains."""
        domains = len(rows.groups)
        if domains < 2:
            raise DomainDataError(
                f"Early stopping holds out whole domains and needs at least 2, got {domains}. Pass "
                "groups, or an eval_set with eval_groups."
            )
        count = min(max(round(domains * self.validation_fraction), 1), domains - 1)
        held = check_random_state(self.random_state).permutation(domains)[:count]
        out = np.isin(rows.groups.ids, held)
        return rows.only(~out), rows.only(out)

    def _start_margins(self, rows: TrainingRows) -> Array:
        """``start_`` for every row: (n,), or (n, classes) where there are several."""
        shape = (len(rows.X),) if len(self.start_) == 1 else (len(rows.X), len(self.start_))
        return np.broadcast_to(self.start_, shape)

    def _scores(self, X: Array) -> Array:
        """Margins (n,) or (n, K), the constant start included."""
        found = self._margins_of(X)
        return np.asarray(found + (self.start_[0] if found.ndim == 1 else self.start_), np.float64)

    def _own_state(self) -> dict[str, Any]:
        try:
            booster = self._checked_booster(self._booster_bytes(), len(self.start_))
        except ValueError as error:
            raise SettingError(
                f"This model of {self._objective.package} cannot be saved: {error}."
            ) from None
        return {
            **super()._own_state(),
            "rounds": self.n_estimators_,
            "erm_rounds": self.erm_rounds_,
            "validation": self.validation_curve_,
            "validation_domains": self.validation_domains_,
            "categories": self.categories_,
            "start": self.start_,
            "booster": booster,
        }

    def _restore_own(self, state: dict[str, Any]) -> None:
        super()._restore_own(state)
        self.n_estimators_ = int(state["rounds"])
        self.erm_rounds_ = int(state["erm_rounds"])
        self.validation_curve_ = [float(value) for value in state["validation"]]
        self.validation_domains_ = tuple(state["validation_domains"])
        names = getattr(self, "feature_names_in_", ())
        self.categories_ = checked_categories(state["categories"], names)
        self.start_ = np.asarray(state["start"], np.float64)
        outputs = self._num_class or 1
        if self.start_.shape != (outputs,) or not np.isfinite(self.start_).all():
            raise ValueError("its 'start' is not a finite number for each output")
        booster = self._checked_booster(state["booster"].tobytes(), outputs)
        self.booster_ = self._booster_of(self._import_library(), booster)


def _warn_of_seen(train: Groups, validation: Groups) -> None:
    seen = sorted(set(map(str, train.names)) & set(map(str, validation.names)))
    if seen and len(train) > 1:
        warnings.warn(
            f"{len(seen)} of {len(validation)} validation domains were also trained on "
            f"({listed(seen)}). Their risk says nothing of unseen domains: give eval_set other "
            "domains.",
            EqrmWarning,
            stacklevel=3,
        )
