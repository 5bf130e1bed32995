"""However domains are given, they are numbered in sorted order."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eqrm import domain_risks
from eqrm.errors import DomainDataError

CASES = {
    "close together": [3, 1, 3, 2, 1, 7],
    "negative": [-5, 0, -5, 3],
    "far apart": [10**12, -(10**12), 5, 10**12],
    "the ends of int64": [2**63 - 1, -(2**63), 0],
    "one": [4],
    "strings": ["b", "a", "b", "ä"],
}
TYPES = (np.int8, np.uint8, np.int32, np.int64)


@pytest.mark.parametrize("domains", CASES.values(), ids=CASES)
def test_domains_are_numbered_as_numpy_sorts_them(domains: list[int | str]) -> None:
    names, inverse, counts = np.unique(domains, return_inverse=True, return_counts=True)
    losses = torch.arange(len(domains), dtype=torch.float64)
    given = [domains, np.array(domains)]
    if isinstance(domains[0], int):
        given.append(torch.tensor(domains))
    for each in given:
        risks = domain_risks(losses, each)
        assert list(risks.names) == names.tolist()
        assert risks.counts.tolist() == counts.tolist()
        assert risks.ids.tolist() == inverse.tolist()
        means = [losses.numpy()[inverse == e].mean() for e in range(len(names))]
        assert risks.values.tolist() == pytest.approx(means)


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_of_integer_will_do(kind: type) -> None:
    array = np.array([100, 3, 100, 127], dtype=kind)
    for domains in (array, torch.from_numpy(array)):
        risks = domain_risks(torch.arange(4.0), domains)
        assert risks.names == (3, 100, 127)
        assert risks.values.tolist() == [1.0, 1.0, 3.0]


def test_truth_values_are_two_domains() -> None:
    risks = domain_risks(torch.arange(3.0), torch.tensor([True, False, True]))
    assert risks.names == (False, True)


def test_many_domains_in_any_order_agree_with_a_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    domains = torch.randint(-500, 500, (3000,), generator=generator)
    losses = torch.rand(3000, generator=generator, dtype=torch.float64)
    risks = domain_risks(losses, domains)
    for name, value in zip(risks.names, risks.values, strict=True):
        assert value.item() == pytest.approx(losses[domains == name].mean().item(), rel=1e-12)


def test_a_mean_over_more_examples_than_float32_can_count_is_exact() -> None:
    size = 2**24 + 10
    risks = domain_risks(torch.full((size,), 0.1), torch.zeros(size, dtype=torch.int64))
    assert risks.counts.tolist() == [size]
    assert risks.values.item() == pytest.approx(0.1, rel=1e-6)


def test_nan_among_names_is_refused() -> None:
    with pytest.raises(DomainDataError, match="example 1 is missing"):
        domain_risks(torch.ones(2), ["Oslo", float("nan")])


@pytest.mark.parametrize(
    ("losses", "domains", "message"),
    [
        (torch.ones(3), "abc", "list, an array or a tensor"),
        (torch.ones(2), {1: 2, 3: 4}, "list, an array or a tensor"),
        (torch.ones(2), 5, "list, an array or a tensor"),
        (torch.ones(2), [1, "1"], "1 stands among strings"),
        (torch.ones(2), torch.tensor([1j, 2j]), "integers or strings"),
        (None, [1], "list of numbers, not NoneType"),
    ],
)
def test_what_cannot_name_domains_is_refused(losses: object, domains: object, message: str) -> None:
    with pytest.raises(DomainDataError, match=message):
        domain_risks(losses, domains)


def test_a_number_of_domains_that_is_no_number_is_refused() -> None:
    with pytest.raises(DomainDataError, match="whole number"):
        domain_risks(torch.ones(2), [0, 1], num_domains="2")
