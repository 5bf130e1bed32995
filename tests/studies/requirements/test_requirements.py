"""The study of requirements: what it counts, its conformal sets, and checks that can fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from studies.requirements.conformal import by_formula
from studies.requirements.experiment import Judged, covering, judge, judged, models_of
from studies.requirements.findings import Findings, checks_of
from studies.requirements.settings import COVERAGE, EQRM, ERM, MODELS, SIZES
from studies.requirements.splits import Rows, sources

SMALL = replace(SIZES["quick"], tables=(), fresh=30, rows=60)
WORLD = "as steep"


def findings(kept: float, met: float, apart: float = 0.0) -> Findings:
    """One world and one table, with these numbers for EQRM at every requirement."""
    found = [
        Judged(source, split, require, name, kept if name == EQRM else 0.1, met)
        for source in ("half as steep", WORLD, "flights")
        for split in range(3)
        for require in ("wrong among answered <= 20%", COVERAGE)
        for name in (*MODELS, "chosen of all")
    ]
    return Findings([*found, Judged(WORLD, 0, COVERAGE, ERM, 1.0, 0.5, 0.9, 0.0, "MAPIE", apart)])


@pytest.mark.parametrize(
    ("given", "failed"), [((0.5, 0.95, 0.0), 0), ((0.05, 0.95, 0.0), 1), ((0.5, 0.5, 1.0), 3)]
)
def test_every_check_fails_on_wrong_numbers(given: tuple[float, ...], failed: int) -> None:
    assert sum(not check.holds for check in checks_of(findings(*given))) == failed


def test_who_keeps_most_is_named_and_ties_are_ties() -> None:
    among = "wrong among answered <= 20%"
    assert findings(0.5, 1.0).keeps_most(WORLD, among) == EQRM
    assert findings(0.1, 1.0).keeps_most(WORLD, among).startswith("a tie of ERM, ERM recal")
    assert EQRM not in findings(0.5, 1.0).keeps_most(WORLD, COVERAGE)  # sets: the less the better


def test_domains_are_judged_by_their_own_rows() -> None:
    rows = Rows.of(np.zeros((40, 1)), [0] * 40, [0] * 20 + [1] * 20)
    passed = np.repeat([False, True], [30, 10])
    answer = np.array([1] * 2 + [0] * 18 + [1] + [0] * 9 + [None] * 10, dtype=object)
    given = {"passed": passed, "answer": answer}
    assert judge(given, rows, "wrong <= 10%")[:2] == (0.75, 1.0)
    assert judge(given, rows, "wrong <= 5%")[:2] == (0.75, 0.5)
    few = judge(given, rows, "wrong among answered <= 5%")
    assert (few[:2], few[3]) == ((0.75, 0.5), 0.5)


def test_a_world_is_judged_and_its_pooled_rows_are_covered_at_90_percent() -> None:
    split = sources(SMALL, 0)[WORLD](0)
    found = list(judged(WORLD, 0, split))
    assert len(found) == 6 * (len(MODELS) + 1) + 2
    alike = replace(split, test=split.calibration)
    model = models_of(False)[ERM].fit(split.train.X, split.train.y)
    assert 0.9 <= covering(by_formula(model, alike), alike.test, False)[2] < 0.91
