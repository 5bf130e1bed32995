"""The watch: its evidence by enumeration, states, alarms, simulated worlds."""

from __future__ import annotations

import itertools
import json
import math
import time
import tracemalloc

import numpy as np
import pytest
from scipy import special, stats

from eqrm import Watch
from eqrm.errors import DomainDataError, SettingError
from eqrm.evaluation import probability_bound, quantile_bound, spell_bound
from eqrm.evaluation.inference.in_time.evidence import (
    Evidence,
    RiskDrift,
    log_miss_factors,
    log_rank_factors,
    miss_rate_interval,
)
from studies.domains_in_time import alarms

RISKS = np.random.default_rng(0).random(200)
CERTIFICATE = quantile_bound(RISKS)


def weights(size: int) -> list[float]:
    """Shares of the money that come into play with domain 1, 2, …."""
    later = [0.5 * (1 / math.log2(j) - 1 / math.log2(j + 1)) for j in range(2, size + 1)]
    return [0.5, *later]


def direct_evidence(missed: list[bool], share: float) -> float:
    """The mean over bets and the sum over starting times, term by term."""
    factors = np.exp(log_miss_factors(missed, share))
    shares = weights(len(missed))
    started = sum(w * factors[j:].prod(axis=0).mean() for j, w in enumerate(shares))
    return float(started + 1 - sum(shares))


def test_evidence_is_the_sum_over_bets_and_starting_times() -> None:
    missed = (np.random.default_rng(1).random(40) < 0.2).tolist()
    path = Evidence(5).extend(log_miss_factors(missed, 0.1))
    expected = [direct_evidence(missed[: t + 1], 0.1) for t in range(40)]
    assert path == pytest.approx(expected, rel=1e-10)


def test_evidence_has_the_expectation_one_if_the_certificate_is_exact() -> None:
    for share in (0.1, 0.4):
        total = 0.0
        for missed in itertools.product([False, True], repeat=9):
            probability = math.prod(share if m else 1 - share for m in missed)
            total += probability * Evidence(5).extend(log_miss_factors(missed, share))[-1]
        assert total == pytest.approx(1.0, abs=1e-12)


def test_bets_on_ranks_are_fair() -> None:
    p = (np.arange(100_000) + 0.5) / 100_000
    assert np.exp(log_rank_factors(p)).mean(axis=0) == pytest.approx(np.ones(6), abs=1e-6)


def test_one_by_one_in_pieces_and_after_a_restart_the_state_is_the_same_to_the_bit() -> None:
    new = np.random.default_rng(2).random(700)
    for k in (0, 2):
        whole = Watch(CERTIFICATE, dependence=k, reference=RISKS)
        path = whole.update_many(new)
        other = Watch(CERTIFICATE, dependence=k, reference=RISKS)
        found = [other.update(risk) for risk in new[:101]]
        other = Watch.from_dict(json.loads(json.dumps(other.to_dict())))
        found += other.update_many(new[101:350]).tolist() + other.update_many(new[350:]).tolist()
        assert found == path.tolist()
        assert other.to_dict() == whole.to_dict()
        assert other.report == whole.report


def test_dependent_domains_are_watched_by_interleaved_processes() -> None:
    new = np.random.default_rng(3).random(90)
    path = Watch(CERTIFICATE, dependence=2).update_many(new)
    parts = [Watch(CERTIFICATE).update_many(new[first::3]) for first in range(3)]
    assert path[-1] == pytest.approx(max(part[-1] for part in parts) / 3)
    assert path[7] == pytest.approx(max(parts[0][2], parts[1][2], parts[2][1]) / 3)


def test_a_broken_certificate_rings_once_and_for_all() -> None:
    watch = Watch(CERTIFICATE)
    good = np.full(100, CERTIFICATE.bound)
    watch.update_many(good)
    assert watch.report.verdict == "still holds"
    watch.update_many(good[:12] + 0.1)
    first = watch.report
    assert (first.verdict, first.misses) == ("broken", 12)
    assert 100 < (first.alarm or 0) <= 112
    watch.update_many(good)
    assert (watch.report.verdict, watch.report.alarm) == ("broken", first.alarm)
    assert f"The alarm rang at domain {first.alarm}" in watch.report.sentence


def test_either_kind_of_certificate_can_be_watched() -> None:
    bound = probability_bound(RISKS, threshold=0.95)
    watch = Watch(bound)
    assert (watch.bound, watch.alpha) == (0.95, bound.bound)
    dependent = Watch(quantile_bound(RISKS, dependence=1))
    assert dependent.dependence == 1
    assert "more than 1 place earlier" in dependent.assumption
    assert "are independent of each other" in watch.assumption


def test_what_cannot_be_watched_is_refused() -> None:
    with pytest.raises(SettingError, match="nothing to watch"):
        Watch(probability_bound(RISKS, threshold=-1.0))
    with pytest.raises(SettingError, match="must be a Certificate"):
        Watch(0.5)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="Choose dependence=k"):
        Watch(spell_bound(RISKS))
    assert Watch(spell_bound(RISKS), dependence=3).dependence == 3
    with pytest.raises(SettingError, match="delta"):
        Watch(CERTIFICATE, delta=0)
    with pytest.raises(DomainDataError, match="not the state of a watch"):
        Watch.from_dict({"format": 1, "bound": 2})


def test_a_risk_that_is_not_finite_is_refused_and_changes_nothing() -> None:
    watch = Watch(CERTIFICATE, reference=RISKS)
    watch.update_many(RISKS[:10])
    before = watch.to_dict()
    with pytest.raises(DomainDataError, match="domain 12 is nan"):
        watch.update_many([0.5, math.nan])
    for several in ([], [0.5, 0.6]):
        with pytest.raises(DomainDataError, match="the risk of one domain, got"):
            watch.update(several)  # type: ignore[arg-type]
    assert watch.to_dict() == before


@pytest.mark.parametrize(("misses", "domains"), [(0, 30), (3, 30), (30, 30), (12, 400)])
def test_limits_of_the_miss_rate_are_where_the_mixture_reaches_its_limit(
    misses: int, domains: int
) -> None:
    low, high = miss_rate_interval(misses, domains, 0.1, 0.05)
    grid = np.linspace(1e-6, 1 - 1e-6, 20_001)
    mixture = special.betaln(1 + misses, 9 + domains - misses) - special.betaln(1, 9)
    inside = grid[
        mixture - stats.binom.logpmf(misses, domains, grid) + np.log(special.comb(domains, misses))
        < math.log(20)
    ]
    assert low == pytest.approx(inside[0], abs=1e-4)
    assert high == pytest.approx(inside[-1], abs=1e-4)


def test_a_drift_below_the_bound_is_seen_by_the_test_of_the_distribution_only() -> None:
    rng = np.random.default_rng(4)
    watch = Watch(CERTIFICATE, reference=RISKS)
    watch.update_many(rng.random(150))
    assert watch.report.drift_alarm is None
    watch.update_many(0.4 * rng.random(150))
    assert watch.report.verdict == "still holds"
    assert 150 < (watch.report.drift_alarm or 0) <= 300


def test_p_values_are_ranks_among_the_risks_before() -> None:
    rng = np.random.default_rng(5)
    reference, new = rng.normal(size=100), rng.normal(size=60)
    drift = RiskDrift(reference)
    edges = np.unique(np.quantile(reference[:50], np.linspace(0, 1, 20)))
    seen = np.searchsorted(edges, reference[50:]).tolist()
    uniform = rng.random(60)
    bins = np.searchsorted(edges, new)
    found = drift._p_values(0, bins, uniform)
    for place, u, p in zip(bins.tolist(), uniform, found, strict=True):
        seen.append(place)
        higher, equal = sum(s > place for s in seen), seen.count(place)
        assert p == pytest.approx((higher + u * equal) / len(seen))


def test_false_alarms_are_rare() -> None:
    """In 2,000 worlds of 10,000 domains, also dependent ones: python -m studies domains-in-time."""
    assert alarms.independent_alarms(100, 1000, seed=6).rang <= 0.05
    assert alarms.drift_alarms(60, 300, seed=6).rang <= 0.15


@pytest.mark.full
@pytest.mark.parametrize("k", [0, 5])
def test_a_million_domains_take_seconds_and_constant_memory(k: int) -> None:
    watch, rng = Watch(CERTIFICATE, dependence=k, reference=RISKS), np.random.default_rng(7)
    start, used = time.process_time(), []
    tracemalloc.start()
    for _ in range(100):
        watch.update_many(rng.random(10_000))
        used.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert time.process_time() - start <= 10
    assert watch.domains == 1_000_000
    assert max(used) < 1_000_000
    assert max(used[50:]) < max(used[:50]) + 10_000
    assert len(json.dumps(watch.to_dict())) < 8000
