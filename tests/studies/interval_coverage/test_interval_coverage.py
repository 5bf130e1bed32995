"""The simulations of intervals: their truth is the truth, and wrong numbers fail."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from studies.interval_coverage.coverage import (
    CHANGE,
    ONE,
    TWO,
    CoveredInterval,
    IntervalCase,
    best_reference,
    bootstrap_coverage,
    interval_coverage,
)
from studies.interval_coverage.run import (
    CoverageFound,
    CoverageSettings,
    IntervalCoverage,
    interval_checks,
    worst_table,
)
from studies.interval_coverage.worlds import LAWS, bootstrapped, truth_of

from eqrm.evaluation.inference import intervals
from eqrm.level import Level
from studies.interval_coverage import run, worlds


@pytest.fixture(autouse=True)
def few_domains_of_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    truth_of.cache_clear()
    monkeypatch.setattr(worlds, "DRAWN", 200_000)
    monkeypatch.setattr(worlds, "BLOCK", 100_000)


def test_the_truth_is_that_of_closed_forms() -> None:
    logs, heavy = (truth_of(law, (0.5, 0.9)) for law in ("log-normal", "heavy tails"))
    law, z = stats.norm(), stats.norm.ppf(0.9)
    assert logs.first["mean", None] == pytest.approx(math.exp(0.5), rel=0.02)
    assert logs.first["quantile", 0.9] == pytest.approx(math.exp(z), rel=0.02)
    beyond = math.exp(0.5) * law.cdf(1 - z) / 0.1
    assert logs.first["superquantile", 0.9] == pytest.approx(beyond, rel=0.03)
    assert heavy.first["quantile", 0.9] == pytest.approx(0.1 ** (-1 / 2.5), rel=0.02)
    assert heavy.first["superquantile", 0.9] == pytest.approx(0.1 ** (-0.4) / 0.6, rel=0.05)
    rows = truth_of("one row per domain", (0.5, 0.9))
    assert rows.difference(("mean", None)) == pytest.approx(0.06, abs=0.005)
    assert rows.change(("quantile", 0.5)) == math.inf


@pytest.mark.parametrize("law", LAWS)
def test_intervals_hold_in_a_sample_of_worlds(law: str) -> None:
    """The promise, in few worlds: less two points and four standard errors."""
    for each in interval_coverage(IntervalCase(law, 40, 0.95), 60, seed=1):
        assert each.coverage >= 0.93 - 4 * math.sqrt(0.05 * 0.95 / 60), each


def test_one_degree_of_freedom_is_not_enough_where_a_density_jumps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    level, shares = Level(0.9), []
    true = truth_of("density jumps", (0.9,)).difference(("quantile", 0.9))
    for most in (intervals.most_ratio, lambda miss: stats.chi2.ppf(1.0 - miss, 1)):
        monkeypatch.setattr(intervals, "most_ratio", most)
        generator, held = np.random.default_rng(0), 0
        for _ in range(400):
            pairs = intervals.quantile_pairs(*LAWS["density jumps"](generator, (100,)), level, 0.95)
            low, high = pairs.difference()
            held += low <= true <= high
        shares.append(held / 400)
    assert shares[1] < 0.93 < shares[0]


def test_the_best_reference_is_the_one_that_is_gained_on_least() -> None:
    risks = np.random.default_rng(0).random(60)
    references = [2.0 * risks, 0.5 * risks, 1.5 * risks]
    assert best_reference(risks, references, Level(0.9)) is references[1]


def test_the_bootstrap_holds_less_often_than_it_says_where_signs_flip() -> None:
    found = bootstrap_coverage(IntervalCase("bimodal, signs flip", 20, 0.95), 60, seed=1)
    worst = min((each for each in found if each.what == TWO), key=lambda each: each.coverage)
    assert worst.coverage < 0.86


def test_resampled_statistics_are_those_of_the_domains_drawn() -> None:
    first, second = np.random.default_rng(0).normal(size=(2, 40))
    draws = np.random.default_rng(1).integers(0, 40, (5, 40))
    found = bootstrapped(first, second, (0.5, 0.9), draws)
    own = np.sort(second[draws[3]])
    assert found[1, :, 3] == pytest.approx(
        [own.mean(), own[19], own[35], own[20:].mean(), own[36:].mean()]
    )


CASE = IntervalCase("normal", 100, 0.95)
GOOD = CoveredInterval(CASE, ONE, "mean", 30.0, 2000, 2000, 1900, 2000, 200.0)


def found_with(*changed: CoveredInterval) -> CoverageFound:
    others = [replace(GOOD, case=CASE._replace(confidence=c), held=1990) for c in (0.8, 0.99)]
    many = replace(GOOD, case=CASE._replace(domains=300))
    ours = [GOOD, many, replace(GOOD, what=TWO), replace(GOOD, what=CHANGE), *others, *changed]
    narrow = replace(GOOD, held=1700, width=150.0)
    return CoverageFound(ours, [narrow, replace(narrow, case=many.case)])


def test_checks_fail_where_an_interval_promises_too_much_or_is_too_wide() -> None:
    assert all(check.holds for check in interval_checks(found_with(), 2000))
    for wrong, claim in (
        (replace(GOOD, held=1850, what=TWO), "differences"),
        (replace(GOOD, held=1850), "one predictor"),
        (replace(GOOD, needed=101.0), "fewer domains"),
        (replace(GOOD, label="0.9", width=900.0), ""),
    ):
        checks = interval_checks(found_with(wrong), 2000)
        failed = [check.claim for check in checks if not check.holds]
        assert [claim in each for each in failed] == ([True] if claim else [])


def test_a_small_run_has_checks_and_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(run.RUNS, "quick", CoverageSettings(6, 2))
    monkeypatch.setattr(run, "LAWS", {name: LAWS[name] for name in ("normal", "ties")})
    shares: list[float] = []
    outcome = IntervalCoverage().compute("quick", 0, lambda share, _: shares.append(share))
    assert shares[0] == 0.0
    assert len(outcome.checks) == 8
    table = outcome.tables[0].markdown()
    assert "| one predictor | mean | refused (30 needed) | refused (30 needed) |" in table
    assert "(one end)" in table
    assert "–" in outcome.tables[-1].markdown()
    assert worst_table([], "empty", "Nothing").rows == []
