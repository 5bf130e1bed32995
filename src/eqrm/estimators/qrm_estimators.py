"""QRMClassifier and QRMRegressor: linear models solved exactly, and networks."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from eqrm.checks import (
    FLAG,
    NON_NEGATIVE,
    NON_NEGATIVE_INTEGER,
    POSITIVE,
    POSITIVE_INTEGER,
    Rule,
    one_of,
    optional,
    ruled,
)
from eqrm.errors import SettingError
from eqrm.estimators.base import DomainEstimator
from eqrm.estimators.fit_inputs import training_rows
from eqrm.estimators.goal import Goal
from eqrm.estimators.linear_fits import Solution, of_log_loss, of_squared_error
from eqrm.estimators.network import Network, check_shape
from eqrm.estimators.tasks import Classification, Regression
from eqrm.execution import torch_for
from eqrm.linear.linear_model import NotConvergedWarning
from eqrm.linear.scored_rows import Correction
from eqrm.linear.solving.newton import one_thread
from eqrm.linear.solving.risk_functions import Array

Self = TypeVar("Self", bound="QRMEstimator")
MODELS = ("linear", "mlp")
WIDTHS = Rule(
    "a list of positive integers",
    lambda v: (
        isinstance(v, (Sequence, np.ndarray))
        and not isinstance(v, str)
        and all(map(POSITIVE_INTEGER.holds, v))
    ),
)


@dataclass(eq=False, repr=False, kw_only=True)
class QRMEstimator(DomainEstimator):
    """What the classifier and the regressor share. Base class, not to be used directly."""

    model: str = "linear"
    l2: float = ruled(1e-4, NON_NEGATIVE)
    fit_intercept: bool = ruled(True, FLAG)
    max_steps: int = ruled(200, POSITIVE_INTEGER)
    hidden: Any = field(default=(64,), metadata={"rule": WIDTHS})
    learning_rate: float = ruled(0.01, POSITIVE)
    erm_steps: int = ruled(200, NON_NEGATIVE_INTEGER)
    steps: int = ruled(300, POSITIVE_INTEGER)
    domains_per_batch: int | None = ruled(None, optional(POSITIVE_INTEGER))
    examples_per_domain: int | None = ruled(None, optional(POSITIVE_INTEGER))

    _hidden = ("_network",)

    def _checked_goal(self) -> Goal:
        one_of(self.model, MODELS, "model")
        if self.examples_per_domain is not None and self.domains_per_batch is None:
            raise SettingError(
                "examples_per_domain needs domains_per_batch: batches are made of domains."
            )
        if self._takes_long:
            torch_for(f"Training {type(self).__name__} by gradients")
        return super()._checked_goal()

    def fit(self: Self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:
        """Fit to X (n, d), the target y (n,) and the domain of each row, ``groups`` (n,).

        Without groups there are no domains, which is an error unless plain training was asked for
        (``alpha=None`` or ``measure="mean"``).
        """
        if self.surrogate is None:
            self._fit_each([self], X, y, groups, sample_weight)
        else:
            self._fit_surrogate(X, y, groups, sample_weight)
        return self

    def _fit_goals(self, goals: Sequence[Mapping[str, Any]], *data: Any) -> list[Any]:
        """Levels of one measure start from each other's solutions; ERM goes with the first."""
        models = [clone(self).set_params(**goal) for goal in goals]
        if any(model.surrogate is not None for model in models):
            return [model.fit(*data) for model in models]
        measures = [model.measure for model in models if model.alpha is not None] or [self.measure]
        for measure in dict.fromkeys(measures):
            own = [
                model
                for model in models
                if (measures[0] if model.alpha is None else model.measure) == measure
            ]
            own[0]._fit_each(own, *data)
        return models

    def _fit_each(
        self, models: Sequence[Any], X: Any, y: Any, groups: Any = None, sample_weight: Any = None
    ) -> None:
        goals = [model._checked_goal() for model in models]
        asked = any(goal.level is not None for goal in goals)
        rows = training_rows(self, X, y, groups, sample_weight, level_asked=asked)
        names = ("n_features_in_", "feature_names_in_", "classes_")
        seen = {name: getattr(self, name) for name in names if hasattr(self, name)}
        for model in models:
            model._forget()
            vars(model).update(seen)
        # From the mean to the highest level, each starting where the one before has ended.
        ranks = [-1.0 if goal.level is None else -goal.level.log_tail for goal in goals]
        order = sorted(range(len(models)), key=ranks.__getitem__)
        if self._takes_long:
            from eqrm.estimators.network_training import train_each

            # Threads would wait for each other at every step of a small batch.
            with one_thread() if self.domains_per_batch is not None else nullcontext():
                train_each(self, [(models[i], goals[i]) for i in order], rows)
        else:
            solve = of_squared_error if isinstance(self, Regression) else of_log_loss
            settings = float(self.l2), bool(self.fit_intercept), int(self.max_steps)
            solutions = solve(rows, [goals[i] for i in order], *settings)
            for i, solution in zip(order, solutions, strict=True):
                models[i]._keep_solution(solution)
        for model, goal in zip(models, goals, strict=True):
            model._keep_risks(goal, rows)

    @property
    def _takes_long(self) -> bool:  # type: ignore[override]
        return self.model == "mlp" or self.domains_per_batch is not None

    def _correct(self, correction: Correction) -> None:
        if not hasattr(self, "coef_"):
            super()._correct(correction)
            return
        intercepts: Any = correction(vars(self)["intercept_"])
        self.coef_ = correction.scale * vars(self)["coef_"]
        self.intercept_ = intercepts.item() if isinstance(self, Regression) else intercepts

    def _keep_solution(self, solution: Solution) -> None:
        self.coef_, self.intercept_ = solution.coefficients, solution.intercepts
        self.n_iter_, self.converged_ = solution.steps, solution.converged
        self.optimality_ = solution.optimality
        if not self.converged_:
            warnings.warn(
                f"{type(self).__name__} stopped after max_steps={self.max_steps} before it reached "
                "a minimum. Raise max_steps or l2.",
                NotConvergedWarning,
                stacklevel=4,
            )

    def _scores(self, X: Array) -> Array:
        if hasattr(self, "_network"):
            outputs: Array = self._network(X)
        else:
            outputs = X @ np.atleast_2d(self.coef_).T + self.intercept_
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def _own_state(self) -> dict[str, Any]:
        names = ("_network",) if hasattr(self, "_network") else ("coef_", "intercept_")
        found = {name: getattr(self, name) for name in names}
        if "_network" in found:
            found["_network"] = vars(found["_network"])
        return {**super()._own_state(), **found}

    def _restore_own(self, state: dict[str, Any]) -> None:
        super()._restore_own(state)
        self.optimality_ = None  # is about the training domains, which a file does not hold
        outputs = self._num_class or 1
        if "_network" in state:
            self._network = Network(**state["_network"])
            self._network.check_shapes(self.n_features_in_, outputs)
            return
        self.coef_, self.intercept_ = state["coef_"], state["intercept_"]
        check_shape("coef_", np.atleast_2d(self.coef_), (outputs, self.n_features_in_))
        check_shape("intercept_", np.atleast_1d(self.intercept_), (outputs,))


class QRMClassifier(Classification, QRMEstimator):
    """A classifier with the smallest α-quantile (or other measure) of log-loss over domains.

    Args:
        alpha: the level, as a number, a ``Level`` or a string (``"1-e^-1000"``); None is ERM, the
            mean of the domains' risks, whatever the measure.
        measure: what is minimised: ``"quantile"``, ``"superquantile"`` (the mean risk beyond the
            quantile, CVaR), ``"worst"`` (the largest of the domains' risks) or ``"mean"`` (ERM).
            The last two have no level, so that ``alpha`` is not used.
        distribution, bandwidth: how the distribution of the risk is estimated, see
            :class:`eqrm.EQRM`. None is ``"kde"`` for the quantile and ``"empirical"`` for the
            other measures.
        surrogate: None minimises the measure at ``alpha`` itself. ``"auto"`` tries EQRM and the
            superquantile at several levels, ERM and recalibrated ERM, and takes what has the
            lowest α-quantile on domains left out (cross-fitting; ``surrogate_`` tells). It takes
            about five times as long.
        random_state: seed of initial weights and batches.
        model: ``"linear"`` (logistic regression, solved exactly) or ``"mlp"``.
        l2: l2·Σβ² is added, over the coefficients of features scaled to spread 1 (of a network,
            over all its weights); intercepts are not penalised.
        fit_intercept: whether to fit an intercept.
        max_steps: maximum number of steps of Newton's method, for ``"linear"``.
        hidden: widths of the hidden layers, for ``"mlp"``.
        learning_rate, erm_steps, steps: learning rate of Adam, and how many steps it takes on the
            mean risk first and then on the goal.
        domains_per_batch: train on mini-batches of this many domains, each with
            ``examples_per_domain`` rows (all unless given). A linear model is then trained by
            gradients too. None uses all rows in each step.

    After ``fit``: ``classes_``, ``coef_`` and ``intercept_`` (linear), ``domains_``,
    ``domain_risks_`` and ``domain_counts_`` of the training domains, ``level_``,
    ``quantile_risk_`` (what was minimised, without the penalty), ``n_iter_``, ``converged_`` and
    ``optimality_``: of a linear model with a convex measure (all but the quantile, of the
    empirical distribution) the weights and residuals that prove the minimum, else None.

    Every domain counts once. The mean over rows, which scikit-learn's LogisticRegression
    minimises, is ``alpha=None`` without groups; ``sample_weight`` weighs rows within their domain.
    A domain whose rows are all of one class is a domain like any other.

    >>> import numpy as np
    >>> generator = np.random.default_rng(0)
    >>> X = generator.normal(size=(400, 2))
    >>> hospital = np.repeat(np.arange(20), 20)
    >>> y = np.where(X[:, 0] + 0.1 * hospital * X[:, 1] > 0, "ill", "well")
    >>> model = QRMClassifier(alpha=0.9).fit(X, y, groups=hospital)
    >>> model.classes_, model.coef_.shape, len(model.domain_risks_)
    (array(['ill', 'well'], dtype='<U4'), (1, 2), 20)
    >>> bool(model.quantile_risk_ < QRMClassifier(alpha=None).fit(X, y, hospital).quantile_at(0.9))
    True
    """


class QRMRegressor(Regression, QRMEstimator):
    """A regression with the smallest α-quantile (or other measure) of squared error over domains.

    The parameters are those of :class:`eqrm.QRMClassifier`. With ``model="linear"`` the risks are
    quadratics in the coefficients, and :class:`eqrm.LinearQRM` minimises their quantile exactly,
    from moments of features scaled to spread 1. ``alpha=None`` is least squares in which every
    domain counts once; without groups, every row.

    After ``fit``: ``coef_`` (d,) and ``intercept_`` (linear), ``domains_``, ``domain_risks_`` and
    ``domain_counts_`` of the training domains, ``level_``, ``quantile_risk_``, ``n_iter_``,
    ``converged_``, ``optimality_``.
    """
