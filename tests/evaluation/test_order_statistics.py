"""Order-statistic and binomial bounds against scipy's laws and exact fractions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from eqrm.errors import DomainDataError, LevelError, SettingError, TooFewDomainsError
from eqrm.evaluation import domains_needed, probability_bound, quantile_bound


def binomial_tail(k: int, m: int, alpha: float) -> float:
    """P(Binomial(m, α) ≥ k) by the incomplete beta function, which no code under test uses."""
    return float(special.betainc(k, m - k + 1, alpha)) if 0 < k <= m else float(k <= 0)


@pytest.mark.parametrize("m", [5, 29, 30, 100, 299, 10_000])
@pytest.mark.parametrize("alpha", [0.05, 0.5, 0.75, 0.9, 0.95, 0.99])
def test_the_rank_and_its_confidence_are_those_of_the_binomial(m: int, alpha: float) -> None:
    risks = np.random.default_rng(m).permutation(np.arange(1.0, m + 1))  # the risk is its rank
    for confidence in (0.5, 0.9, 0.95, 0.99):
        miss = (1.0 - confidence) * (1 + 1e-12)
        if alpha**m > miss:
            with pytest.raises(TooFewDomainsError) as refusal:
                quantile_bound(risks, alpha, confidence)
            needed = refusal.value.needed
            assert refusal.value.domains == m
            assert f"at least {needed} are needed" in str(refusal.value)
            assert alpha**needed <= miss < alpha ** (needed - 1)
            continue
        found = quantile_bound(risks, alpha, confidence)
        assert found.bound == found.rank
        assert binomial_tail(found.rank, m, alpha) <= miss < binomial_tail(found.rank - 1, m, alpha)
        tail = binomial_tail(found.rank, m, alpha)
        assert found.achieved == pytest.approx(1.0 - tail, abs=1e-12)


@pytest.mark.parametrize(("m", "below"), [(5, 1), (5, 5), (29, 29), (40, 30), (500, 497), (30, 0)])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_clopper_pearson_agrees_with_scipy(m: int, below: int, confidence: float) -> None:
    risks = np.array([0.0] * below + [1.0] * (m - below))
    found = probability_bound(risks, 0.5, confidence).bound
    test = stats.binomtest(below, m, alternative="greater")
    low = test.proportion_ci(confidence, method="exact").low
    assert found == pytest.approx(low, abs=1e-12)


@pytest.mark.parametrize("beyond", [0, 1, 5, 40])
@pytest.mark.parametrize(("alpha", "confidence"), [(0.5, 0.75), (0.9, 0.95), (0.99, 0.9)])
def test_domains_needed_is_the_smallest_number_that_suffices(
    alpha: float, confidence: float, beyond: int
) -> None:
    needed = domains_needed(alpha, confidence, beyond)

    def confidence_of(m: int) -> float:
        return 1.0 - binomial_tail(m - beyond, m, alpha)

    assert confidence_of(needed) >= confidence - 1e-12
    assert confidence_of(needed - 1) < confidence


def test_sentences_never_state_more_than_was_computed() -> None:
    found = probability_bound([0.0] * 29, 0.5)
    assert f"{found.bound:.6f}" == "0.901855"
    assert "at least 90.18% of new domains" in found.sentence
    risks = np.full(50, 0.123451)
    assert quantile_bound(risks).sentence == (
        "With 95% confidence, at least 90% of new domains of similar size have a measured risk of "
        "at most 0.1235, provided that new domains are drawn independently from the same "
        "distribution as these 50."
    )


@pytest.mark.parametrize(
    ("wrong", "error", "complaint"),
    [
        ({"risks": []}, DomainDataError, "empty"),
        ({"risks": [0.1]}, TooFewDomainsError, "At least 2 domains"),
        ({"risks": [0.1, float("nan"), 0.2]}, DomainDataError, "domain 1 is nan"),
        ({"risks": [[0.1, 0.2]]}, DomainDataError, r"shape \(1, 2\)"),
        ({"risks": ["low", "high"]}, DomainDataError, "must be numbers"),
        *(({"alpha": x}, LevelError, "alpha|level") for x in (0.0, 1.0, 1.1, float("nan"), "high")),
        *(({"confidence": x}, SettingError, "between 0 and 1") for x in (1.0, 95, np.nan, None)),
    ],
)
def test_what_gives_no_bound_is_refused(
    wrong: dict[str, object], error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        quantile_bound(**{"risks": np.arange(50.0), **wrong})


def test_levels_close_to_1_have_finite_answers() -> None:
    needed = domains_needed(1 - 1e-9, 0.95)
    assert needed == pytest.approx(np.log(0.05) / np.log1p(-1e-9), rel=1e-6)
    with pytest.raises(TooFewDomainsError, match="at least"):
        quantile_bound(np.arange(50.0), alpha="1-e^-20")
    with pytest.raises(LevelError, match=r"alpha = 1-e\^-1000 is too close to 1 .* more than 10"):
        quantile_bound(np.arange(50.0), alpha="1-e^-1000")


def test_dependence_over_more_places_than_there_are_domains_is_refused_at_once() -> None:
    with pytest.raises(TooFewDomainsError, match=r"200 1000000000-dependent .* bound no level"):
        quantile_bound(np.arange(200.0), dependence=10**9)
