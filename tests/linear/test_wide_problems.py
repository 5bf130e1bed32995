"""Many parameters: steps by Cholesky factors, and the same minima as by eigenvectors."""

from __future__ import annotations

import numpy as np
import pytest

import eqrm
from eqrm.linear.solving import newton, search
from eqrm.linear.solving.newton import model_minimum
from eqrm.linear.solving.wide_steps import CLOSE, step_within


@pytest.mark.parametrize("shift", [2.0, 0.0, -1.0], ids=["definite", "indefinite", "negative"])
@pytest.mark.parametrize("radius", [1e-3, 0.3, 5.0])
def test_a_step_within_a_radius_is_nearly_the_best_one(shift: float, radius: float) -> None:
    rng = np.random.default_rng(3)
    half, square = rng.normal(size=(2, 12, 12))
    hessian, gradient = half + half.T + shift * 5.0 * np.eye(12), rng.normal(size=12)
    root = np.linalg.cholesky(square @ square.T + np.eye(12))
    found = step_within(gradient, hessian, root @ root.T, radius)
    assert found is not None
    step, promised, length = found
    assert length == pytest.approx(np.linalg.norm(root.T @ step))
    assert length <= (1.0 + CLOSE) * radius
    assert promised == pytest.approx(-(gradient @ step + 0.5 * step @ hessian @ step))
    # The least value within exactly this length, by eigenvectors.
    inverse = np.linalg.inv(root)
    _, best = model_minimum(inverse @ gradient, inverse @ hessian @ inverse.T, length)
    assert promised == pytest.approx(best, rel=2e-3)


def test_what_factors_cannot_solve_is_left_to_eigenvectors() -> None:
    one = np.eye(2)
    assert step_within(np.array([1.0, 0.0]), np.diag([1.0, -1.0]), one, 2.0) is None
    assert step_within(np.ones(2), np.full((2, 2), np.nan), one, 2.0) is None


def _rows(features: int, domains: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(domains), 40)
    X = rng.normal(size=(len(groups), features))
    slopes = 1.0 + 0.6 * rng.normal(size=domains)[groups]
    return X, slopes * X[:, 0] + rng.normal(size=len(groups)), groups


@pytest.mark.parametrize("alpha", [0.6, 0.9])
def test_many_features_have_the_minimum_found_by_eigenvectors(
    alpha: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, groups = _rows(12)
    expected = eqrm.LinearQRM(alpha=alpha).fit(X, y, groups)
    for module in (newton, search):
        monkeypatch.setattr(module, "WIDE", 5)
    found = eqrm.LinearQRM(alpha=alpha).fit(X, y, groups)
    assert found.converged_
    assert found.value_ == pytest.approx(expected.value_, rel=1e-8)
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-4)


def test_a_classifier_of_more_than_300_features_fits_several_levels() -> None:
    X, y, groups = _rows(310)
    models = eqrm.QRMClassifier(l2=0.1).fit_levels([None, 0.6, 0.9], X, y > 0.0, groups)
    assert [model.coef_.shape for model in models] == [(1, 310)] * 3
    risks = [
        eqrm.KDE(eqrm.domain_risks(_losses(model, X, y > 0.0), groups).values).quantile(0.9).item()
        for model in models
    ]
    assert risks[2] <= min(risks)


def _losses(model: eqrm.QRMClassifier, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    found: np.ndarray = -np.log(model.predict_proba(X)[np.arange(len(y)), y.astype(int)])
    return found
