"""The simulations of domains in time: their worlds are what they say, and wrong numbers fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from studies.domains_in_time.alarms import Alarms, best_fixed_size
from studies.domains_in_time.checks import check_in_time
from studies.domains_in_time.coverage import Covered, RecentCovered, SpellCovered
from studies.domains_in_time.experiment import TimeFindings
from studies.domains_in_time.limits import Told, spells_told_apart
from studies.domains_in_time.run import DomainsInTime, draw_spells, spells_table
from studies.domains_in_time.sequences import all_sequences
from studies.domains_in_time.settings import NEEDED, SIZES, TimeSettings
from studies.domains_in_time.worlds import (
    InTime,
    moving_average,
    moving_maximum,
    spell_worlds,
)

FOUND = TimeFindings(
    needed=NEEDED,
    refused_below=dict.fromkeys(NEEDED, True),
    dependent=[Covered("moving average", "uniform", 1, 71, 0.97, 0.9)],
    spells=[
        SpellCovered("AR(1), correlation 0.7", "given", 200, 0.96, 0.2, 0.03, 0.85, 3.0),
        SpellCovered("2 regimes, apart, stay 20", "refused", 200, 0.9, 0.96, 0.01, 0.8, 3.0),
    ],
    told=[Told("AR(1), correlation 0.7", 0.95, {"correlations": 0.03}, 1.0)],
    recent=[RecentCovered(0.001, 30.0, 0.89, 0.82)],
    online=all_sequences(2, 50, seed=0),
    false_alarms=[Alarms("independent domains", 0, 0.01, 0.05)],
    correlated=[],
    delays=[],
)


@pytest.mark.parametrize("draw", [moving_average, moving_maximum])
@pytest.mark.parametrize("k", [0, 2])
def test_moving_sequences_are_uniform_and_k_dependent(draw, k: int) -> None:
    drawn = draw(np.random.default_rng(0), 4000, 12, k)
    assert np.quantile(drawn, [0.1, 0.5, 0.9]) == pytest.approx([0.1, 0.5, 0.9], abs=0.015)
    correlations = [np.corrcoef(drawn[:, 0], drawn[:, lag])[0, 1] for lag in range(1, 6)]
    assert all(value > 0.1 for value in correlations[:k])
    assert all(abs(value) < 0.06 for value in correlations[k:])


@pytest.mark.parametrize("world", spell_worlds(), ids=lambda world: world.name)
def test_the_quantile_of_a_world_is_that_of_its_draws(world: InTime) -> None:
    drawn = world.draw(np.random.default_rng(1), 4000, 5)
    assert (drawn <= world.quantile(0.9)).mean() == pytest.approx(0.9, abs=0.03)


def test_regimes_last_as_long_as_they_say() -> None:
    world = next(each for each in spell_worlds() if each.name == "2 regimes, apart, stay 5")
    high = world.draw(np.random.default_rng(2), 1, 20_000)[0] > 2.5
    assert 20_000 / (1 + (high[1:] != high[:-1]).sum()) == pytest.approx(5, rel=0.15)


def test_every_check_holds_on_right_numbers_and_fails_on_wrong_ones() -> None:
    full = SIZES["full"]
    right = check_in_time(FOUND, full)
    assert all(check.holds for check in right)
    spells = FOUND.spells
    wrong = [
        replace(FOUND, needed={**NEEDED, 1: 70}),
        replace(FOUND, dependent=[replace(FOUND.dependent[0], held=0.92)]),
        replace(FOUND, spells=[replace(spells[0], held=0.919), spells[1]]),
        replace(FOUND, spells=[spells[0], replace(spells[1], refused=0.949)]),
        replace(FOUND, spells=[spells[0], replace(spells[1], wrong=0.051)]),
        replace(FOUND, spells=[replace(spells[0], refused=0.26), spells[1]]),
        replace(FOUND, recent=[replace(FOUND.recent[0], held=0.7)]),
        replace(FOUND, online=[replace(FOUND.online[0], beyond=0.01)]),
        replace(FOUND, false_alarms=[replace(FOUND.false_alarms[0], rang=0.08)]),
    ]
    failed = [[c.holds for c in check_in_time(each, full)].index(False) for each in wrong]
    assert failed == list(range(9))


def test_no_statistic_tells_more_than_the_best_test() -> None:
    found = spells_told_apart(200, 20, seed=4)
    assert len(found) == 18
    for each in found:
        assert max(each.served.values()) <= each.best + 0.2, each
    likelihood = [list(each.served.values())[-1] for each in found if each.refused == 0.9]
    assert min(likelihood[:3]) > 0.7  # AR(1)
    apart = [e.best for e in found if "apart" in e.world or "AR" in e.world]
    assert min(apart) > 0.85


def test_the_best_fixed_test_needs_the_size_that_the_normal_limit_suggests() -> None:
    z_level, z_power, p, q = 1.645, 0.842, 0.1, 0.2
    limit = ((z_level * (p * (1 - p)) ** 0.5 + z_power * (q * (1 - q)) ** 0.5) / (q - p)) ** 2
    assert best_fixed_size(0.2) == pytest.approx(limit, rel=0.15)


def test_a_tiny_run_has_every_table_and_its_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIZES, "quick", TimeSettings(3, 2, 60, 2, 40))
    outcome = DomainsInTime().compute("quick", 0, lambda share, what: None)
    assert [t.name for t in outcome.tables] == [
        "dependent",
        "spells",
        "told",
        "recent",
        "online",
        "alarms",
        "delays",
    ]
    assert "AR(1), correlation 0.7" in outcome.tables[1].markdown()
    assert len(spells_table(FOUND).rows) == 2
    draw_spells(FOUND)
