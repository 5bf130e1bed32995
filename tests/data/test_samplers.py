"""Batches of d domains × k examples."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch.utils.data import DataLoader, TensorDataset

from eqrm.data import DomainBatches, DomainData
from eqrm.errors import SettingError

SIZES = [7, 1, 12, 5, 30, 2, 9]


def domains_of_sizes(sizes: list[int]) -> torch.Tensor:
    """Domain e has sizes[e] examples; rows of one domain do not lie together."""
    ids = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    return ids[torch.randperm(len(ids), generator=torch.Generator().manual_seed(0))]


IDS = domains_of_sizes(SIZES)

WAYS: list[dict[str, Any]] = [
    {"domains_per_batch": 3, "examples_per_domain": 4},
    {"domains_per_batch": 3, "examples_per_domain": None},
    {"domains_per_batch": None, "examples_per_domain": 2},
    {"domains_per_batch": None, "examples_per_domain": None},
    {"domains_per_batch": 5, "examples_per_domain": 3, "over": "examples"},
    {"domains_per_batch": 9, "examples_per_domain": 3, "repeat_domains": True},
    {"domains_per_batch": 4, "examples_per_domain": 8, "repeat_examples": True},
    {
        "domains_per_batch": 9,
        "examples_per_domain": 40,
        "repeat_domains": True,
        "repeat_examples": True,
        "over": "examples",
    },
]
ways = pytest.mark.parametrize("way", WAYS, ids=str)


def stream(way: dict[str, Any], steps: int, **more: Any) -> list[list[int]]:
    return list(DomainBatches(IDS, **way, **more, steps=steps))


@ways
def test_the_same_seed_gives_the_same_batches_and_another_does_not(way: dict[str, Any]) -> None:
    assert stream(way, 20, seed=3) == stream(way, 20, seed=3)
    whole = way["domains_per_batch"] is None and way["examples_per_domain"] is None
    assert (stream(way, 20, seed=3) == stream(way, 20, seed=4)) == whole


@ways
@pytest.mark.parametrize("stop", [0, 13])
def test_a_resumed_stream_is_the_same_stream(way: dict[str, Any], stop: int) -> None:
    batches = DomainBatches(IDS, **way, seed=1)
    for _ in range(stop):
        next(batches)
    state = batches.state_dict()
    expected = [next(batches).tolist() for _ in range(40)]
    again = DomainBatches(IDS, **way, seed=1)
    for _ in range(5):
        next(again)  # whatever it did before does not matter
    again.load_state_dict(state)
    assert [next(again).tolist() for _ in range(40)] == expected


@ways
@pytest.mark.parametrize("across", ["domains", "examples"])
@pytest.mark.parametrize("world_size", [2, 3])
def test_the_parts_of_all_processes_are_the_batch_of_one(
    way: dict[str, Any], across: str, world_size: int
) -> None:
    alone = stream(way, 25)
    parts = [
        stream(way, 25, rank=rank, world_size=world_size, across=across)
        for rank in range(world_size)
    ]
    for step, batch in enumerate(alone):
        together = Counter(row for part in parts for row in part[step])
        assert together == Counter(batch)
    if across == "domains" and not way.get("repeat_domains"):
        for step in range(25):
            seen = [set(IDS[part[step]].tolist()) for part in parts]
            assert sum(map(len, seen)) == len(set().union(*seen))


def test_whole_domains_are_whole() -> None:
    for rows in DomainBatches(IDS, 2, steps=30):
        chosen = set(IDS[rows].tolist())
        assert sorted(rows) == [row for row, domain in enumerate(IDS.tolist()) if domain in chosen]


def test_visits_go_through_all_examples_before_any_comes_again() -> None:
    batches = DomainBatches(torch.zeros(12, dtype=torch.long), None, 4, seed=0)
    rounds = [[*chain.from_iterable(batches)] for _ in range(50)]
    for drawn in rounds:
        assert sorted(drawn) == list(range(12))
    assert len({tuple(drawn) for drawn in rounds}) == 50


def chi_square_accepts(counts: np.ndarray, expected: np.ndarray) -> bool:
    """At a level of 1e-4, so that a fixed seed rarely lies outside by chance."""
    return bool(stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-4)


@pytest.mark.unmeasured
@pytest.mark.parametrize("number", [1, 2, 60])
def test_domains_are_drawn_uniformly(number: int) -> None:
    m = 100
    batches = DomainBatches(torch.arange(m), number, 1, seed=4, steps=2000)
    counts = np.bincount([*chain.from_iterable(batches)], minlength=m)
    if number == 1:
        assert chi_square_accepts(counts, np.ones(m))
    assert counts.sum() == 2000 * number
    # Without repetition the spread is that of draws from a finite population.
    share = number / m
    assert np.var(counts) == pytest.approx(2000 * share * (1 - share), rel=0.6)


@pytest.mark.unmeasured
def test_the_second_domain_is_drawn_in_proportion_to_what_is_left() -> None:
    sizes = np.array([6, 3, 1])
    batches = DomainBatches(domains_of_sizes(sizes.tolist()), 2, 1, over="examples")
    ids = domains_of_sizes(sizes.tolist())
    pairs = Counter(tuple(ids[next(batches)].tolist()) for _ in range(3000))
    order = [(a, b) for a in range(3) for b in range(3) if a != b]
    expected = np.array([sizes[a] / 10 * sizes[b] / (10 - sizes[a]) for a, b in order])
    assert chi_square_accepts(np.array([pairs[pair] for pair in order]), expected)


def test_examples_drawn_with_replacement_are_uniform() -> None:
    one = torch.zeros(10, dtype=torch.long)
    batches = DomainBatches(one, None, 5, repeat_examples=True, steps=2000)
    counts = np.bincount([*chain.from_iterable(batches)])
    assert chi_square_accepts(counts, np.ones(10))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"domains_per_batch": 8}, "domains_per_batch is 8, but the data has 7 domains"),
        ({"examples_per_domain": 31}, "largest domain has 30 examples"),
        ({"domains_per_batch": 0}, "from 1 to 1,000,000,000, got 0"),
        ({"over": "domain"}, "Did you mean 'domains'"),
        ({"repeat_domains": True}, "needs domains_per_batch"),
        ({"repeat_examples": True}, "needs examples_per_domain"),
        ({"rank": 2, "world_size": 2}, "rank must be from 0 to 1"),
        ({"domains_per_batch": 2, "world_size": 3}, "cannot be shared by 3 processes"),
        (
            {"domains_per_batch": 1, "world_size": 2, "across": "examples"},
            "may hold only 1 example, too few for 2",
        ),
    ],
)
def test_batches_that_cannot_be_are_refused_in_words(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        DomainBatches(IDS, **settings)


def test_a_state_of_other_data_or_another_seed_is_refused() -> None:
    state = DomainBatches(IDS, 2, 2, seed=1).state_dict()
    with pytest.raises(SettingError, match=r"saved with {'seed': 1.*here it is {'seed': 2"):
        DomainBatches(IDS, 2, 2, seed=2).load_state_dict(state)
    with pytest.raises(SettingError, match=r"'examples': 66.*'examples': 65"):
        DomainBatches(IDS[IDS != 1] * 0, None, 2, seed=1).load_state_dict(state)


def test_an_epoch_is_as_many_steps_as_show_as_many_examples_as_there_are() -> None:
    data = DomainData.from_arrays(np.zeros(40), np.zeros(40), np.arange(40) % 4)
    assert DomainBatches(data, 2, 5).steps_per_epoch == 4
    assert DomainBatches(data).steps_per_epoch == 1
    assert (len(DomainBatches(data, 2, 5)), len(DomainBatches(data, 2, 5, steps=7))) == (4, 7)


@pytest.mark.parametrize("workers", [0, 2])
def test_epochs_of_a_data_loader_end_and_continue_the_stream(workers: int) -> None:
    batches = DomainBatches(IDS, **WAYS[0], seed=5)
    data = TensorDataset(torch.arange(len(IDS)))
    loader = DataLoader(data, batch_sampler=batches, num_workers=workers)
    epochs = [list(loader) for _ in range(3)]
    assert [len(epoch) for epoch in epochs] == [len(loader)] * 3 == [batches.steps_per_epoch] * 3
    endless = DomainBatches(IDS, **WAYS[0], seed=5)
    for (shown,) in (batch for epoch in epochs for batch in epoch):
        assert torch.equal(shown, next(endless))
