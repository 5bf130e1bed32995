"""How often certificates hold in simulated worlds: a small sample, and with ``full`` all of it."""

from __future__ import annotations

import pytest

from evaluation.worlds import (
    LAWS,
    TRUE_LAWS,
    Coverage,
    RiskLaw,
    measured_risk_coverage,
    true_risk_coverage,
)

WORLDS = 2000
LEVELS_OF_SIZES = [
    (m, alpha)
    for m, alphas in {
        5: (0.5,),
        10: (0.5, 0.7),
        29: (0.5, 0.9),
        60: (0.9, 0.95),
        150: (0.9,),
        500: (0.9, 0.99),
    }.items()
    for alpha in alphas
]
named = pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
named_true = pytest.mark.parametrize("law", TRUE_LAWS, ids=lambda law: law.name)


def failures(found: list[Coverage]) -> list[str]:
    return [str(coverage) for coverage in found if not coverage.holds]


@named
@pytest.mark.parametrize(("m", "alpha"), [(5, 0.5), (29, 0.9), (100, 0.9)])
def test_certificates_hold_as_often_as_stated(law: RiskLaw, m: int, alpha: float) -> None:
    found = measured_risk_coverage(law, m, alpha, 0.95, worlds=500, seed=1)
    assert len(found) == 4
    assert failures(found) == []


@pytest.mark.full
@named
@pytest.mark.parametrize(("m", "alpha"), LEVELS_OF_SIZES)
def test_certificates_hold_as_often_as_stated_in_2000_worlds(
    law: RiskLaw, m: int, alpha: float
) -> None:
    for confidence in (0.9, 0.95):
        assert failures(measured_risk_coverage(law, m, alpha, confidence, WORLDS, seed=5)) == []


@named_true
def test_bounds_on_the_true_risk_hold_at_least_as_often_as_stated(law: RiskLaw) -> None:
    found = true_risk_coverage(law, 60, 0.9, 0.9, worlds=60, seed=1)
    assert len(found) == 8
    assert failures(found) == []


@pytest.mark.full
@named_true
@pytest.mark.parametrize(("m", "alpha"), [(5, 0.5), (29, 0.9), (100, 0.9), (500, 0.95)])
def test_bounds_on_the_true_risk_hold_in_2000_worlds(law: RiskLaw, m: int, alpha: float) -> None:
    methods = ("auto",) if m == 500 else ("auto", "kl", "bernstein", "clopper-pearson")
    assert failures(true_risk_coverage(law, m, alpha, 0.95, WORLDS, 6, methods)) == []
