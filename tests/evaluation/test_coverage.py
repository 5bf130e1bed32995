"""A small fixed sample of the simulations that ``make verify`` runs at full size."""

from __future__ import annotations

import pytest

from evaluation.worlds import (
    LAWS,
    TRUE_LAWS,
    RiskLaw,
    measured_risk_coverage,
    refused,
    true_risk_coverage,
)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
@pytest.mark.parametrize(("m", "alpha"), [(5, 0.5), (29, 0.9), (100, 0.9)])
def test_certificates_hold_as_often_as_stated(law: RiskLaw, m: int, alpha: float) -> None:
    found = measured_risk_coverage(law, m, alpha, 0.95, worlds=500, seed=1)
    assert len(found) == 6
    assert [str(coverage) for coverage in found if not coverage.holds] == []


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_too_few_domains_are_refused(law: RiskLaw) -> None:
    assert refused(law, 28, 0.9, 0.95)
    assert refused(law, 5, 0.9, 0.95)


@pytest.mark.parametrize("law", TRUE_LAWS, ids=lambda law: law.name)
def test_bounds_on_the_true_risk_hold_at_least_as_often_as_stated(law: RiskLaw) -> None:
    found = true_risk_coverage(law, 60, 0.9, 0.9, worlds=120, seed=1)
    assert len(found) == 8
    assert [str(coverage) for coverage in found if not coverage.holds] == []
