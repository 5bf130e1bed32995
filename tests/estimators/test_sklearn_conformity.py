"""scikit-learn's own checks of every estimator."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

import eqrm
from eqrm import QRMClassifier, QRMRegressor

TREES: dict[str, Any] = {"n_estimators": 10, "n_jobs": 1}
QUICK: dict[str, Any] = {"erm_steps": 12, "steps": 12, "learning_rate": 0.1, "random_state": 0}
EVERY_CLASS = [
    QRMClassifier(),
    QRMRegressor(),
    pytest.param(eqrm.XGBQRMClassifier(**TREES), marks=pytest.mark.full),
    pytest.param(eqrm.XGBQRMRegressor(**TREES), marks=pytest.mark.full),
    pytest.param(eqrm.LGBMQRMClassifier(**TREES), marks=pytest.mark.full),
    eqrm.LGBMQRMRegressor(**TREES),
    pytest.param(eqrm.Recalibrated(LogisticRegression()), marks=pytest.mark.full),
    pytest.param(eqrm.Recalibrated(LinearRegression()), marks=pytest.mark.full),
]
NETWORKS = [
    QRMClassifier(model="mlp", hidden=(8,), **QUICK),
    QRMRegressor(model="mlp", hidden=(8,), **QUICK),
    QRMClassifier(domains_per_batch=2, **QUICK),
]
OTHER_SETTINGS = [
    QRMClassifier(alpha=None),
    QRMClassifier(measure="superquantile"),
    QRMRegressor(alpha=None, fit_intercept=False),
]


def conforms(estimator: Any) -> None:
    results = check_estimator(estimator, on_skip=None, on_fail=None)
    wrong = {
        result["check_name"]: result["exception"]
        for result in results
        if result["status"] not in ("passed", "skipped")
    }
    assert wrong == {}
    assert sum(result["status"] == "passed" for result in results) > 40


stated = pytest.mark.filterwarnings(
    "ignore::eqrm.estimators.groups.OneDomainWarning",
    "ignore::sklearn.exceptions.SkipTestWarning",
    "ignore::sklearn.exceptions.DataConversionWarning",
)


@stated
@pytest.mark.parametrize("estimator", EVERY_CLASS, ids=str)
def test_every_estimator_passes_scikit_learns_checks(estimator: Any) -> None:
    conforms(estimator)


@stated
@pytest.mark.full
@pytest.mark.parametrize("estimator", [*NETWORKS, *OTHER_SETTINGS], ids=str)
def test_other_settings_pass_scikit_learns_checks(estimator: Any) -> None:
    conforms(estimator)
