"""Objectives say when batches are too small to measure risks in, and what to do."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from eqrm.data import DomainBatches
from eqrm.objectives import EQRM, ERM, GroupDRO, RiskMemory, RiskObjective, Superquantile, VREx
from eqrm.objectives.training_warnings import LOOKS, SmallBatchWarning

DOMAINS, ROWS = 100, 200
Rows = Iterable[Any]


def ids(domains: int = DOMAINS, rows: int = ROWS) -> Tensor:
    return torch.arange(domains).repeat_interleave(rows)


def shuffled(domains: Tensor, size: int, epochs: int = 3, seed: int = 0) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        yield from torch.randperm(len(domains), generator=generator).split(size)


def told(
    objective: RiskObjective,
    domains: Tensor,
    batches: Rows,
    num_domains: int | None = DOMAINS,
    steps: int = 3 * LOOKS,
) -> list[warnings.WarningMessage]:
    """The warnings of some steps; a row has the same loss whenever it comes."""
    weight, known = torch.ones((), requires_grad=True), torch.rand(len(domains))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for rows in islice(batches, steps):
            losses = weight * known[rows]
            objective(losses, domains[rows], num_domains).backward()
    return caught


MINIMISED: list[Callable[[], RiskObjective]] = [
    lambda: EQRM(0.9),
    lambda: Superquantile(0.75),
    lambda: VREx(),
    lambda: EQRM(0.9, memory=RiskMemory(DOMAINS)),
]


@pytest.mark.parametrize("minimised", MINIMISED)
@pytest.mark.parametrize("num_domains", [None, DOMAINS])
def test_an_ordinary_loader_of_many_domains_is_warned_of_once_with_the_remedy(
    minimised: Callable[[], RiskObjective], num_domains: int | None
) -> None:
    objective = minimised()
    (found,) = told(objective, ids(), shuffled(ids(), 128), num_domains)
    assert found.category is SmallBatchWarning
    assert found.filename == __file__
    message = str(found.message)
    assert "about 1.8 rows per domain" in message
    assert f"{type(objective).__name__} then trains a model to be unsure" in message
    assert "batch_sampler=eqrm.data.DomainBatches(domains, domains_per_batch=20" in message


@pytest.mark.parametrize(
    "objective",
    [
        ERM(),  # a mean is the same over any batches
        GroupDRO(),  # its weights average over batches, and it learns from these
        EQRM(0.9, memory=RiskMemory(DOMAINS, averaging=0.02)),
    ],
)
def test_objectives_that_learn_from_such_batches_do_not_warn(objective: RiskObjective) -> None:
    assert not told(objective, ids(), shuffled(ids(), 128))


def few_rows(domains: int, rows: int) -> Callable[[], tuple[Tensor, Rows]]:
    return lambda: (ids(), DomainBatches(ids(), domains, rows, steps=50))


def whole_data_of_small_domains() -> tuple[Tensor, Rows]:
    domains = ids(50, 3)
    return domains, shuffled(domains, len(domains), epochs=50)


def three_domains_as_in_domainbed() -> tuple[Tensor, Rows]:
    domains = ids(3, 500)
    return domains, DomainBatches(domains, None, 32, steps=50)


@pytest.mark.parametrize(
    "used",
    [
        few_rows(20, 50),
        few_rows(5, 16),
        whole_data_of_small_domains,
        three_domains_as_in_domainbed,
    ],
)
@pytest.mark.parametrize("num_domains", [None, DOMAINS])
def test_good_batches_are_not_warned_of(
    used: Callable[[], tuple[Tensor, Rows]], num_domains: int | None
) -> None:
    assert not told(EQRM(0.9), *used(), num_domains)


@pytest.mark.parametrize("num_domains", [None, DOMAINS])
def test_a_few_fresh_rows_of_every_domain_are_warned_of(num_domains: int | None) -> None:
    """They are as many in every batch, as whole data are, but their risks are noise."""
    batches = DomainBatches(ids(), examples_per_domain=4, steps=50)
    (found,) = told(EQRM(0.9), ids(), batches, num_domains)
    assert "about 4 rows per domain" in str(found.message)
    differ = torch.arange(DOMAINS).repeat_interleave(ROWS).double()
    weight, objective = torch.ones((), requires_grad=True), EQRM(0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in batches:  # where domains differ by far more than rows, it is no noise
            losses = weight * (differ[rows] + torch.rand(len(rows)))
            objective(losses, ids()[rows], num_domains).backward()


@pytest.mark.parametrize("num_domains", [None, DOMAINS])
@pytest.mark.parametrize("number", [1, 3])
def test_few_of_many_domains_are_warned_of_without_a_memory(
    number: int, num_domains: int | None
) -> None:
    domains, batches = few_rows(number, 50)()
    (found,) = told(EQRM(0.9), domains, batches, num_domains)
    assert f"hold about {number} of at least" in str(found.message)
    assert "memory=eqrm.RiskMemory(num_domains)" in str(found.message)
    assert not told(EQRM(0.9, memory=RiskMemory(DOMAINS)), domains, batches, num_domains)


# A world in which an ordinary loader destroys the model: the slope of one feature is reversed in
# 15% of domains, and the .9-quantile of the risk is that of a domain in which it is.


class Table(TensorDataset):
    """Rows that are fetched together."""

    def __getitems__(self, rows: list[int]) -> tuple[Tensor, ...]:
        return tuple(each[rows] for each in self.tensors)


def loader(data: Table, **batches: Any) -> DataLoader[Any]:
    return DataLoader(data, collate_fn=lambda rows: rows, **batches)


def world(domains: int, seed: int) -> Table:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(domains, ROWS, 5, generator=generator)
    sign = torch.where(torch.arange(domains) % 20 < 3, -1.0, 1.0)
    chance = (x[..., 0] + sign[:, None] * x[..., 1]).sigmoid()
    y = (torch.rand(domains, ROWS, generator=generator) < chance).float()
    return Table(x.flatten(0, 1), y.flatten(), ids(domains))


def losses_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    logits = model(x).squeeze(1)
    return nn.functional.binary_cross_entropy_with_logits(logits, y, reduction="none")


def trained(objective: RiskObjective, batches: DataLoader[Any], epochs: int) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(batches))
    for _ in range(epochs):
        for x, y, domains in batches:
            optimizer.zero_grad()
            objective(losses_of(model, x, y), domains, DOMAINS).backward()
            optimizer.step()
            schedule.step()
    return model


@torch.no_grad()
def quantile_on_new_domains(model: nn.Module) -> float:
    x, y, _ = world(1000, seed=1).tensors
    return float(losses_of(model, x, y).reshape(1000, ROWS).mean(1).quantile(0.9))


@pytest.mark.full
def test_a_shuffled_loader_ends_as_a_coin_with_a_warning_and_domain_batches_lift_it() -> None:
    data = world(DOMAINS, seed=0)
    whole = loader(data, batch_sampler=DomainBatches(ids(), steps=10))
    reference = quantile_on_new_domains(trained(EQRM(0.9), whole, epochs=10))
    torch.manual_seed(0)
    ordinary = loader(data, batch_size=128, shuffle=True)
    with pytest.warns(SmallBatchWarning, match=r"1\.8 rows per domain"):
        coin = quantile_on_new_domains(trained(EQRM(0.9), ordinary, epochs=3))
    batches = DomainBatches(ids(), domains_per_batch=20, examples_per_domain=50, steps=100)
    remedy = loader(data, batch_sampler=batches)
    lifted = quantile_on_new_domains(trained(EQRM(0.9), remedy, epochs=3))
    numbers = f"whole domains {reference:.4f}, shuffled {coin:.4f}, 20 x 50 {lifted:.4f}"
    print(numbers)
    assert coin == pytest.approx(0.6931, abs=0.002), numbers  # log 2
    assert 0.6 < reference < 0.66, numbers
    assert lifted < 1.03 * reference, numbers
