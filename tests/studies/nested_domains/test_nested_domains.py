"""The simulations of nested domains: their worlds are what they say, and wrong numbers fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from studies.domains_in_time.worlds import risk_laws
from studies.nested_domains.coverage import (
    KnownCovered,
    NestedCovered,
    NestedWorlds,
    known_coverage,
    nested_coverage,
    tightness,
    twice_the_mean,
)
from studies.nested_domains.run import NestedDomains, checks_of
from studies.nested_domains.settings import (
    NEEDED,
    RUNS,
    NestedCase,
    NestedSettings,
)
from studies.nested_domains.worlds import (
    SIZES,
    NestedWorld,
    bad_groups,
    uniform_law,
)

from eqrm.evaluation.inference.nested.members import NestedRisks

COVERED = NestedCovered("uniform", "1 to 50", 0.3, 50, 0.92, 0.95, 0.99, 0.96, 0.0, 0.6)
FOUND = NestedWorlds(
    needed=dict(NEEDED),
    asked=dict(NEEDED),
    covered=[COVERED, replace(COVERED, groups=10, pooled=None, refused=None)],
    known=[KnownCovered(29, 0.3, 0.96)],
    tightness=[],
)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("law", [0, 4])
def test_one_member_of_each_group_has_the_law_of_the_world(sizes: str, law: int) -> None:
    world = NestedWorld(risk_laws()[law], 0.6, sizes)
    risks, groups, effects = world.draw(np.random.default_rng(0), 1500)
    counts = np.bincount(groups)
    assert (counts.min(), counts.max(), effects.size) == (1, 50, 1500)
    drawn = risks[NestedRisks.of(risks, groups).drawn_members(1)]
    below, at_most = (drawn < world.quantile(0.9)).mean(), (drawn <= world.quantile(0.9)).mean()
    assert below - 0.025 <= 0.9 <= at_most + 0.025


def test_sizes_follow_the_risk_where_they_say_so() -> None:
    rng = np.random.default_rng(1)
    for sizes, sign in (("high risk, large", 1), ("high risk, small", -1)):
        _, groups, effects = NestedWorld(uniform_law(), 0.3, sizes).draw(rng, 500)
        assert sign * np.corrcoef(np.bincount(groups), effects)[0, 1] > 0.9


def test_quantiles_within_a_group_and_of_bad_groups_are_those_of_draws() -> None:
    rng = np.random.default_rng(2)
    world = NestedWorld(uniform_law(), 0.3)
    inside = world.risks(1.5, rng.normal(size=40_000))
    assert (inside <= world.quantile_within(1.5, 0.9)).mean() == pytest.approx(0.9, abs=0.01)
    bad = bad_groups("high risk, small")
    risks, groups, _ = bad.draw(rng, 4000)
    drawn = risks[NestedRisks.of(risks, groups).drawn_members(0)]
    for alpha in (0.83, 0.96):
        assert (drawn <= bad.quantile(alpha)).mean() == pytest.approx(alpha, abs=0.02)


def test_correlated_members_are_as_alike_as_stated() -> None:
    rng = np.random.default_rng(3)
    for correlation in (0.0, 0.9):
        effects = rng.normal(size=3000)
        world = NestedWorld(uniform_law(), correlation)
        one, two = (world.risks(effects, rng.normal(size=3000)) for _ in range(2))
        assert np.corrcoef(one, two)[0, 1] == pytest.approx(correlation, abs=0.06)


def test_every_check_holds_on_right_numbers_and_fails_on_wrong_ones() -> None:
    assert all(check.holds for check in checks_of(FOUND, 2000))
    wrong = [
        replace(FOUND, asked={**NEEDED, "once": 30}),
        replace(FOUND, covered=[replace(COVERED, once=0.92)]),
        replace(FOUND, covered=[replace(COVERED, repeated=0.92)]),
        replace(FOUND, covered=[replace(COVERED, pooled=0.91)]),
        replace(FOUND, known=[KnownCovered(29, 0.3, 0.92)]),
    ]
    failed = [[c.holds for c in checks_of(each, 2000)].index(False) for each in wrong]
    assert failed == list(range(5))


def test_a_small_sample_of_worlds_is_covered() -> None:
    case = NestedCase(NestedWorld(uniform_law(), 0.3, "high risk, small"), 40, (0.5, 0.9))
    for found in nested_coverage(case, 40, seed=5):
        assert min(found.once, found.repeated) > 0.81  # four standard errors below 95%
        assert (found.pooled or 0.0) > 0.78
        assert found.plain < 0.5
        assert found.refused == 0.0
    assert known_coverage(29, 0.3, 60, seed=5).held >= 0.85


def test_averaged_e_values_are_tighter_than_twice_the_mean_p_value() -> None:
    found = tightness(50, 0.3, 4, seed=0)
    assert found.repeated[0] < found.twice[0]
    groups = np.arange(36)
    assert twice_the_mean(groups / 36, groups, 0.9) == 35 / 36


def test_a_tiny_run_has_every_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUNS, "quick", NestedSettings(1, 1))
    outcome = NestedDomains().compute("quick", 0, lambda share, what: None)
    assert [t.name for t in outcome.tables] == ["coverage", "laws", "known", "tightness"]
    assert len(outcome.tables[0].rows) == 40
    assert "high risk, small" in outcome.tables[0].markdown()
