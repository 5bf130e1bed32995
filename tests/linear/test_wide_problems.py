"""Many parameters: steps by Cholesky factors, and the same minima as by eigenvectors."""

from __future__ import annotations

import numpy as np
import pytest

import eqrm
from eqrm.linear.solving import newton, search


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
    risks = [model.quantile_at(0.9) for model in models]
    assert risks[2] <= min(risks)
