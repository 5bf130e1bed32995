"""Bounds on the true risk: against closed forms, scipy, and what they must refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from eqrm.errors import DomainDataError, SettingError, TooFewDomainsError
from eqrm.evaluation import quantile_bound, true_probability_bound, true_risk_bound
from eqrm.evaluation.inference import true_risk as bounded_means

MEANS = np.array([0.0, 0.02, 0.3, 0.5, 0.98, 1.0])
COUNTS = np.array([50.0, 50.0, 10.0, 1000.0, 50.0, 7.0])


def test_clopper_pearson_agrees_with_scipy() -> None:
    found = bounded_means.clopper_pearson(MEANS, COUNTS, 0.03)
    for mean, n, upper in zip(MEANS, COUNTS, found, strict=True):
        test = stats.binomtest(round(mean * n), int(n), alternative="less")
        assert upper == pytest.approx(test.proportion_ci(0.97, "exact").high, abs=1e-12)


def test_the_kl_bound_solves_its_equation() -> None:
    found = bounded_means.kl(MEANS, COUNTS, 0.03)
    for p, n, upper in zip(MEANS, COUNTS, found, strict=True):
        if p == 1.0:
            assert upper == 1.0
            continue

        def excess(q: float, p: float = p, n: float = n) -> float:
            first = p * math.log(p / q) if p else 0.0
            return n * (first + (1 - p) * math.log((1 - p) / (1 - q))) - math.log(1 / 0.03)

        assert upper == pytest.approx(optimize.brentq(excess, p + 1e-12, 1 - 1e-12), abs=1e-9)


def test_the_bernstein_bound_is_maurer_and_pontils() -> None:
    found = bounded_means.bernstein(np.array([0.2]), np.array([400.0]), 0.1, np.array([0.01]))
    log = math.log(20)
    expected = 0.2 + math.sqrt(2 * 0.01 * log / 400) + 7 * log / (3 * 399)
    assert found[0] == pytest.approx(expected)


def test_with_endless_examples_the_bound_is_an_order_statistic_of_the_risks() -> None:
    risks = np.random.default_rng(0).uniform(0.1, 0.4, 300)
    found = true_risk_bound(risks, 10**12)
    assert found.bound == pytest.approx(np.sort(risks)[found.rank - 1], abs=1e-5)
    assert found.rank >= quantile_bound(risks).rank
    assert "new domains have a true risk of at most" in found.sentence


def test_the_range_of_the_losses_scales_the_bound() -> None:
    risks = np.random.default_rng(0).uniform(0.1, 0.4, 60)
    plain = true_risk_bound(risks, 80, loss_variances=0.02)
    scaled = true_risk_bound(
        3 * risks - 1, 80, loss_range=(-1, 2), loss_variances=np.full(60, 0.18)
    )
    assert scaled.bound == pytest.approx(3 * plain.bound - 1)


def test_no_room_for_errors_within_domains_is_refused() -> None:
    with pytest.raises(TooFewDomainsError, match="at least 3 are needed"):
        true_risk_bound([0.1, 0.2], 1000, alpha=0.5, confidence=0.75)


def test_one_example_per_domain_is_vacuous_and_says_so() -> None:
    found = true_risk_bound(np.full(40, 0.9), 1)
    assert found.vacuous
    assert "This bound is vacuous" in found.sentence
    assert true_probability_bound(np.full(40, 0.9), 1, threshold=0.5).vacuous


@pytest.mark.parametrize(
    ("changes", "error", "complaint"),
    [
        ({"risks": [0.1] * 39 + [1.2]}, DomainDataError, "domain 39 is 1.2, outside"),
        ({"counts": [10] * 39 + [0]}, DomainDataError, "Domain 39 has 0 examples"),
        ({"counts": [10] * 3}, DomainDataError, "one number per domain"),
        ({"loss_range": (1.0, 0.0)}, SettingError, "loss_range"),
        ({"method": "bernstien"}, SettingError, "Did you mean 'bernstein'"),
        ({"method": "bernstein"}, SettingError, "needs loss_variances"),
        ({"loss_variances": [math.nan] * 40}, DomainDataError, "domain 0 is nan"),
        ({"method": "clopper-pearson", "counts": 3}, DomainDataError, "0 or 1"),
    ],
)
def test_bad_input_is_refused(
    changes: dict[str, object], error: type[Exception], complaint: str
) -> None:
    given: dict[str, object] = {"risks": [0.1] * 40, "counts": 10, **changes}
    with pytest.raises(error, match=complaint):
        true_risk_bound(given.pop("risks"), given.pop("counts"), **given)
