"""What all estimators share: the goal, risks by domain, and certificates for unseen domains."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from eqrm.checks import check_fields, one_of
from eqrm.data.seen_domains import SeenDomains
from eqrm.domains import named_domains
from eqrm.errors import DomainDataError, EqrmWarning, SettingError
from eqrm.estimators.fit_inputs import TrainingRows, training_rows
from eqrm.estimators.goal import Goal
from eqrm.estimators.groups import ONE_DOMAIN, Groups, required_groups
from eqrm.estimators.selection.surrogates import (
    ERM,
    FEWEST_DOMAINS,
    Surrogate,
    SurrogateChoice,
    as_settings,
    choose,
    cross_fit,
    trained_candidates,
)
from eqrm.estimators.tasks import PredictsScores
from eqrm.evaluation.inference.certificates import Certificate, quantile_bound
from eqrm.evaluation.measuring.from_arrays import risks_of_losses
from eqrm.level import Level
from eqrm.linear.linear_model import RANDOM_STATE
from eqrm.linear.scored_rows import Correction
from eqrm.linear.solving.risk_functions import Array
from eqrm.risks import MeasuredRisks


@dataclass(eq=False, repr=False)
class DomainEstimator(PredictsScores, BaseEstimator):  # type: ignore[misc]
    """An estimator of a goal over domains. Base class, not to be used directly."""

    alpha: Level | float | str | None = 0.9
    _: KW_ONLY
    distribution: Any = None
    measure: str = "quantile"
    bandwidth: Any = "gaussian-optimal"
    surrogate: str | None = None
    random_state: Any = field(default=0, metadata={"rule": RANDOM_STATE})

    # With metadata routing on, groups go to fit without being asked for.
    __metadata_request__fit = {"groups": True}  # noqa: RUF012
    _hidden: ClassVar[tuple[str, ...]] = ()
    """Attributes that ``fit`` sets without showing them."""
    _allows_nan: ClassVar[bool] = False
    _takes_long: ClassVar[bool] = False
    """Whether only a few surrogates are tried."""

    def fit_levels(
        self,
        alpha: Sequence[Level | float | str | None],
        X: Any,
        y: Any,
        groups: Any = None,
        sample_weight: Any = None,
    ) -> list[Any]:
        """One fitted estimator per level of ``alpha``, in this order; None among them is ERM.

        They share what they can: the checked data, solutions to start from, rounds of ERM.
        """
        return self._fit_goals([{"alpha": level} for level in alpha], X, y, groups, sample_weight)

    def _fit_goals(self, goals: Sequence[Mapping[str, Any]], *data: Any) -> list[Any]:
        """The same for several settings of alpha, measure, distribution and bandwidth."""
        return [clone(self).set_params(**goal).fit(*data) for goal in goals]

    def _coded(self, X: Any, reset: bool) -> Any:
        """X with numbers in place of what else the estimator takes; ``reset`` to learn it anew."""
        return X

    def __sklearn_tags__(self) -> Any:
        """Sparse X is accepted, and made dense."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._allows_nan
        tags.input_tags.sparse = True
        return tags

    def _checked_goal(self) -> Goal:
        """Check all settings, before any data is looked at."""
        goal = Goal.of(self.alpha, self.distribution, self.measure, self.bandwidth)
        if self.surrogate is not None:
            one_of(self.surrogate, ("auto",), "surrogate")
            if goal.level is None or self.measure != "quantile":
                raise SettingError(
                    "surrogate='auto' looks for the lowest α-quantile, so it needs a level as "
                    f"alpha and measure='quantile', got alpha={self.alpha!r} and "
                    f"measure={self.measure!r}."
                )
        check_fields(self)
        return goal

    def _keep_risks(self, goal: Goal, rows: TrainingRows) -> None:
        """The risks of the training domains, and what was minimised."""
        losses = self._losses_of(self._corrected_scores(rows.X), rows.y)
        self._keep_domains(goal, rows.groups, rows.groups.means(losses, rows.sample_weight))

    def _keep_domains(self, goal: Goal, groups: Groups, risks: Array) -> None:
        """The training domains with their risks (m,)."""
        self.level_ = goal.level
        self.domains_, self.domain_counts_ = groups.names, groups.counts
        self.domain_risks_ = risks
        groups.refuse_diverged(self.domain_risks_)
        self.quantile_risk_ = goal.value(self.domain_risks_)

    def _fit_surrogate(self, X: Any, y: Any, groups: Any, sample_weight: Any, **more: Any) -> None:
        """Choose what to minimise by cross-fitting, and fit it to all domains."""
        goal = self._checked_goal()
        rows = training_rows(self, X, y, groups, sample_weight, level_asked=True)
        level, choice, own = goal.level, None, Surrogate(self.measure, goal.level)
        if level is not None and len(rows.groups) >= FEWEST_DOMAINS:
            trained = trained_candidates(level, self._takes_long)
            data = rows.X, rows.y, rows.groups, rows.sample_weight
            scored = cross_fit(self, (ERM, *trained), *data)
            choice = choose(scored, level, trained)
            own = choice.chosen
        elif len(rows.groups) > 1:
            warnings.warn(
                f"surrogate='auto' needs at least {FEWEST_DOMAINS} training domains to choose by, "
                f"got {len(rows.groups)}. {own.name} is minimised.",
                EqrmWarning,
                stacklevel=3,
            )
        model = clone(self).set_params(**as_settings(own))
        model.fit(X, y, groups=groups, sample_weight=sample_weight, **more)
        self._forget()
        self.__dict__ |= {name: vars(model)[name] for name in model._learned()}
        self.surrogate_: SurrogateChoice | None = choice
        if own.correction is not None and level is not None:
            self._correct(scored.correction(own, level))
        self._keep_risks(goal, rows)

    def _learned(self) -> list[str]:
        """What ``fit`` has set; everything else belongs to the user or to scikit-learn."""
        return [name for name in vars(self) if name.endswith("_") or name in self._hidden]

    def _forget(self) -> None:
        """A second fit leaves nothing of the first."""
        for name in self._learned():
            delattr(self, name)

    def _correct(self, correction: Correction) -> None:
        """Correct the scores of a fitted estimator."""
        self.correction_ = correction

    def quantile_at(self, alpha: Level | float | str) -> float:
        """The α-quantile of the training domains' risks, at this or any other level."""
        check_is_fitted(self)
        goal = Goal.of(alpha, self.distribution, "quantile", self.bandwidth)
        return goal.value(self.domain_risks_)

    def measured_risks(self, X: Any, y: Any, groups: Any) -> MeasuredRisks:
        """The risk of each domain of these rows: name, count, mean and variance of its losses."""
        losses = self.losses(X, y)
        required_groups(groups, len(losses), "A risk for each domain")
        return risks_of_losses(type(self).__name__, losses, groups)

    def certificate(
        self,
        X: Any,
        y: Any,
        groups: Any,
        alpha: Level | float | str | None = None,
        confidence: float = 0.95,
    ) -> Certificate:
        """What holds for new domains with this confidence, from domains not seen in training.

        ``alpha`` is the level trained for unless another is given. Domains that ``fit`` has seen,
        even if only for early stopping, raise an error: their risks say nothing about new domains.
        """
        check_is_fitted(self)
        asked = self.level_ if alpha is None else alpha
        if asked is None or (alpha is None and asked == Level(1.0)):
            trained_for = "the mean" if asked is None else "the worst domain"
            raise SettingError(
                f"This predictor was trained for {trained_for}, not for a level below 1. Pass "
                "alpha, the level of the certificate."
            )
        measured = self.measured_risks(X, y, groups)
        for seen, part in self._seen():
            refuse_seen(measured.domains, seen, part)
        return quantile_bound(measured.risks, asked, confidence)

    def _seen(self) -> list[tuple[Any, str]]:
        """Domains that had a part in training, and which."""
        stopped_by = getattr(self, "validation_domains_", ())
        return [(self.domains_, "was trained on"), (stopped_by, "was stopped early by")]

    def _saved_params(self) -> dict[str, Any]:
        """The parameters that a file holds."""
        return dict(self.get_params(deep=False))

    def _own_state(self) -> dict[str, Any]:
        """What a file needs besides the attributes of all estimators."""
        state: dict[str, Any] = {}
        if self.correction_ is not None:
            state["correction"] = self.correction_.to_dict()
        choice = getattr(self, "surrogate_", None)
        if choice is not None:
            named = [vars(candidate) for candidate in choice.candidates]
            state["surrogate"] = {"level": choice.level, "candidates": named, "risks": choice.risks}
        return state

    def _restore_own(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`_own_state`, on an estimator that is not fitted."""
        if "correction" in state:
            self.correction_ = Correction.from_dict(state["correction"])
            if np.shape(self.correction_.shift) not in ((), (self._num_class,)):
                raise ValueError("its correction has another number of classes")
        if "surrogate" in state:
            about = state["surrogate"]
            candidates = tuple(Surrogate(**each) for each in about["candidates"])
            risks = np.asarray(about["risks"], np.float64)
            self.surrogate_ = SurrogateChoice(about["level"], candidates, risks)
        elif self.surrogate is not None:
            self.surrogate_ = None


def refuse_seen(domains: Any, seen: Any, part: str = "was trained on") -> None:
    """Refuse domains that had a part in training, by name."""
    if {str(name) for name in seen} == {ONE_DOMAIN}:
        return
    both = SeenDomains.of(seen).among(domains)
    if both:
        raise DomainDataError(
            f"Statements about unseen domains cannot be based on {named_domains(both)}, which the "
            f"predictor {part}. Pass domains that fit has not seen."
        )
