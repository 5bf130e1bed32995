"""causal-recovery at its quick size: truths by brute force, and checks that can fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize
from studies.causal_recovery.limits import Solved, solve_case
from studies.causal_recovery.run import (
    CausalRecovery,
    cases_table,
    draw_ways,
    ticks_table,
)
from studies.causal_recovery.settings import CASES, SIGMAS, SIZES, Case

from studies.causal_recovery import checks

pytestmark = pytest.mark.xdist_group("causal-recovery")  # what is prepared once serves all tests

QUICK = SIZES["quick"]
IDS = [case.name for case in CASES]


@pytest.fixture(scope="module")
def solved() -> list[Solved]:
    return [solve_case(case) for case in CASES]


def sigmas_of(case: Case) -> np.ndarray:
    """σ1, σY, σ2 in each domain, (domains, 3)."""
    fixed = {"X1": 1.0, "Y": case.sigma_y, "X2": case.sigma2}
    return np.array(
        [
            [SIGMAS[name][e] if name in case.changing else fixed[name] for name in fixed]
            for e in range(4)
        ]
    )


def risks_by_formula(case: Case, beta: np.ndarray) -> np.ndarray:
    first, second = beta
    weights = np.array([(first + second - 1) ** 2, (second - 1) ** 2, second**2])
    return sigmas_of(case) ** 2 @ weights


def least_invariant(case: Case) -> tuple[np.ndarray, float]:
    """The lowest mean + huge·variance of risks over many starts, by scipy."""

    def objective(beta: np.ndarray) -> float:
        risks = risks_by_formula(case, beta)
        return float(risks.mean() + 1e7 * risks.var())

    starts = [(a, b) for a in (0.1, 0.9) for b in (0.1, 0.9)]
    options = {"xatol": 1e-10, "fatol": 1e-14, "maxiter": 800}
    ends = [optimize.minimize(objective, s, method="Nelder-Mead", options=options) for s in starts]
    best = min(ends, key=lambda end: end.fun)
    return best.x, float(np.ptp(risks_by_formula(case, best.x)))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_truth_is_what_brute_force_finds(case: Case) -> None:
    found, spread = least_invariant(case)
    if case.truth is None:
        assert spread > 0.1
    else:
        assert found == pytest.approx(np.array(case.truth), abs=0.02)
        assert np.ptp(risks_by_formula(case, np.array(case.truth))) < 1e-12


def test_every_check_holds_at_the_quick_size(solved: list[Solved]) -> None:
    outcome = CausalRecovery().compute("quick", 0, lambda share, what: None)
    assert [str(check) for check in outcome.checks if not check.holds] == []
    assert len(outcome.checks) == 3 * 9 + 3 + 9 + 1
    held = [row[-1] for row in outcome.tables[0].rows]
    assert held == ["does not hold"] * 3 + ["holds"] * 6


@pytest.mark.parametrize("index", range(len(CASES)), ids=IDS)
def test_each_case_fails_when_its_answer_is_another_cases(index: int, solved: list[Solved]) -> None:
    other = solved[4 if index in (5, 6) else 5]
    wrong = replace(other, case=solved[index].case)
    found = [check.holds for check in checks.check_case(wrong, QUICK)]
    assert found[:2] == [False, False]


def test_a_paper_that_were_right_where_it_errs_would_fail_the_check(solved: list[Solved]) -> None:
    case = replace(solved[0].case, paper=solved[0].case.truth)
    assert not checks.check_case(replace(solved[0], case=case), QUICK)[2].holds


def test_the_table_fails_when_a_method_ends_elsewhere(solved: list[Solved]) -> None:
    elsewhere = [replace(each, irm=np.array([0.5, 0.5])) for each in solved]
    assert [check.holds for check in checks.check_table(elsewhere, QUICK)] == [True, False, False]


def test_ticks_are_shown_beside_the_papers(solved: list[Solved]) -> None:
    rows = [list(row) for row in ticks_table(solved, QUICK).rows]
    assert rows[0][4:] == [True, False] * 3
    assert rows[1][4:] == [True, True] * 3
    assert rows[2][4:] == [True, True, False, False, False, False]
    assert cases_table(solved, QUICK).rows[2][1] == "any (c, 1 − c)"


def test_the_picture_has_a_way_for_every_case(solved: list[Solved]) -> None:
    (axes,) = draw_ways(solved).axes
    labels = [line.get_label() for line in axes.lines]
    assert [name for name in IDS if name in labels] == IDS
