"""The simulations of operating points: worlds need what control gives, wrong numbers fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from studies.control_coverage.coverage import Held, known_as, pool_of, simulated_cell
from studies.control_coverage.run import ControlCoverage, check_of_trainings, checks_of
from studies.control_coverage.settings import (
    BEST,
    INTERVALS,
    LAC,
    MISSED,
    NESTED,
    RUNS,
    WRONG,
    Cell,
    ControlSettings,
    cells,
)
from studies.control_coverage.trainings import CV, KINDS, TRAINED, HeldByTraining
from studies.control_coverage.worlds import FOUR, NUMBERS, PLAIN, WORLDS

import eqrm
from eqrm.evaluation.controlling.operating_point import Asked
from eqrm.evaluation.measuring.requirement import Requirement

TINY = ControlSettings(600, 8, 3, 6.0, 1)


@pytest.mark.parametrize(
    ("kind", "require"),
    [(PLAIN, WRONG), ("ties: one digit", MISSED), (FOUR, LAC), ("numbers with a scale", INTERVALS)],
)
def test_the_setting_of_a_world_is_that_of_control(kind: str, require: str) -> None:
    cell, generator = Cell(kind, require, 60, 40), np.random.default_rng(0)
    effects = generator.normal(size=60)
    pool = pool_of(cell, effects, np.random.default_rng(1))
    drawn = WORLDS[kind].drawn(np.random.default_rng(1), effects, 40)
    bound = Asked().bound(pool.needed[0], known_as(tuple(map(str, range(60))))).bound
    given = {"require": require, "scale": drawn.scale}
    point = eqrm.control(drawn.labels, drawn.predictions[0], drawn.domain, **given)
    assert point.setting == Requirement.of(require).above(bound)


@pytest.mark.parametrize(
    "kind", [kind for kind in WORLDS if WORLDS[kind].truth and "5," not in kind]
)
def test_what_domains_truly_need_is_what_very_many_rows_need(kind: str) -> None:
    world, effects = WORLDS[kind], np.random.default_rng(0).normal(size=30)
    require = {
        "true: confidence": "wrong <= 10%",
        "true: scores": MISSED,
        "true: numbers": INTERVALS,
    }
    how = Cell(kind, require.get(kind, "false alarms <= 10%"), 30, 1).requirement
    rows = world.drawn(np.random.default_rng(1), effects, 20_000).rows()
    assert world.truth is not None
    truth = world.truth(effects, how.allowed)
    assert np.abs(how.needed(rows, 30, [how.allowed])[0] - truth).max() < 0.15
    assert np.abs(how.needed(rows, 30, [how.allowed])[0] - truth).mean() < 0.02


@pytest.mark.parametrize(
    "cell",
    [
        Cell(PLAIN, WRONG, 60, 50, BEST),
        Cell(NUMBERS, INTERVALS, 60, 20, NESTED),
        Cell(PLAIN, WRONG, 120, 20, dependence=1),
        Cell("true: scores", MISSED, 60, 200),
    ],
    ids=str,
)
def test_enough_new_domains_meet_the_requirement(cell: Cell) -> None:
    found = simulated_cell(cell, ControlSettings(1000, 40, 20, 4.0, 1), 0)
    assert found.success >= 0.75
    assert 0.9 < found.mean <= 1.0
    assert (found.refused, found.theory) == (0.0, None)


def test_every_check_holds_on_right_numbers_and_fails_on_wrong_ones() -> None:
    plain = Held(Cell(PLAIN, WRONG, 60, 100), 10_000, 0.945, 0.98, 0.967, 59 / 61, 0.0, 0.0)
    others = {"theory": None, "success": 0.96}
    right = [
        plain,
        replace(plain, cell=Cell("true: numbers", INTERVALS, 60, 100), **others),
        replace(plain, cell=Cell(PLAIN, WRONG, 60, 50, BEST), **others),
        replace(plain, cell=Cell(PLAIN, WRONG, 60, 30, NESTED), **others),
        replace(plain, cell=Cell(PLAIN, WRONG, 120, 30, dependence=1), **others),
    ]
    assert all(check.holds for check in checks_of(right))
    for i in range(5):
        low = [replace(each, success=0.94) if i == j else each for j, each in enumerate(right)]
        assert [check.holds for check in checks_of(low)].index(False) == i
    assert not checks_of([replace(plain, mean=0.95), *right])[5].holds
    assert checks_of([replace(plain, mean=0.99, ties=0.1), *right])[5].holds
    fitted = HeldByTraining(TRAINED, KINDS[0], "wrong <= 10%", 100, 0.906, 0.91, 0.97, 0.5)
    assert check_of_trainings([fitted]).holds
    assert not check_of_trainings([fitted, replace(fitted, success=0.9)]).holds


def test_a_tiny_run_has_a_row_for_every_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUNS, "quick", TINY)
    tried = list(cells())
    some = [Cell(FOUR, LAC, 60, 20), Cell("losses on a grid", "loss <= 0.3", 29, 20)]
    for form in ("true", "form", "dependence"):
        some += [cell for cell in tried if getattr(cell, form)][:: 2 if form == "form" else 7]
    monkeypatch.setattr("studies.control_coverage.settings.cells", lambda: iter(some))
    monkeypatch.setattr("studies.control_coverage.trainings.DOMAINS", 30)
    monkeypatch.setattr("studies.control_coverage.trainings.KINDS", KINDS[:1])
    fitted, table = ControlCoverage().compute("quick", 0, lambda share, what: None).tables
    assert [row[0] for row in fitted.rows] == [TRAINED, CV, TRAINED, CV]
    assert len(table.rows) == len(some)
    assert "losses on a grid" in table.markdown()
    assert len({cell.kind for cell in tried}) == len(WORLDS) + 1
