"""What QRMClassifier and QRMRegressor share: settings, fitting, and what is known afterwards."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from eqrm.estimators.fit_inputs import TrainingRows, checked_features
from eqrm.estimators.goal import Goal, check_settings
from eqrm.estimators.groups import Groups
from eqrm.estimators.linear.levels import Solution, Solver
from eqrm.estimators.linear.standardised import Scaling
from eqrm.estimators.network import Examples, Losses, Network, Schedule, train
from eqrm.estimators.saved_state import Arrays, Content, Savable
from eqrm.estimators.unseen_domains import JudgedByDomain
from eqrm.level import Level
from eqrm.linear.linear_model import NotConvergedWarning
from eqrm.linear.solving.risk_functions import Array


class QRMEstimator(JudgedByDomain, Savable, BaseEstimator):  # type: ignore[misc]
    """The settings and results that both estimators have. Not to be used by itself."""

    coef_: Array
    intercept_: Any
    domain_risks_: Array
    converged_: bool
    _network: Network

    # With metadata routing on, groups go to fit without being asked for.
    __metadata_request__fit = {"groups": True}  # noqa: RUF012

    def __init__(
        self,
        alpha: Level | float | str | None = 0.9,
        *,
        distribution: Any = "kde",
        measure: str = "quantile",
        bandwidth: Any = "gaussian-optimal",
        model: str = "linear",
        l2: float = 1e-4,
        fit_intercept: bool = True,
        max_steps: int = 200,
        hidden: Any = (64,),
        learning_rate: float = 0.01,
        erm_steps: int = 200,
        steps: int = 300,
        domains_per_batch: int | None = None,
        rows_per_domain: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.distribution = distribution
        self.measure = measure
        self.bandwidth = bandwidth
        self.model = model
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.max_steps = max_steps
        self.hidden = hidden
        self.learning_rate = learning_rate
        self.erm_steps = erm_steps
        self.steps = steps
        self.domains_per_batch = domains_per_batch
        self.rows_per_domain = rows_per_domain
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Sparse X is taken, and made dense."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _goal(self) -> Goal:
        check_settings(self)
        return Goal.of(self.alpha, self.distribution, self.measure, self.bandwidth)

    @property
    def _by_gradients(self) -> bool:
        return self.model == "mlp" or self.domains_per_batch is not None

    def _rows(self, X: Any, y: Any, groups: Any, sample_weight: Any, asked: bool) -> TrainingRows:
        """What ``fit`` was given, checked, with targets as numbers."""
        raise NotImplementedError

    def _solver(self, rows: TrainingRows) -> Solver:
        """The exact solver of the linear model."""
        raise NotImplementedError

    def _network_task(self, rows: TrainingRows) -> tuple[NDArray[Any], int, Losses]:
        """Targets of a network, the number of its outputs, and its loss per row."""
        raise NotImplementedError

    def _losses_of_outputs(self, rows: TrainingRows) -> Array:
        """The loss of every training row."""
        raise NotImplementedError

    def fit_levels(
        self,
        levels: Sequence[Level | float | str | None],
        X: Any,
        y: Any,
        groups: Any = None,
        sample_weight: Any = None,
    ) -> list[Any]:
        """One fitted estimator per level, in this order; each starts from its neighbour's solution.

        The data are checked and prepared once. None among the levels is ERM.
        """
        models = [clone(self).set_params(alpha=level) for level in levels]
        self._fit_each(models, X, y, groups, sample_weight)
        return models

    def _fit_each(
        self, models: Sequence[Any], X: Any, y: Any, groups: Any, sample_weight: Any
    ) -> None:
        goals = [model._goal() for model in models]
        asked = any(goal.level is not None for goal in goals)
        rows = self._rows(X, y, groups, sample_weight, asked)
        for model in models:
            model._forget()
            for name in ("n_features_in_", "feature_names_in_", "classes_"):
                if hasattr(self, name):
                    setattr(model, name, getattr(self, name))
        # From the mean to the highest level, each starting where the one before has ended.
        order = sorted(range(len(models)), key=lambda i: _rank(goals[i]))
        if self._by_gradients:
            self._train_each([(models[i], goals[i]) for i in order], rows)
        else:
            solver = self._solver(rows)
            for i in order:
                models[i]._keep_linear(solver.at(goals[i]))
        for model, goal in zip(models, goals, strict=True):
            risks = rows.groups.means(model._losses_of_outputs(rows), rows.sample_weight)
            model._keep_risks(goal, rows.groups, risks)

    def _train_each(self, models: Sequence[tuple[Any, Goal]], rows: TrainingRows) -> None:
        scaling = Scaling.of(rows.X, rows.sample_weight, intercept=True)
        standardised = np.ascontiguousarray(scaling.rows(rows.X)[:, :-1])
        schedule, before = self._schedule(), None
        for model, goal in models:
            targets, outputs, losses = model._network_task(rows)
            examples = Examples.of(standardised, targets, rows.groups, rows.sample_weight)
            random = check_random_state(self.random_state)
            before = train(examples, outputs, losses, goal, schedule, random, start=before)
            model._network = before
            model._centre, model._spread = scaling.centre, scaling.spread
            model.n_iter_ = schedule.erm_steps + schedule.steps
            model.converged_ = True  # a fixed number of steps has no other way to end

    def _keep_linear(self, solution: Solution) -> None:
        self.coef_, self.intercept_ = solution.coefficients, solution.intercepts
        self.n_iter_, self.converged_ = solution.steps, solution.converged
        if not self.converged_:
            warnings.warn(
                f"{type(self).__name__} stopped after max_steps={self.max_steps} before it reached "
                "a minimum. Raise max_steps or l2.",
                NotConvergedWarning,
                stacklevel=4,
            )

    def _schedule(self) -> Schedule:
        return Schedule(
            hidden=tuple(int(width) for width in self.hidden) if self.model == "mlp" else (),
            l2=float(self.l2),
            learning_rate=float(self.learning_rate),
            erm_steps=int(self.erm_steps),
            steps=int(self.steps),
            domains_per_batch=self.domains_per_batch,
            rows_per_domain=self.rows_per_domain,
            intercept=bool(self.fit_intercept),
        )

    def _features(self, X: Any) -> Array:
        """X of a prediction, checked against what was fitted to."""
        check_is_fitted(self)
        return checked_features(self, X)

    def _outputs(self, X: Array) -> Array:
        """What the predictor gives for each row of checked features, (n, C)."""
        if hasattr(self, "_network"):
            return self._network((X - self._centre) / self._spread)
        found: Array = X @ np.atleast_2d(self.coef_).T + self.intercept_
        return found

    def quantile_at(self, alpha: Level | float | str) -> float:
        """The α-quantile of the training domains' risks, by the distribution of the settings.

        What was trained for another level, or for the mean, has a quantile at this one too.
        """
        check_is_fitted(self)
        goal = Goal.of(alpha, self.distribution, "quantile", self.bandwidth)
        return goal.value(self.domain_risks_)

    def _forget(self) -> None:
        """A second fit leaves nothing of the first."""
        for name in ("_network", "_centre", "_spread", "coef_", "intercept_"):
            if hasattr(self, name):
                delattr(self, name)

    def _keep_risks(self, goal: Goal, groups: Groups, risks: Array) -> None:
        self.level_ = goal.level
        self.domains_ = groups.names
        self.domain_counts_ = groups.counts
        self.domain_risks_ = risks
        self.quantile_risk_ = goal.value(risks)

    def _own_state(self) -> tuple[Content, Arrays]:
        if not hasattr(self, "_network"):
            return {"layers": 0}, {
                "coef_": np.asarray(self.coef_),
                "intercept_": np.asarray(self.intercept_),
            }
        arrays = {"centre": self._centre, "spread": self._spread}
        for place, weight in enumerate(self._network.weights):
            arrays[f"weight{place}"] = weight
            arrays[f"bias{place}"] = self._network.biases[place]
        return {"layers": len(self._network.weights)}, arrays

    def _restore_own(self, content: Content, arrays: Arrays) -> None:
        layers = int(content["layers"])
        if layers == 0:
            self.coef_, self.intercept_ = arrays["coef_"], arrays["intercept_"]
            return
        self._centre, self._spread = arrays["centre"], arrays["spread"]
        self._network = Network(
            tuple(arrays[f"weight{place}"] for place in range(layers)),
            tuple(arrays[f"bias{place}"] for place in range(layers)),
        )


def _rank(goal: Goal) -> float:
    return -1.0 if goal.level is None else -goal.level.log_tail
