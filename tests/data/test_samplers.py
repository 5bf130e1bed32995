"""Batches of d domains × k examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from torch.utils.data import DataLoader, Dataset, TensorDataset

from eqrm.data import DomainBatches, DomainData
from eqrm.errors import DomainDataError, SettingError

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
@pytest.mark.parametrize("stop", [0, 1, 13])
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


def test_a_batch_holds_different_domains_and_different_examples() -> None:
    for rows in DomainBatches(IDS, 4, 3, seed=2, steps=200):
        domains = Counter(IDS[rows].tolist())
        assert len(domains) == 4
        assert all(count == min(3, SIZES[domain]) for domain, count in domains.items())
        assert len(set(rows)) == len(rows)


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
def test_pairs_of_domains_are_drawn_uniformly() -> None:
    pairs = Counter(map(tuple, DomainBatches(torch.arange(9), 2, steps=6000)))
    counts = np.array([pairs[(a, b)] for a in range(9) for b in range(9) if a != b])
    assert chi_square_accepts(counts, np.ones(len(counts)))


@pytest.mark.unmeasured
def test_domains_are_drawn_in_proportion_to_their_examples() -> None:
    for repeat in (False, True):
        batches = DomainBatches(IDS, 1, 1, over="examples", repeat_domains=repeat)
        counts = np.bincount([int(IDS[next(batches)]) for _ in range(2000)], minlength=len(SIZES))
        assert chi_square_accepts(counts, np.array(SIZES))


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


@pytest.mark.unmeasured
def test_every_order_of_examples_is_equally_likely() -> None:
    ids = torch.zeros(3, dtype=torch.long)
    orders = Counter()
    for seed in range(20):
        batches = DomainBatches(ids, None, 1, seed=seed)
        drawn = [int(next(batches)) for _ in range(300)]
        orders.update(tuple(drawn[i : i + 3]) for i in range(0, 300, 3))
    assert chi_square_accepts(np.array(list(orders.values())), np.ones(6))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"domains_per_batch": 8}, "domains_per_batch is 8, but the data has 7 domains"),
        ({"examples_per_domain": 31}, "largest domain has 30 examples"),
        ({"domains_per_batch": 0}, "from 1 to 1,000,000,000, got 0"),
        ({"domains_per_batch": 2.5}, "an integer from 1 to 1,000,000,000, got 2.5"),
        ({"examples_per_domain": True}, "an integer"),
        ({"seed": -1}, "seed must be None or an integer from 0"),
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


@pytest.mark.parametrize(
    ("domains", "words"),
    [
        (7, "must be a list, an array or a column"),
        (torch.zeros(0, dtype=torch.long), "At least one example to draw from"),
    ],
)
def test_what_names_no_domains_is_refused(domains: Any, words: str) -> None:
    with pytest.raises(DomainDataError, match=words):
        DomainBatches(domains)


def test_a_state_of_other_data_or_another_seed_is_refused() -> None:
    state = DomainBatches(IDS, 2, 2, seed=1).state_dict()
    with pytest.raises(SettingError, match=r"saved with {'seed': 1.*here it is {'seed': 2"):
        DomainBatches(IDS, 2, 2, seed=2).load_state_dict(state)
    with pytest.raises(SettingError, match=r"'examples': 66.*'examples': 65"):
        DomainBatches(IDS[IDS != 1] * 0, None, 2, seed=1).load_state_dict(state)
    with pytest.raises(SettingError, match="hold examples, seed, step, visits"):
        DomainBatches(IDS, 2, 2, seed=1).load_state_dict({"step": 3})


def test_an_epoch_is_as_many_steps_as_show_as_many_examples_as_there_are() -> None:
    data = DomainData.from_arrays(np.zeros(40), np.zeros(40), np.arange(40) % 4)
    assert DomainBatches(data, 2, 5).steps_per_epoch == 4
    assert DomainBatches(data).steps_per_epoch == 1
    assert (len(DomainBatches(data, 2, 5)), len(DomainBatches(data, 2, 5, steps=7))) == (4, 7)


def test_names_of_domains_are_as_good_as_their_numbers() -> None:
    names = ["Oslo", "Rome", "Oslo", "Bern", "Rome"]
    numbers = torch.tensor([1, 2, 1, 0, 2])
    for given in (names, np.array(names), pd.Series(names, dtype="category")):
        assert list(DomainBatches(given, 2, 1, seed=3)) == list(
            DomainBatches(numbers, 2, 1, seed=3)
        )


class Sentences(Dataset[str]):
    """A dataset of texts, which takes integers and nothing else."""

    texts: Mapping[int, str] = {row: f"row {row}" for row in range(len(IDS))}

    def __getitem__(self, row: int) -> str:
        return self.texts[row]

    def __len__(self) -> int:
        return len(self.texts)


@pytest.mark.parametrize(("way", "workers"), [*((way, 0) for way in WAYS), (WAYS[0], 2)], ids=str)
def test_epochs_of_a_data_loader_end_and_continue_the_stream(
    way: dict[str, Any], workers: int
) -> None:
    batches = DomainBatches(IDS, **way, seed=5)
    loader = DataLoader(Sentences(), batch_sampler=batches, num_workers=workers)
    epochs = [list(loader) for _ in range(3)]
    assert [len(epoch) for epoch in epochs] == [len(loader)] * 3 == [batches.steps_per_epoch] * 3
    endless = DomainBatches(IDS, **way, seed=5)
    for shown in (batch for epoch in epochs for batch in epoch):
        assert shown == [f"row {row}" for row in next(endless).tolist()]


def test_a_loop_that_counts_steps_by_the_length_of_its_loader_ends_with_its_schedule() -> None:
    """As Hugging Face's examples do: the schedule is made for epochs × len(loader) steps."""
    data = TensorDataset(torch.arange(40.0), torch.arange(40) % 4)
    loader = DataLoader(data, batch_sampler=DomainBatches(torch.arange(40) % 4, 2, 5, steps=6))
    weight = torch.ones((), requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=3 * len(loader))
    for _ in range(3):
        for x, domains in loader:
            assert (len(x), len(domains.unique())) == (10, 2)
            optimizer.zero_grad()
            (weight * x.mean()).backward()
            optimizer.step()
            schedule.step()
    assert schedule.get_last_lr() == [0.0]


def test_the_epochs_of_two_processes_are_those_of_one() -> None:
    way: dict[str, Any] = {"domains_per_batch": 4, "examples_per_domain": 3, "seed": 2, "steps": 5}
    alone = DomainBatches(IDS, **way)
    ranks = [DomainBatches(IDS, **way, rank=rank, world_size=2) for rank in range(2)]
    for _ in range(2):
        for whole, *parts in zip(alone, *ranks, strict=True):
            assert sorted(whole) == sorted(parts[0] + parts[1])


def test_the_state_is_small_and_holds_tensors_and_integers_only() -> None:
    state = DomainBatches(torch.arange(45000), 1000, 1).state_dict()
    for value in state.values():
        assert isinstance(value, (int, torch.Tensor))
    assert state["visits"].numel() == 45000
