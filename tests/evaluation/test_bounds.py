"""The paper's bound and the plan against the formula, DKW's truth and a counterexample."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from eqrm.errors import LevelError, SettingError
from eqrm.evaluation import domain_plan, paper_bound, quantile_bound
from eqrm.evaluation.inference.planning import smoothing_bias, tight_domains


def failure(m: int, slack: float, cover: float, lipschitz: float) -> float:
    """Theorem D.1, line by line: 2 (symmetrisation) × 𝒩 × 2 (two samples) × DKW at ε/8L."""
    return 2 * cover * 2 * (2 * math.exp(-2 * m * (slack / (8 * lipschitz)) ** 2))


@pytest.mark.parametrize("cover", [1.0, 1e6])
@pytest.mark.parametrize("lipschitz", [1.0, 2.0])
@pytest.mark.parametrize("bias", [0.0, 0.03])
def test_the_slack_makes_the_proofs_bound_the_miss_allowed(
    cover: float, lipschitz: float, bias: float
) -> None:
    options = {"covering_number": cover, "lipschitz": lipschitz, "bias": bias}
    found = paper_bound(10**6, 0.9, 0.95, **options)
    assert failure(10**6, found.slack, cover, lipschitz) == pytest.approx(0.05)
    assert found.read_at == pytest.approx(0.9 + found.slack + bias)
    needed = found.domains_needed or 0
    assert failure(needed, 0.1 - bias, cover, lipschitz) <= 0.05 * (1 + 1e-9)
    assert failure(needed - 1, 0.1 - bias, cover, lipschitz) > 0.05
    assert not paper_bound(needed, 0.9, 0.95, **options).vacuous
    assert paper_bound(needed - 1, 0.9, 0.95, **options).vacuous


def test_a_vacuous_bound_says_so_and_from_where_it_would_not_be() -> None:
    assert "is vacuous" in paper_bound(500).sentence
    assert "at least 16,241 domains" in paper_bound(500).sentence
    hopeless = paper_bound(10**9, bias=0.1)
    assert hopeless.domains_needed is None
    assert "vacuous for any number of domains" in hopeless.sentence


def test_the_bound_of_one_predictor_holds_in_simulated_worlds() -> None:
    found = paper_bound(20_000, 0.9, 0.95)
    draws = np.random.default_rng(0).exponential(size=(200, 20_000))
    held = np.quantile(draws, found.read_at, axis=1) >= stats.expon.ppf(0.9)
    assert held.all()  # it is far from tight: the order statistic reads at .9035, not .9901
    rank = quantile_bound(draws[0]).rank
    assert rank / 20_000 < 0.904 < 0.99 < found.read_at


@pytest.mark.parametrize("beta", [0.5, 1.0, 1.5, 2.0])
def test_the_kdes_bias_constant_is_the_kernels_moment(beta: float) -> None:
    moment, _ = integrate.quad(lambda x: abs(x) ** beta * stats.norm.pdf(x), -30, 30)
    assert smoothing_bias(0.2, 3.0, beta) == pytest.approx(3.0 * moment * 0.2**beta)


def test_the_kdes_bias_bounds_the_true_bias_of_a_normal_law() -> None:
    h, grid = 0.3, np.linspace(-5, 5, 2001)
    smoothed = stats.norm.cdf(grid / math.sqrt(1 + h * h))
    bias = float(np.abs(smoothed - stats.norm.cdf(grid)).max())
    density, slope = stats.norm.pdf(0), stats.norm.pdf(1)
    assert bias <= smoothing_bias(h, density, 1.0)
    assert bias <= smoothing_bias(h, slope, 2.0)


def test_the_plan_puts_the_practical_number_next_to_the_papers() -> None:
    plan = domain_plan(0.9, 0.95, domains=100)
    assert plan.domains == 29
    assert [row.domains for row in plan.rows] == [29, 46, 89, 116, 185, 738, 16241, 64963]
    assert plan.in_hand is not None
    assert "the 5th largest of their risks" in plan.in_hand
    assert "vacuous" in plan.paper.sentence


def test_several_predictors_share_the_confidence() -> None:
    plan = domain_plan(0.9, 0.95, predictors=20)
    assert plan.domains == math.ceil(math.log(0.05 / 20) / math.log(0.9))
    assert plan.paper.covering_number == 20
    assert "20 predictors at once" in plan.sentence


@pytest.mark.parametrize("slack", [0.05, 0.02, 0.005])
def test_tight_domains_are_the_first_whose_rank_is_low_enough(slack: float) -> None:
    found, beyond = tight_domains(0.9, 0.95, slack)
    assert beyond / found >= 1 - 0.9 - slack - 1e-12
    ranks = stats.binom.ppf(0.95, np.arange(29, found), 0.9) + 1
    assert np.all(ranks / np.arange(29, found) > 0.9 + slack)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"covering_number": 0.5}, "covering_number"),
        ({"lipschitz": 0.0}, "lipschitz"),
        ({"bias": -1.0}, "bias"),
        ({"within_miss": 0.05}, "within_miss"),
        ({"confidence": 1.0}, "confidence"),
    ],
)
def test_constants_that_make_no_sense_are_refused(
    options: dict[str, float], complaint: str
) -> None:
    with pytest.raises(SettingError, match=complaint):
        paper_bound(100, **options)
    with pytest.raises(LevelError):
        paper_bound(100, alpha=1.0)
    with pytest.raises(SettingError, match="slack"):
        domain_plan(0.9, slack=0.2)
    with pytest.raises(SettingError, match="exponent"):
        smoothing_bias(0.1, 1.0, 3.0)


def test_more_domains_than_an_integer_of_32_bits_holds_are_counted() -> None:
    ordered = [row.domains for row in domain_plan(1.0 - 1e-10).rows[:4]]
    assert ordered == sorted(ordered, key=lambda domains: domains or 0)
    assert ordered[1] == pytest.approx(46 / 29 * ordered[0], rel=0.01)


def test_slack_and_predictors_have_a_range() -> None:
    assert domain_plan(0.9, slack=1e-4).rows[3].domains == pytest.approx(2.4e7, rel=0.05)
    for slack in (1e-300, 0.99e-4, float("nan"), 10**400):
        with pytest.raises(SettingError, match="slack must be"):
            domain_plan(0.9, slack=slack)
    assert domain_plan(0.9, 1 - 1e-9, predictors=1_000_000).domains > 300
    with pytest.raises(SettingError, match="confidence for each predictor must be"):
        domain_plan(0.9, 1 - 1e-15, predictors=1_000_000)
    with pytest.raises(SettingError, match="predictors must be an integer from 1 to 1,000,000"):
        domain_plan(0.9, predictors=10**400)
