"""More than 1,000 domains, most of one example or one class: nothing breaks, and noise is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import eqrm

TREES = {"n_estimators": 20, "n_jobs": 1}
MODELS: dict[str, Callable[[Any], Any]] = {
    "linear": eqrm.QRMClassifier,
    "xgboost": lambda alpha: eqrm.XGBQRMClassifier(alpha, max_depth=4, **TREES),
    "lightgbm": lambda alpha: eqrm.LGBMQRMClassifier(alpha, num_leaves=15, **TREES),
}
Rows = tuple[Any, Any, Any]


@pytest.fixture(scope="module")
def rows() -> Rows:
    """1,500 domains; 70% of them have one row."""
    rng = np.random.default_rng(0)
    sizes = np.where(rng.random(1500) < 0.7, 1, rng.integers(2, 9, 1500))
    groups = np.repeat(np.arange(1500), sizes)
    X = rng.normal(size=(len(groups), 4))
    shift = rng.normal(0.0, 0.5, 1500)[groups]
    y = (rng.random(len(groups)) < 1 / (1 + np.exp(1.5 - X[:, 0] - shift))).astype(float)
    return X, y, groups


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("alpha", [0.9, "1-e^-50"])
def test_every_model_and_level_gives_finite_results_no_worse_than_it_started(
    rows: Rows, name: str, alpha: Any
) -> None:
    X, y, groups = rows
    model = MODELS[name](alpha).fit(X, y, groups=groups)
    assert len(model.domain_risks_) == len(np.unique(groups))
    assert np.isfinite(model.domain_risks_).all()
    assert np.isfinite(model.predict_proba(X)).all()
    _, ids = np.unique(groups, return_inverse=True)
    means = np.bincount(ids, y) / np.bincount(ids)
    constant = float(np.log(means.mean() / (1 - means.mean())))
    start = np.bincount(ids, np.logaddexp(0, constant) - constant * y) / np.bincount(ids)
    assert model.quantile_risk_ <= float(eqrm.EQRM(alpha).of_risks(torch.from_numpy(start)))
