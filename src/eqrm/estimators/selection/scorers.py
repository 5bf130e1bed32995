"""Scores for model selection: the quantile of risk over the domains that are scored."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED

from eqrm.estimators.goal import Goal
from eqrm.estimators.groups import as_groups
from eqrm.estimators.tasks import row_losses
from eqrm.level import Level


class RiskScorer(BaseEstimator):  # type: ignore[misc]
    """Minus the α-quantile (or superquantile) of the scored domains' risks: greater is better.

    A scorer needs the domains of the rows it scores, which scikit-learn passes on only with
    metadata routing: ``sklearn.set_config(enable_metadata_routing=True)``. Groups then reach it
    (and the estimator, and the splitter) without being requested.
    """

    __metadata_request__score = {"groups": True, "estimator": UNUSED}  # noqa: RUF012

    def __init__(self, alpha: Any, measure: str = "quantile", distribution: Any = "empirical"):
        self.alpha = alpha
        self.measure = measure
        self.distribution = distribution
        Goal.of(Level.of(alpha), distribution, measure)  # refuses wrong settings

    def score(self, estimator: Any, X: Any, y: Any, groups: Any = None) -> float:
        """The score of a fitted estimator on these rows."""
        losses = row_losses(estimator, X, y)
        risks = as_groups(groups, len(losses)).means(losses)
        return -Goal.of(self.alpha, self.distribution, self.measure).value(risks)

    __call__ = score


def quantile_risk(alpha: Level | float | str, distribution: Any = "empirical") -> RiskScorer:
    """A scorer: minus the α-quantile of risk over the domains that are scored.

    The risk of a domain is the mean log-loss of its rows for classifiers, the mean squared error
    for regressions. For ``cross_val_score`` and ``GridSearchCV`` with metadata routing on.
    """
    return RiskScorer(alpha, "quantile", distribution)


def superquantile_risk(alpha: Level | float | str, distribution: Any = "empirical") -> RiskScorer:
    """A scorer: minus the mean risk of the worst share 1−α of the domains that are scored."""
    return RiskScorer(alpha, "superquantile", distribution)
