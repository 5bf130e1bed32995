"""Weighted bounds for the next domain."""

from __future__ import annotations

import math

import numpy as np
import pytest
from studies.domains_in_time.coverage import recent_coverage

from eqrm.errors import TooFewDomainsError
from eqrm.evaluation import recent_bound


def test_the_bound_is_the_weighted_quantile_with_the_next_domain_at_infinity() -> None:
    risks = np.random.default_rng(1).normal(size=150)
    weights = [0.5 ** ((150 - i) / 20) for i in range(150)]
    total = sum(weights) + 1
    reached = [
        b
        for b in risks
        if sum(w for w, r in zip(weights, risks, strict=True) if r <= b) >= 0.9 * total
    ]
    assert recent_bound(risks, half_life=20).bound == min(reached)


def test_the_probability_loses_the_weighted_distance() -> None:
    bound = recent_bound(np.arange(100.0), half_life=20)
    weights = [0.5 ** (age / 20) for age in range(1, 101)]
    lost = sum(w * min(1, 2 * 0.004 * age) for age, w in enumerate(weights, 1)) / (sum(weights) + 1)
    assert bound.probability(0.004) == pytest.approx(0.9 - lost)
    assert bound.table[0] == {"drift": 0.0, "probability": 0.9}
    assert "This is not a certificate" in bound.sentence
    assert bound.probability(1.0) == 0.0


def test_too_little_weight_is_refused_with_what_would_be_enough() -> None:
    with pytest.raises(TooFewDomainsError, match="choose a longer half_life"):
        recent_bound(np.arange(100.0), half_life=3)
    with pytest.raises(TooFewDomainsError, match="at least 11 domains are needed") as caught:
        recent_bound(np.arange(9.0), half_life=30)
    assert recent_bound(np.arange(caught.value.needed), half_life=30).domains == 11


@pytest.mark.parametrize("drift", [0.0, 0.003])
def test_the_next_domain_is_within_the_bound_as_often_as_computed(drift: float) -> None:
    found = recent_coverage(drift, 30.0, worlds=500, seed=2)
    assert found.held >= found.promised - 4 * math.sqrt(0.25 / 500)
