"""Recalibrated: any model made robust for a level afterwards, by a shift and a scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import check_cv
from sklearn.utils import ClassifierTags, RegressorTags, _safe_indexing, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from eqrm.checks import FLAG, Rule, integer, is_integer, number, one_of
from eqrm.errors import DomainDataError, SettingError
from eqrm.estimators.base import DomainEstimator
from eqrm.estimators.fit_inputs import TrainingRows, is_fitted, target_values, unchecked_rows
from eqrm.estimators.goal import Goal
from eqrm.estimators.model_files import ESTIMATORS, restored, state_of
from eqrm.estimators.selection.splitters import DomainKFold, fitted_clone
from eqrm.estimators.tasks import Classification, Regression, class_positions, predicted_scores
from eqrm.level import Level
from eqrm.linear.recalibration import recalibrate
from eqrm.linear.scored_rows import CLIP, Correction, ScoredRows
from eqrm.linear.solving.risk_functions import Array
from eqrm.text import listed

Self = TypeVar("Self", bound="Recalibrated")
TASKS = ("auto", "classification", "regression")


def _classifies(estimator: Recalibrated) -> bool:
    return estimator._task() != "regression"


class Recalibrated(DomainEstimator):
    """A model whose scores are shifted and scaled for the smallest α-quantile of risk.

    Nothing is trained again. Two classes have a shift and a scale of the logit, K classes a shift
    each and one scale of their logits, and numbers an intercept and a slope; the correction
    minimises the α-quantile of log-loss, or of squared error, over the domains of ``fit``.

    Args:
        estimator: what predicts.

            - An estimator that is *fitted* is used as it is, and only the correction is fitted: on
              domains it was not trained on, please. ``clone`` (and so every search and
              cross-validation) would fit it again, unless it is a scikit-learn
              ``FrozenEstimator``.
            - One that is *not fitted* is fitted as a clone on all rows, and the correction is
              fitted to scores of clones that have not seen the domain.
            - A *function* from X to probabilities (n,) or (n, K), or to numbers.
            - *None*: X itself holds the probabilities or numbers.
        alpha: the level, as in :class:`eqrm.QRMClassifier`; None minimises the mean risk.
        scale: whether to fit the scale, besides the shift.
        distribution, measure, bandwidth: as in :class:`eqrm.QRMClassifier`.
        cv: for an estimator that is not fitted: the number of folds, which are of whole domains,
            or a splitter of scikit-learn.
        task: ``"classification"``, ``"regression"``, or ``"auto"``: what the estimator is, and of
            predictions and functions what y looks like (classes or continuous numbers).
        clip: probabilities are kept at least this far from 0 and 1, where logits are infinite.
        random_state: seed of the folds.

    After ``fit``: ``correction_`` (its ``shift`` and ``scale``), ``estimator_``, ``domains_``,
    ``domain_counts_``, ``domain_risks_`` and ``quantile_risk_`` with the correction,
    ``uncorrected_domain_risks_`` and ``uncorrected_quantile_risk_`` without it, ``level_``,
    ``task_`` and ``classes_``. ``certificate`` refuses domains of ``fit``, and those that an eqrm
    estimator inside was trained on; leave out the training domains of a foreign model yourself.
    """

    _rules: ClassVar[Mapping[str, Rule]] = {  # of what no other estimator has
        "scale": FLAG,
        "cv": Rule(
            "an integer of at least 2, a splitter, or a list of splits",
            lambda v: integer(2).holds(v) or hasattr(v, "split") or isinstance(v, Iterable),
        ),
        "clip": Rule("a number above 0 and below 0.5", lambda v: number().holds(v) and 0 < v < 0.5),
    }

    def __init__(
        self,
        estimator: Any = None,
        alpha: Level | float | str | None = 0.9,
        *,
        scale: bool = True,
        distribution: Any = None,
        measure: str = "quantile",
        bandwidth: Any = "gaussian-optimal",
        cv: Any = 5,
        task: str = "auto",
        clip: float = CLIP,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.alpha = alpha
        self.scale = scale
        self.distribution = distribution
        self.measure = measure
        self.bandwidth = bandwidth
        self.cv = cv
        self.task = task
        self.clip = clip
        self.random_state = random_state

    def _checked_goal(self) -> Goal:
        for name, rule in self._rules.items():
            rule.check(getattr(self, name), name)
        return super()._checked_goal()

    def __sklearn_tags__(self) -> Any:
        """What it is and takes is what the estimator is and takes."""
        tags = super().__sklearn_tags__()
        task = self._task()
        tags.target_tags.required = True
        if task == "classification":
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        elif task == "regression":
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a correction."""
        return "correction_" in vars(self)

    def get_metadata_routing(self) -> MetadataRouter:
        """``fit`` takes groups and weights itself, and passes on what the estimator requests."""
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        if hasattr(self.estimator, "fit"):
            mapping = MethodMapping().add(caller="fit", callee="fit")
            router.add(estimator=self.estimator, method_mapping=mapping)
        return router

    def fit(self: Self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:
        """Fit the correction, and the estimator before it unless that is fitted already.

        X is what the estimator takes, y (n,) the target and ``groups`` (n,) the domain of each
        row; only the mean risk (``alpha=None`` or ``measure="mean"``) does without.
        """
        one_of(self.task, TASKS, "task")
        goal = self._checked_goal()
        self.task_ = self._task() or _task_of(y)
        asked = goal.level is not None
        rows = unchecked_rows(self, X, y, groups, sample_weight, level_asked=asked)
        trains = hasattr(self.estimator, "fit") and not is_fitted(self.estimator)
        known = None if trains else getattr(self.estimator, "classes_", None)
        kept = rows.weighted()
        target = self._numbers(kept.y, known)
        if trains:
            self.estimator_ = fitted_clone(self, rows)
            scores = self._cross_fitted(rows, groups is not None)
        else:
            self.estimator_ = self.estimator
            scores = self._scores(rows.X)
        self._keep_features(rows.X)
        if kept is not rows:
            scores = scores[rows.sample_weight > 0.0]  # type: ignore[operator]
        classes = len(self.classes_) if self.task_ == "classification" else 0
        scored = ScoredRows.of(scores, target, classes, kept.groups.ids, kept.sample_weight)
        correction = recalibrate(scored, goal.level, goal.choice, bool(self.scale))
        self._keep_domains(goal, kept.groups, scored.risks(correction))
        self.correction_ = correction
        self.uncorrected_domain_risks_ = scored.risks(Correction())
        self.uncorrected_quantile_risk_ = goal.value(self.uncorrected_domain_risks_)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row (n,), or a number."""
        return np.asarray(self._as.predict(self, X))

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """The corrected probability of each class (n, K), in the order of ``classes_``."""
        return np.asarray(self._as.predict_proba(self, X))

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Array:
        """The corrected logit of the second of two classes (n,), or of each class (n, K)."""
        return self._checked_scores(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of a classifier, R² of a regression."""
        return float(self._as.score(self, X, y, sample_weight))

    def _seen(self) -> list[tuple[Any, str]]:
        """Also what an eqrm estimator inside was trained on; of a foreign one it is not known."""
        inside = getattr(self.estimator_, "domains_", ())
        return [*super()._seen(), (inside, "inside was trained on")]

    def _task(self) -> str | None:
        """What is known of the task: told, the estimator's, or what ``fit`` has found."""
        if self.task != "auto":
            return str(self.task)
        if hasattr(self.estimator, "fit") or hasattr(self.estimator, "__sklearn_tags__"):
            if is_classifier(self.estimator):
                return "classification"
            if is_regressor(self.estimator):
                return "regression"
        return getattr(self, "task_", None)

    @property
    def _as(self) -> Any:
        """The classifier or regression whose predictions follow from scores."""
        check_is_fitted(self)
        return Classification if self.task_ == "classification" else Regression

    @property
    def loss_name(self) -> str:  # type: ignore[override]
        """The loss of a row."""
        return str(self._as.loss_name)

    def _numbers(self, labels: NDArray[Any], known: Any) -> NDArray[Any]:
        """The target as numbers; classes are those of a fitted estimator, or of the labels."""
        if self.task_ == "regression":
            if hasattr(self, "classes_"):
                del self.classes_
            return labels.astype(np.float64)
        if known is None:
            return Classification._learned_target(self, labels)
        self.classes_: NDArray[Any] = np.sort(np.asarray(known))
        found = class_positions(labels, self.classes_)
        absent = np.flatnonzero(np.bincount(found, minlength=len(self.classes_)) == 0)
        if absent.size:
            raise DomainDataError(
                f"y has no row of the class {listed(self.classes_[absent].tolist())}, which the "
                "estimator predicts, so its shift cannot be fitted. Add rows of every class."
            )
        return found

    def _known_target(self, y: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self._as._known_target(self, y))

    def _losses_of(self, scores: Array, target: NDArray[Any]) -> Array:  # type: ignore[override]
        return np.asarray(self._as._losses_of(scores, target))

    def _checked_scores(self, X: Any) -> Array:
        check_is_fitted(self)
        return self._corrected_scores(X)

    def _scores(self, X: Any) -> Array:
        return self._scores_of(self.estimator_, X)

    def _scores_of(self, predictor: Any, X: Any) -> Array:
        classes = self.classes_ if self.task_ == "classification" else None
        return predicted_scores(predictor, X, classes, float(self.clip))

    def _cross_fitted(self, rows: TrainingRows, in_domains: bool) -> Array:
        """Scores of all rows, each by a clone that has not seen its domain."""
        if is_integer(self.cv) and in_domains:
            folds: Any = DomainKFold(int(self.cv), random_state=self.random_state)
        else:
            folds = check_cv(self.cv, rows.y, classifier=self.task_ == "classification")
        scores: Array | None = None
        for train, test in folds.split(rows.X, rows.y, rows.groups.ids if in_domains else None):
            fold = fitted_clone(self, rows, train)
            found = self._scores_of(fold, _safe_indexing(rows.X, test))
            if scores is None:
                scores = np.full((len(rows.y), *found.shape[1:]), np.nan)
            scores[test] = found
        if scores is None or np.isnan(scores).any():
            raise SettingError("cv must test every row in one of its folds.")
        return scores

    def _keep_features(self, X: Any) -> None:
        """Number and names of features, as the estimator inside knows them."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                delattr(self, name)
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        if self.estimator_ is None:
            shape = np.shape(X)
            self.n_features_in_ = shape[1] if len(shape) == 2 else 1

    def _saved_params(self) -> dict[str, Any]:
        """Without objects: the estimator is saved by itself, and splitters are not needed."""
        found = super()._saved_params()
        found.pop("estimator")
        return found if is_integer(self.cv) else {k: v for k, v in found.items() if k != "cv"}

    def _own_state(self) -> dict[str, Any]:
        inside = self.estimator_
        state: dict[str, Any] = {
            **super()._own_state(),
            "task": self.task_,
            "uncorrected_risks": self.uncorrected_domain_risks_,
            "uncorrected_quantile_risk": self.uncorrected_quantile_risk_,
            "holds": "predictions" if inside is None else "foreign",
            "class": type(inside).__name__,
            "frozen": inside is self.estimator,
        }
        if type(inside).__name__ in ESTIMATORS:
            state |= {"holds": "eqrm", "inside": state_of(inside)}
        return state

    def _restore_own(self, state: dict[str, Any]) -> None:
        super()._restore_own(state)
        self.task_ = str(state["task"])
        self.uncorrected_domain_risks_ = state["uncorrected_risks"]
        self.uncorrected_quantile_risk_ = float(state["uncorrected_quantile_risk"])
        if state["holds"] == "eqrm":
            self.estimator_ = restored(state["inside"])
            self.estimator = self.estimator_ if state["frozen"] else clone(self.estimator_)
        elif state["holds"] == "predictions":
            self.estimator_ = self.estimator = None

    def _take_in(self, estimator: Any) -> None:
        """Put a foreign estimator, supplied again, into the place it had."""
        known = np.asarray(getattr(estimator, "classes_", ())).tolist()
        own = getattr(self, "classes_", np.zeros(0)).tolist()
        if known and own and sorted(known) != own:
            raise SettingError(
                f"The estimator has the classes {listed(known)}, and the saved correction "
                f"{listed(own)}. Pass the estimator that it was fitted for."
            )
        self.estimator_ = self.estimator = estimator


def _task_of(y: Any) -> str:
    """What y looks like, where nothing else says: labels, or numbers with fractions."""
    if y is None:
        return "regression"  # refused later, with the usual words
    kind = type_of_target(target_values(y))
    return "regression" if kind.startswith("continuous") else "classification"
