"""scikit-learn's own checks of every estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

import eqrm
from cases import in_full
from eqrm import QRMClassifier, QRMRegressor


class OneDomain:
    """scikit-learn's checks know no groups: to them all rows are one domain."""

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Any:
        groups = None if y is None else np.zeros(len(np.asarray(y)))
        return super().fit(X, y, groups, sample_weight)  # type: ignore[misc]


class Classifier(OneDomain, QRMClassifier): ...


class Regressor(OneDomain, QRMRegressor): ...


class XGBClassifier(OneDomain, eqrm.XGBQRMClassifier): ...


class XGBRegressor(OneDomain, eqrm.XGBQRMRegressor): ...


class LGBMClassifier(OneDomain, eqrm.LGBMQRMClassifier): ...


class LGBMRegressor(OneDomain, eqrm.LGBMQRMRegressor): ...


TREES: dict[str, Any] = {"n_estimators": 10, "n_jobs": 1}
QUICK: dict[str, Any] = {"erm_steps": 12, "steps": 12, "learning_rate": 0.1, "random_state": 0}
EVERY_CLASS = [
    Classifier(),
    Regressor(),
    pytest.param(XGBClassifier(**TREES), marks=pytest.mark.full),
    pytest.param(XGBRegressor(**TREES), marks=pytest.mark.full),
    pytest.param(LGBMClassifier(**TREES), marks=pytest.mark.full),
    LGBMRegressor(**TREES),
    pytest.param(
        eqrm.Recalibrated(LogisticRegression(solver="newton-cholesky"), alpha=None),
        marks=pytest.mark.full,
    ),
    pytest.param(eqrm.Recalibrated(LinearRegression(), measure="mean"), marks=pytest.mark.full),
]
NETWORKS = [
    Classifier(model="mlp", hidden=(8,), **QUICK),
    Regressor(model="mlp", hidden=(8,), **QUICK),
    Classifier(domains_per_batch=2, **QUICK),
]
OTHER_SETTINGS = [
    QRMClassifier(alpha=None),
    QRMClassifier(measure="mean"),
    Classifier(measure="superquantile"),
    QRMRegressor(measure="mean", fit_intercept=False),
    eqrm.LGBMQRMClassifier(alpha=None, **TREES),
]


@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.SkipTestWarning",
    "ignore::sklearn.exceptions.DataConversionWarning",
    "ignore:The least populated class in y:UserWarning",
)
@pytest.mark.parametrize("estimator", [*EVERY_CLASS, *in_full(*NETWORKS, *OTHER_SETTINGS)], ids=str)
def test_every_estimator_passes_scikit_learns_checks(estimator: Any) -> None:
    results = check_estimator(estimator, on_skip=None, on_fail=None)
    wrong = {
        result["check_name"]: result["exception"]
        for result in results
        if result["status"] not in ("passed", "skipped")
    }
    assert wrong == {}
    assert sum(result["status"] == "passed" for result in results) > 40
