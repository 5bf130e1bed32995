"""The paper's bound and the plan against the formula and simulated worlds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from eqrm.errors import SettingError
from eqrm.evaluation import quantile_bound
from eqrm.evaluation.inference.planning import domain_plan, paper_bound, tight_domains


def failure(m: int, slack: float, cover: float) -> float:
    """Theorem D.1, line by line: 2 (symmetrisation) × 𝒩 × 2 (two samples) × DKW at ε/8."""
    return 2 * cover * 2 * (2 * math.exp(-2 * m * (slack / 8) ** 2))


@pytest.mark.parametrize("cover", [1, 10**6])
def test_the_slack_makes_the_proofs_bound_the_miss_allowed(cover: int) -> None:
    found = paper_bound(10**6, 0.9, 0.95, cover)
    assert failure(10**6, found.slack, cover) == pytest.approx(0.05)
    assert found.read_at == pytest.approx(0.9 + found.slack)
    needed = found.domains_needed
    assert failure(needed, 0.1, cover) <= 0.05 * (1 + 1e-9)
    assert failure(needed - 1, 0.1, cover) > 0.05
    assert not paper_bound(needed, 0.9, 0.95, cover).vacuous
    assert paper_bound(needed - 1, 0.9, 0.95, cover).vacuous


def test_the_bound_of_one_predictor_holds_in_simulated_worlds() -> None:
    found = paper_bound(20_000, 0.9, 0.95)
    draws = np.random.default_rng(0).exponential(size=(100, 20_000))
    held = np.quantile(draws, found.read_at, axis=1) >= stats.expon.ppf(0.9)
    assert held.all()  # it is far from tight: the order statistic reads at .9035, not .9901
    assert quantile_bound(draws[0]).rank / 20_000 < 0.904 < 0.99 < found.read_at


def test_the_plan_puts_the_practical_number_next_to_the_papers() -> None:
    plan = domain_plan(0.9, 0.95, domains=100)
    assert plan.domains == 29
    assert [row.domains for row in plan.rows] == [29, 46, 89, 116, 185, 738, 16241, 64963]
    assert "the 5th largest of their risks" in (plan.in_hand or "")
    assert "at least 16,241 domains" in plan.paper.sentence


def test_several_predictors_share_the_confidence() -> None:
    plan = domain_plan(0.9, 0.95, models=20)
    assert plan.domains == math.ceil(math.log(0.05 / 20) / math.log(0.9))
    assert plan.paper.models == 20
    assert "20 models at once" in plan.sentence


@pytest.mark.parametrize("slack", [0.05, 0.02, 0.005])
def test_tight_domains_are_the_first_whose_rank_is_low_enough(slack: float) -> None:
    found, beyond = tight_domains(0.9, 0.95, slack)
    assert beyond / found >= 1 - 0.9 - slack - 1e-12
    ranks = stats.binom.ppf(0.95, np.arange(29, found), 0.9) + 1
    assert np.all(ranks / np.arange(29, found) > 0.9 + slack)


def test_more_domains_than_an_integer_of_32_bits_holds_are_counted() -> None:
    ordered = [row.domains for row in domain_plan(1.0 - 1e-10).rows[:4]]
    assert ordered == sorted(ordered, key=lambda domains: domains or 0)
    assert ordered[1] == pytest.approx(46 / 29 * ordered[0], rel=0.01)


def test_slack_and_predictors_have_a_range() -> None:
    assert domain_plan(0.9, slack=1e-4).rows[3].domains == pytest.approx(2.4e7, rel=0.05)
    for slack in (0.99e-4, 0.2, float("nan")):
        with pytest.raises(SettingError, match="slack must be"):
            domain_plan(0.9, slack=slack)
    with pytest.raises(SettingError, match="confidence for each model must be"):
        domain_plan(0.9, 1 - 1e-15, models=1_000_000)
    with pytest.raises(SettingError, match="models must be an integer from 1 to 1,000,000"):
        domain_plan(0.9, models=10**400)
