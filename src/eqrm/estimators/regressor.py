"""QRMRegressor: the squared error that new domains stay below with probability α."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from torch import Tensor

from eqrm.errors import DomainDataError
from eqrm.estimators.base import QRMEstimator
from eqrm.estimators.fit_inputs import TrainingRows, training_rows
from eqrm.estimators.linear.domain_moments import standardised_moments
from eqrm.estimators.linear.levels import QuadraticLevels, Solver
from eqrm.estimators.linear.standardised import Scaling
from eqrm.estimators.network import Losses
from eqrm.estimators.saved_state import Arrays, Content
from eqrm.linear.solving.risk_functions import Array

Self = TypeVar("Self", bound="QRMRegressor")


class QRMRegressor(RegressorMixin, QRMEstimator):  # type: ignore[misc]
    """A regression with the smallest α-quantile of squared error over domains.

    The settings are those of :class:`eqrm.QRMClassifier`. With ``model="linear"`` the risks are
    quadratics in the coefficients, and :class:`eqrm.LinearQRM` minimises their quantile exactly,
    from moments; ``l2`` is its ridge, for features scaled to spread 1. ``alpha=None`` is least
    squares in which every domain counts once; without groups, every row.

    After ``fit``: ``coef_`` (d,) and ``intercept_`` (linear), ``domains_``, ``domain_risks_`` and
    ``domain_counts_`` of the training domains, ``level_``, ``quantile_risk_``, ``n_iter_``,
    ``converged_``.

    >>> import numpy as np
    >>> generator = np.random.default_rng(0)
    >>> X = generator.normal(size=(400, 2))
    >>> school = np.repeat(np.arange(20), 20)
    >>> y = X[:, 0] + 0.1 * school * X[:, 1] + generator.normal(size=400)
    >>> model = QRMRegressor(alpha=0.9).fit(X, y, groups=school)
    >>> model.coef_.round(2), round(model.quantile_risk_, 2)
    (array([0.94, 1.19]), 1.76)
    """

    def fit(self: Self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:
        """Fit to X (n, d), targets y (n,) and the domain of each row, ``groups`` (n,).

        Without groups all rows are one domain, which is ERM: a ``OneDomainWarning`` says so.
        """
        self._fit_each([self], X, y, groups, sample_weight)
        return self

    def _rows(self, X: Any, y: Any, groups: Any, sample_weight: Any, asked: bool) -> TrainingRows:
        return training_rows(
            self, X, y, groups, sample_weight, classification=False, level_asked=asked
        )

    def _solver(self, rows: TrainingRows) -> Solver:
        scaling = Scaling.of(rows.X, rows.sample_weight, bool(self.fit_intercept))
        moments = standardised_moments(rows.X, rows.y, rows.groups, rows.sample_weight, scaling)
        return QuadraticLevels(moments, scaling, float(self.l2), int(self.max_steps))

    def _losses_of_outputs(self, rows: TrainingRows) -> Array:
        found: Array = (self._predictions(rows.X) - rows.y) ** 2
        return found

    def _network_task(self, rows: TrainingRows) -> tuple[NDArray[Any], int, Losses]:
        # In units of its own spread, so that one learning rate fits all targets.
        centre = float(np.average(rows.y, weights=rows.sample_weight))
        spread = float(np.sqrt(np.average((rows.y - centre) ** 2, weights=rows.sample_weight)))
        self._target = (centre, spread if spread > 0.0 else 1.0)
        return (rows.y - centre) / self._target[1], 1, _squared

    def _predictions(self, X: Array) -> Array:
        outputs = self._outputs(X)[:, 0]
        if hasattr(self, "_network"):
            return self._target[0] + self._target[1] * outputs
        return outputs

    def _own_state(self) -> tuple[Content, Arrays]:
        content, arrays = super()._own_state()
        if content["layers"]:
            content["target"] = list(self._target)
        return content, arrays

    def _restore_own(self, content: Content, arrays: Arrays) -> None:
        super()._restore_own(content, arrays)
        if content["layers"]:
            centre, spread = content["target"]
            self._target = (float(centre), float(spread))
        else:
            self.intercept_ = float(self.intercept_)

    def predict(self, X: Any) -> Array:
        """The prediction for each row (n,)."""
        return self._predictions(self._features(X))

    def losses(self, X: Any, y: Any) -> Array:
        """The squared error of every row (n,)."""
        predictions = self.predict(X)
        targets = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y, dtype=np.float64)
        if targets.shape != predictions.shape:
            raise DomainDataError(
                f"y must give one target per row: there are {len(predictions)} rows, and y's shape "
                f"is {targets.shape}."
            )
        found: Array = (predictions - targets) ** 2
        return found


def _squared(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs[:, 0] - targets) ** 2
