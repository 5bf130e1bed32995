"""scikit-learn's own checks of every estimator."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from eqrm import QRMClassifier, QRMRegressor

QUICK: dict[str, Any] = {"erm_steps": 30, "steps": 30, "learning_rate": 0.05, "random_state": 0}
ESTIMATORS = [
    QRMClassifier(),
    QRMClassifier(alpha=None),
    QRMRegressor(),
    QRMRegressor(alpha=None),
    QRMClassifier(model="mlp", hidden=(8,), **QUICK),
    QRMRegressor(model="mlp", hidden=(8,), **QUICK),
    QRMClassifier(domains_per_batch=2, **QUICK),
]


@pytest.mark.filterwarnings(
    "ignore::eqrm.estimators.groups.OneDomainWarning",
    "ignore::sklearn.exceptions.SkipTestWarning",
    "ignore::sklearn.exceptions.DataConversionWarning",
)
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)
