"""Certificates for members of groups: against plain searches, and what they refuse."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from eqrm.errors import DomainDataError, TooFewDomainsError
from eqrm.evaluation import outer_domains_needed, quantile_bound
from eqrm.evaluation.inference.nested.bounds import known_group_bound, nested_bound
from eqrm.evaluation.inference.nested.members import NestedRisks, effective_number


def drawn(groups: int, seed: int = 0, most: int = 6) -> NestedRisks:
    """Risks of up to ``most`` members per group."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(groups), rng.integers(1, most + 1, groups))
    return NestedRisks.of(rng.normal(size=groups)[ids] + rng.normal(size=ids.size), ids)


def e_value(below: int, groups: int, alpha: float) -> float:
    """Of one draw with ``below`` members up to the bound: stakes of 1/α, half of it, …"""
    stakes = [2.0**-i / alpha for i in range(8)]
    weights = [2.0 ** -(i + 1) for i in range(7)] + [2.0**-7]
    return sum(
        w * (1 + s * (1 - alpha)) ** below * (1 - s * alpha) ** (groups - below)
        for w, s in zip(weights, stakes, strict=True)
    )


def test_the_repeated_bound_is_the_smallest_risk_with_enough_evidence_over_all_draws() -> None:
    nested = drawn(7, seed=3, most=3)
    members = [nested.of_group(name) for name in nested.names]
    alpha, confidence = 0.5, 0.9
    found = nested_bound(nested, alpha, confidence, sampling="repeated")
    for bound in np.sort(nested.risks):
        draws = itertools.product(*members)
        mean = np.mean([e_value((np.array(d) <= bound).sum(), 7, alpha) for d in draws])
        if mean >= 1 / (1 - confidence):
            break
    assert found.bound == bound
    assert found.rank == (nested.risks <= bound).sum()


def test_one_draw_is_the_plain_certificate_of_one_member_per_group() -> None:
    nested = drawn(60)
    found = nested_bound(nested, sampling="once", seed=4)
    chosen = nested.drawn_members(4)
    assert nested.ids[chosen].tolist() == list(range(60))
    assert found.bound == quantile_bound(nested.risks[chosen]).bound
    assert (found.groups, found.members, found.domains) == (60, len(nested.risks), 60)


def test_members_are_drawn_with_equal_probability() -> None:
    nested = NestedRisks.of(np.arange(5.0), ["b", "a", "b", "b", "a"])
    picked = np.array([nested.drawn_members(seed) for seed in range(3000)])
    for group, members in enumerate([(1, 4), (0, 2, 3)]):
        shares = [(picked[:, group] == member).mean() for member in members]
        assert shares == pytest.approx([1 / len(members)] * len(members), abs=0.04)


@pytest.mark.parametrize("sampling", ["once", "repeated"])
@pytest.mark.parametrize(("alpha", "confidence"), [(0.9, 0.95), (0.5, 0.9), (0.99, 0.95)])
def test_the_number_needed_is_enough_and_one_fewer_is_refused(
    sampling: str, alpha: float, confidence: float
) -> None:
    needed = outer_domains_needed(alpha, confidence, sampling)
    enough, fewer = (
        NestedRisks.of(np.arange(3.0 * number), np.repeat(np.arange(number), 3))
        for number in (needed, needed - 1)
    )
    assert nested_bound(enough, alpha, confidence, sampling=sampling).bound <= enough.risks[-1]
    with pytest.raises(TooFewDomainsError, match=rf"at least {needed} are needed") as refusal:
        nested_bound(fewer, alpha, confidence, sampling=sampling)
    assert (refusal.value.domains, refusal.value.needed) == (needed - 1, needed)
    reach = float(str(refusal.value).rsplit(" ", 1)[1].rstrip("."))
    nested_bound(fewer, reach, confidence, sampling=sampling)


def test_a_known_group_rests_on_its_own_members() -> None:
    risks = np.random.default_rng(0).normal(size=68)
    nested = NestedRisks.of(risks, ["Oslo"] * 40 + ["Rome"] * 28)
    found = known_group_bound(nested, "Oslo", labels=("hospital", "ward"))
    assert found.bound == quantile_bound(risks[:40]).bound
    assert "new members (ward) of similar size in the group 'Oslo'" in found.sentence
    assert found.domains == 40
    with pytest.raises(TooFewDomainsError, match="28 members of the group 'Rome' are too few"):
        known_group_bound(nested, "Rome")
    with pytest.raises(DomainDataError, match=r"Unknown group 'Oslow'. Did you mean 'Oslo'"):
        known_group_bound(nested, "Oslow")


def test_members_count_as_between_groups_and_all_of_them() -> None:
    rng = np.random.default_rng(1)
    ids = np.repeat(np.arange(50), 8)
    numbers = [
        effective_number(NestedRisks.of(a * rng.normal(size=50)[ids] + b * noise, ids), 0.9)
        for a, b in ((1, 0), (1, 1), (0, 1))
        for noise in [rng.normal(size=400)]
    ]
    assert numbers[0] == 50
    assert 50 < numbers[1] < numbers[2] <= 400


def test_the_pooled_form_is_labelled_approximate_and_needs_members_that_count() -> None:
    found = nested_bound(drawn(60), sampling="pooled")
    assert found.sentence.startswith("Approximate")
    assert found.to_dict()["approximate"] is True
    assert not nested_bound(drawn(60)).approximate
    with pytest.raises(TooFewDomainsError, match=r"22 groups are too few .* at least 29 are"):
        nested_bound(drawn(22, most=1), sampling="pooled")


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (np.zeros(60), "All domains are in one group"),
        (np.zeros(3), "groups must hold one domain per row"),
    ],
)
def test_groups_that_are_none_are_refused(groups: np.ndarray, words: str) -> None:
    with pytest.raises(DomainDataError, match=words):
        NestedRisks.of(np.arange(60.0), groups)
