"""scikit-learn's own checks of every estimator."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from eqrm import QRMClassifier, QRMRegressor

QUICK: dict[str, Any] = {"erm_steps": 12, "steps": 12, "learning_rate": 0.1, "random_state": 0}
LINEAR = [
    QRMClassifier(),
    QRMClassifier(alpha=None),
    QRMRegressor(),
    QRMRegressor(alpha=None, fit_intercept=False),
]
NETWORKS = [
    QRMClassifier(model="mlp", hidden=(8,), **QUICK),
    QRMRegressor(model="mlp", hidden=(8,), **QUICK),
    QRMClassifier(domains_per_batch=2, **QUICK),
]
stated = pytest.mark.filterwarnings(
    "ignore::eqrm.estimators.groups.OneDomainWarning",
    "ignore::sklearn.exceptions.SkipTestWarning",
    "ignore::sklearn.exceptions.DataConversionWarning",
)


@stated
@parametrize_with_checks(LINEAR)
def test_linear_estimators_pass_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@stated
@pytest.mark.slow
@parametrize_with_checks(NETWORKS)
def test_networks_pass_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)
