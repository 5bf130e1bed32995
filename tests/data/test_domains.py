"""The contract of every dataset."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from eqrm.data import DomainData
from eqrm.errors import DomainDataError, SettingError


def three_domains(examples: int = 30) -> DomainData:
    """Row i belongs to domain i % 3, and its input and target say which row it is."""
    rows = torch.arange(examples)
    return DomainData(rows[:, None].float(), rows, rows % 3, ("a", "b", "c"))


class Squares:
    """Inputs that are no tensor, and remember which rows were asked for."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.asked: list[int] = []

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, rows: Tensor) -> Tensor:
        self.asked += rows.tolist()
        return rows.float() ** 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": torch.zeros(4)}, "x 5, y 4, domains 5"),
        ({"y": [0] * 5}, "from_arrays"),
        ({"domains": torch.zeros(5)}, "torch.long"),
        ({"domains": torch.tensor([0, 1, 2, 0, 0])}, "from 0 to 1 for 2 names, got 2"),
        ({"domains": torch.tensor([0, -1, 1, 0, 0])}, "got -1"),
        ({"domains": torch.zeros(5, dtype=torch.long)}, "domain 'b' has no example"),
        ({"names": ("a", "a")}, "'a' is listed twice"),
    ],
)
def test_wrong_data_is_refused_in_words(change: dict[str, Any], words: str) -> None:
    right = {
        "x": torch.zeros(5, 2),
        "y": torch.zeros(5),
        "domains": torch.tensor([0, 0, 1, 1, 0]),
        "names": ("a", "b"),
    }
    with pytest.raises(DomainDataError, match=words):
        DomainData(**{**right, **change})


def test_selected_domains_are_whole_and_keep_their_rows_together() -> None:
    part = three_domains().select(["c", "a"])
    assert part.names == ("c", "a")
    for number, remainder in enumerate((2, 0)):
        rows = part.y[part.domains == number]
        assert rows.tolist() == list(range(remainder, 30, 3))
    assert torch.equal(part.x[:, 0].long(), part.y)


def test_inputs_that_are_no_tensor_are_read_row_by_row_through_two_selections() -> None:
    inputs = Squares(30)
    data = three_domains()
    lazy = DomainData(inputs, data.y, data.domains, data.names)
    part = lazy.select(["b", "c"]).select(["c"])
    assert inputs.asked == []
    drawn = part.rows(torch.tensor([1, 0]))
    assert drawn.y.tolist() == [5, 2]
    assert drawn.x.tolist() == [25.0, 4.0]
    assert inputs.asked == [5, 2]


def test_a_domain_named_twice_or_unknown_is_refused() -> None:
    data = three_domains()
    with pytest.raises(SettingError, match="'b' is listed twice"):
        data.select(["b", "b"])
    with pytest.raises(SettingError, match=r"Unknown domain 'B'\. Did you mean 'b'"):
        data.select(["B"])
    with pytest.raises(SettingError, match="0 to 2, got 3"):
        data.select([3])


def test_splits_keep_whole_domains_apart_and_lose_none() -> None:
    names = [f"d{i}" for i in range(20)]
    ids = torch.arange(200) % 20
    data = DomainData(ids.float(), ids, ids, tuple(names))
    parts = data.splits(test=0.25, validation=["d3", "d4"], seed=5)
    assert parts.test is not None
    assert parts.validation is not None
    assert [len(part.names) for part in parts if part] == [13, 2, 5]
    assert sorted(name for part in parts if part for name in part.names) == sorted(names)
    for part in parts:
        assert part is not None
        assert all(f"d{int(row.y)}" == part.names[int(row.domains)] for row in _each(part))


def _each(data: DomainData) -> list[Any]:
    return [data.rows(torch.tensor([i])) for i in range(len(data))]


def test_holding_out_everything_is_refused() -> None:
    with pytest.raises(SettingError, match="No domain is left to train on"):
        three_domains().splits(test=["a", "b", "c"])
    with pytest.raises(SettingError, match=r"from 0 to below 1, got 1\.5"):
        three_domains().splits(test=1.5)


def test_examples_held_out_are_a_share_of_each_domain_and_random() -> None:
    domains = np.repeat(np.arange(3), [10, 25, 3])
    data = DomainData.from_arrays(np.arange(38.0), np.arange(38), domains)
    rest, held_out = data.split_examples(0.2, seed=1)
    assert rest.counts.tolist() == [8, 20, 3]
    assert held_out.counts.tolist() == [2, 5]
    assert held_out.names == ("0", "1")
    assert sorted(rest.y.tolist() + held_out.y.tolist()) == list(range(38))
    _, other = data.split_examples(0.2, seed=2)
    assert other.y.tolist() != held_out.y.tolist()


def test_arrays_keep_the_names_of_their_domains() -> None:
    data = DomainData.from_arrays(np.zeros((3, 2)), np.array([0.5, 1, 2]), np.array([70, 7, 70]))
    assert data.names == ("7", "70")
    assert data.x.dtype == data.y.dtype == torch.float32
    assert data.select([70]).names == ("70",)


def test_the_name_of_a_part_stands_for_its_domains() -> None:
    ids = torch.arange(8) % 4
    data = DomainData(
        ids, ids, ids, ("a", "b", "c", "d"), parts={"train": ("a", "b"), "test": ("c", "d")}
    )
    splits = data.splits(test=["test"], validation=["b"])
    assert splits.test is not None
    assert splits.test.names == ("c", "d")
    assert splits.test.parts == {"test": ("c", "d")}
    assert splits.train.names == ("a",)
    assert splits.train.parts == {"train": ("a",)}
    with pytest.raises(SettingError, match="'c' is listed twice"):
        data.select(["test", "c"])
    with pytest.raises(SettingError, match="'b' is in train and in validation"):
        data.splits(train=["train"], validation=["b"], test=["test"])
    with pytest.raises(SettingError, match="Did you mean 'test'"):
        data.splits(test=["tset"])


def test_arrays_that_must_not_be_written_to_are_copied() -> None:
    x, y = np.ones((3, 2), np.float32), np.array([0, 1, 1])
    for array in (x, y):
        array.setflags(write=False)
    data = DomainData.from_arrays(x, y, ["a", "b", "b"])  # warnings are errors here
    data.x[0, 0], data.y[0] = 5.0, 7
    assert (x[0, 0], y[0]) == (1.0, 0)
