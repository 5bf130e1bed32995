"""QRMClassifier: the log-loss that new domains stay below with probability α."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from torch import Tensor
from torch.nn import functional

from eqrm.errors import DomainDataError
from eqrm.estimators.base import QRMEstimator
from eqrm.estimators.fit_inputs import TrainingRows, training_rows
from eqrm.estimators.linear.levels import LogisticLevels, Solver
from eqrm.estimators.linear.logistic_solver import LogisticProblem
from eqrm.estimators.network import Losses
from eqrm.linear.solving.risk_functions import Array

Self = TypeVar("Self", bound="QRMClassifier")


class QRMClassifier(ClassifierMixin, QRMEstimator):  # type: ignore[misc]
    """A classifier with the smallest α-quantile of log-loss over domains.

    Args:
        alpha: the level, as a number, a ``Level`` or a text (``"1-e^-1000"``); None is ERM, the
            mean of the domains' risks.
        distribution, bandwidth: how the law of the risk is estimated; see :class:`eqrm.EQRM`.
        measure: ``"quantile"``, or ``"superquantile"``, the mean risk beyond it.
        model: ``"linear"`` (logistic regression, solved exactly) or ``"mlp"``.
        l2: l2·Σβ² is added, over the coefficients of features scaled to spread 1 (of a network,
            over all its weights); intercepts are free.
        fit_intercept: whether there is an intercept.
        max_steps: of Newton's method, for ``"linear"``.
        hidden: widths of the hidden layers, for ``"mlp"``.
        learning_rate, erm_steps, steps: of Adam, first on the mean risk, then on the quantile.
        domains_per_batch: train on mini-batches of so many domains, each with
            ``rows_per_domain`` rows (all unless given). A linear model is then trained by
            gradients too. None takes all rows in each step.
        random_state: of initial weights and batches.

    After ``fit``: ``classes_``, ``coef_`` and ``intercept_`` (linear), ``domains_``,
    ``domain_risks_`` and ``domain_counts_`` of the training domains, ``level_``,
    ``quantile_risk_`` (what was minimised, without the penalty), ``n_iter_``, ``converged_``.

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

    def fit(self: Self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:
        """Fit to X (n, d), labels y (n,) and the domain of each row, ``groups`` (n,).

        Without groups all rows are one domain, which is ERM: a ``OneDomainWarning`` says so.
        """
        self._fit_each([self], X, y, groups, sample_weight)
        return self

    def _rows(self, X: Any, y: Any, groups: Any, sample_weight: Any, asked: bool) -> TrainingRows:
        rows = training_rows(
            self, X, y, groups, sample_weight, classification=True, level_asked=asked
        )
        self.classes_, labels = np.unique(rows.y, return_inverse=True)
        if len(self.classes_) < 2:
            raise DomainDataError(
                "A classifier needs at least two classes, but there is only one class: "
                f"{self.classes_.tolist()}."
            )
        return replace(rows, y=labels)

    def _solver(self, rows: TrainingRows) -> Solver:
        problem = LogisticProblem.of(
            rows.X,
            rows.y,
            len(self.classes_),
            rows.groups,
            rows.sample_weight,
            l2=float(self.l2),
            intercept=bool(self.fit_intercept),
            max_steps=int(self.max_steps),
        )
        return LogisticLevels(problem)

    def _losses_of_outputs(self, rows: TrainingRows) -> Array:
        return self._losses_of(self._outputs(rows.X), rows.y)

    def _network_task(self, rows: TrainingRows) -> tuple[NDArray[Any], int, Losses]:
        if len(self.classes_) == 2:
            return rows.y, 1, _binary_losses
        return rows.y, len(self.classes_), _class_losses

    def decision_function(self, X: Any) -> Array:
        """The logit of the second class (n,), or of every class (n, K)."""
        logits = self._outputs(self._features(X))
        return logits[:, 0] if logits.shape[1] == 1 else logits

    def predict_proba(self, X: Any) -> Array:
        """Probabilities (n, K), in the order of ``classes_``."""
        logits = self._outputs(self._features(X))
        if logits.shape[1] == 1:
            return np.column_stack([expit(-logits[:, 0]), expit(logits[:, 0])])
        found: Array = softmax(logits, axis=1)
        return found

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row (n,)."""
        logits = self._outputs(self._features(X))
        if logits.shape[1] == 1:
            found: NDArray[Any] = self.classes_[(logits[:, 0] > 0.0).astype(int)]
        else:
            found = self.classes_[logits.argmax(axis=1)]
        return found

    def losses(self, X: Any, y: Any) -> Array:
        """The log-loss of every row (n,)."""
        logits = self._outputs(self._features(X))
        return self._losses_of(logits, self._positions(y, len(logits)))

    def _positions(self, y: Any, rows: int) -> NDArray[np.int64]:
        labels = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
        if labels.shape != (rows,):
            raise DomainDataError(
                f"y must give one label per row: there are {rows} rows, and y's shape is "
                f"{labels.shape}."
            )
        places = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        wrong = np.flatnonzero(self.classes_[places] != labels)
        if wrong.size:
            raise DomainDataError(
                f"The label {labels[wrong[0]]!r} (row {wrong[0]}) is none of the classes seen in "
                f"training: {self.classes_.tolist()}."
            )
        return np.asarray(places, dtype=np.int64)

    @staticmethod
    def _losses_of(logits: Array, labels: NDArray[np.int64]) -> Array:
        if logits.shape[1] == 1:
            found: Array = np.logaddexp(0.0, np.where(labels == 1, -1.0, 1.0) * logits[:, 0])
        else:
            found = -np.take_along_axis(log_softmax(logits, axis=1), labels[:, None], axis=1)[:, 0]
        return found


def _binary_losses(outputs: Tensor, labels: Tensor) -> Tensor:
    signs = 1.0 - 2.0 * labels.to(outputs.dtype)
    return functional.softplus(signs * outputs[:, 0])


def _class_losses(outputs: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(outputs, labels, reduction="none")
