"""The contract of every dataset: inputs, targets and the domain of each example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from eqrm.checks import OPEN_FRACTION
from eqrm.data.splits import HeldOutInTime, TimeSplit, parts_of_domains, split_in_time
from eqrm.domains import NumberedDomains, number_domains
from eqrm.errors import DomainDataError, SettingError
from eqrm.text import counted, did_you_mean


@dataclass(frozen=True, eq=False)
class InputsAt:
    """Some rows of inputs that are not a tensor, without copying them."""

    inputs: Any
    positions: Tensor

    @staticmethod
    def of(inputs: Any, rows: Tensor) -> InputsAt:
        """The rows of ``inputs``, which may be a part of others already."""
        if isinstance(inputs, InputsAt):
            return InputsAt(inputs.inputs, inputs.positions[rows])
        return InputsAt(inputs, rows)

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, rows: Tensor) -> Any:
        return self.inputs[self.positions[rows.cpu()]]

    def to(self, device: torch.device | str) -> InputsAt:
        """Move the inputs if they can be moved."""
        if not hasattr(self.inputs, "to"):
            return self
        return InputsAt(self.inputs.to(device), self.positions)


class Rows(NamedTuple):
    """Some examples: inputs, targets (k, …) and domains (k,), on the data's device."""

    x: Any
    y: Tensor
    domains: Tensor


class Splits(NamedTuple):
    """Whole domains kept apart. A part that was not asked for is ``None``."""

    train: DomainData
    validation: DomainData | None
    test: DomainData | None


@dataclass(frozen=True, eq=False, repr=False)
class DomainData:
    """n examples from m named domains.

    Attributes:
        x: inputs, a tensor with first dimension n, or anything with a length and ``x[rows]`` for a
            tensor of row numbers: images that are read lazily, graphs. An optional ``to(device)``
            moves what can be moved once.
        y: targets, a tensor with first dimension n. NaN stands for a label that is missing.
        domains: (n,) integers from 0 to m − 1; every domain has an example.
        names: m different names, one per domain.
        target_names: names of the classes whose numbers y holds, or of its columns, or none.
        parts: names for sets of domains, such as the published ``"train"`` and ``"test"``.
        notes: messages about what was filled in or left out when the data was made.

    >>> DomainData(torch.zeros(3, 2), torch.ones(3), torch.tensor([0, 1, 1]), ("a", "b")).counts
    tensor([1, 2])
    """

    x: Any
    y: Tensor
    domains: Tensor
    names: tuple[str, ...]
    target_names: tuple[str, ...] = ()
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field_name in ("names", "target_names"):
            object.__setattr__(self, field_name, tuple(getattr(self, field_name)))
        _check_examples(self.x, self.y, self.domains)
        _check_domains(self.domains, self.names)
        # What is left of each part; a part of which nothing is left has no name any more.
        known = {*self.names}
        left = {part: tuple(n for n in names if n in known) for part, names in self.parts.items()}
        object.__setattr__(self, "parts", {part: kept for part, kept in left.items() if kept})

    @classmethod
    def from_arrays(cls, x: Any, y: Any, domains: Any, **rest: Any) -> DomainData:
        """From numpy arrays, lists or tensors; domains are named by any integers or strings.

        Numbers of x become float32 unless they are bytes (images) or integers, which stay.
        ``rest`` are the attributes ``target_names``, ``parts`` and ``notes``.
        """
        numbered = number_domains(domains)
        plain = isinstance(x, (Tensor, np.ndarray, list, tuple)) or hasattr(x, "__array__")
        is_lazy = not plain and hasattr(x, "__len__") and hasattr(x, "__getitem__")
        inputs = x if is_lazy else tensor_from(x, "x")
        names = tuple(str(name) for name in numbered.names)
        ids = torch.from_numpy(numbered.ids)
        return cls(inputs, tensor_from(y, "y"), ids, names, **rest)

    def __len__(self) -> int:
        return len(self.domains)

    def __repr__(self) -> str:
        return f"DomainData({counted(len(self), 'example')}, {counted(self.num_domains, 'domain')})"

    @property
    def num_domains(self) -> int:
        """m, the number of domains."""
        return len(self.names)

    @property
    def counts(self) -> Tensor:
        """(m,) the number of examples of each domain."""
        return torch.bincount(self.domains, minlength=self.num_domains)

    @property
    def device(self) -> torch.device:
        """Where targets and domains are, and where :meth:`rows` puts what it gives."""
        return self.y.device

    def rows(self, indices: Tensor | Sequence[int]) -> Rows:
        """The examples at these positions (k,), on the data's device."""
        indices = torch.as_tensor(indices)
        here = indices.to(self.device, non_blocking=True)
        if isinstance(self.x, Tensor):
            # index_select copies whole rows; x[here] takes up to twice as long.
            return Rows(*(each.index_select(0, here) for each in (self.x, self.y, self.domains)))
        inputs = self.x[indices]
        if hasattr(inputs, "to"):
            inputs = inputs.to(self.device)
        return Rows(inputs, self.y[here], self.domains[here])

    def to(self, device: torch.device | str) -> DomainData:
        """The same data with every tensor moved to a device, once."""
        x = self.x.to(device) if hasattr(self.x, "to") else self.x
        return replace(self, x=x, y=self.y.to(device), domains=self.domains.to(device))

    def ids(self, domains: Sequence[str | int]) -> list[int]:
        """The numbers of domains given by name, number or part; each may be given once."""
        if isinstance(domains, str):
            domains = [domains]
        place = {name: number for number, name in enumerate(self.names)}
        found = []
        for domain in domains:
            is_part = domain not in place and domain in self.parts
            named = self.parts[str(domain)] if is_part else [domain]
            found += [self._id(each, place) for each in named]
        if len(set(found)) < len(found):
            twice = next(number for number in found if found.count(number) > 1)
            raise SettingError(f"The domain {self.names[twice]!r} is listed twice. List it once.")
        return found

    def _id(self, domain: str | int, place: dict[str, int]) -> int:
        if isinstance(domain, str):
            if domain not in place:
                known = [*self.parts, *self.names]
                raise SettingError(f"Unknown domain {domain!r}. {did_you_mean(domain, known)}")
            return place[domain]
        if str(domain) in place:  # a domain that is called 7 is meant by 7
            return place[str(domain)]
        if isinstance(domain, bool) or not 0 <= domain < self.num_domains:
            raise SettingError(
                f"Domains are numbered from 0 to {self.num_domains - 1}, got {domain!r}."
            )
        return int(domain)

    def select(self, domains: Sequence[str | int]) -> DomainData:
        """These domains whole, given by name or number, renumbered in the order given."""
        wanted = self.ids(domains)
        if not wanted:
            raise SettingError("No domain was selected: name at least one.")
        new_number = torch.full((self.num_domains,), -1)
        new_number[torch.tensor(wanted)] = torch.arange(len(wanted))
        renumbered = new_number[self.domains.cpu()]
        rows = torch.nonzero(renumbered >= 0).reshape(-1)
        names = tuple(self.names[number] for number in wanted)
        return self._at(rows, renumbered[rows], names)

    def at(self, rows: Tensor) -> DomainData:
        """The examples at these positions as a dataset; domains left without any are dropped."""
        present, renumbered = torch.unique(self.domains.cpu()[rows.cpu()], return_inverse=True)
        return self._at(rows.cpu(), renumbered, tuple(self.names[i] for i in present.tolist()))

    def _at(self, rows: Tensor, domains: Tensor, names: tuple[str, ...]) -> DomainData:
        here = rows.to(self.device)
        x = self.x[here] if isinstance(self.x, Tensor) else InputsAt.of(self.x, rows)
        return replace(self, x=x, y=self.y[here], domains=domains.to(self.device), names=names)

    def in_time(
        self, order: Any = None, *, after: Any = None, last: float | None = None
    ) -> TimeSplit:
        """The past and later domains, for :meth:`splits`: see :func:`split_in_time`."""
        numbered = NumberedDomains(self.domains.cpu().numpy(), self.names)
        return split_in_time(numbered, order, after=after, last=last)

    def in_time_at(self, origins: HeldOutInTime) -> list[TimeSplit]:
        """The splits at several origins, for a sweep; times are the domains' names."""
        return origins.splits(NumberedDomains(self.domains.cpu().numpy(), self.names))

    def splits(
        self,
        test: Sequence[str | int] | float | TimeSplit = (),
        validation: Sequence[str | int] | float = (),
        train: Sequence[str | int] | None = None,
        seed: int = 0,
    ) -> Splits:
        """Keep whole domains apart for training, validation and test.

        ``test`` and ``validation`` are domains by name or number, or a share of the domains, drawn
        with ``seed``; ``test`` may also be what :meth:`in_time` gives, and all others are then
        earlier. ``train`` is the rest unless it is given.
        """
        if isinstance(test, TimeSplit):
            whole = self.select([*test.train, *test.test])
            return whole.splits(test.test, validation, train, seed)
        given: dict[str, list[int] | float | None]
        given = {"train": None if train is None else self.ids(train)}
        for name, part in (("validation", validation), ("test", test)):
            given[name] = float(part) if isinstance(part, (int, float)) else self.ids(part)
        parts = parts_of_domains(given, self.names, seed)
        train_part, *others = (
            self.select(parts[name]) if parts[name] else None
            for name in ("train", "validation", "test")
        )
        if train_part is None:
            raise SettingError(
                f"No domain is left to train on: all {self.num_domains} are held out. Hold out "
                "fewer."
            )
        return Splits(train_part, *others)

    def split_examples(self, share: float, seed: int = 0) -> tuple[DomainData, DomainData]:
        """Hold out a share of the examples of each domain: (the rest, what is held out).

        This is DomainBed's validation set. A domain of n examples gives ⌊share · n⌋ of them, so one
        with few examples may give none.
        """
        OPEN_FRACTION.check(share, "The share to hold out")
        order = np.random.default_rng(seed).permutation(len(self))
        ids = self.domains.cpu().numpy()[order]
        by_domain = order[np.argsort(ids, kind="stable")]  # each domain's examples, shuffled
        counts = np.bincount(ids)
        place = np.arange(len(ids)) - np.repeat(np.cumsum(counts) - counts, counts)
        # A share such as 0.2 is a little more or less than 1/5 in binary: 5 examples give one.
        wanted = np.floor(share * counts + 1e-9)
        held_out = np.zeros(len(ids), dtype=bool)
        held_out[by_domain[place < np.repeat(wanted, counts)]] = True
        if not held_out.any():
            raise SettingError(
                f"No domain has enough examples to hold out {share:g} of them: "
                f"the largest has {int(counts.max())}. Raise the share."
            )
        rest, kept = (torch.from_numpy(np.flatnonzero(part)) for part in (~held_out, held_out))
        return self.at(rest), self.at(kept)


def _check_examples(x: Any, y: Any, domains: Any) -> None:
    """x, y and domains must have the same number of examples, at least one."""
    if not isinstance(y, Tensor) or not isinstance(domains, Tensor) or domains.dtype != torch.long:
        raise DomainDataError(
            "y must be a tensor, and domains a tensor of torch.long with one number per example. "
            "DomainData.from_arrays takes arrays and lists, and names of domains."
        )
    lengths = {"x": len(x), "y": len(y) if y.ndim else 0, "domains": domains.numel()}
    if len(set(lengths.values())) > 1 or len(domains) == 0 or domains.ndim != 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise DomainDataError(
            f"x, y and domains must hold the same number of examples, at least one, got {told}."
        )


def _check_domains(domains: Tensor, names: tuple[str, ...]) -> None:
    """Names must differ, numbers lie between 0 and m − 1, and every domain have an example."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DomainDataError(
            f"The domain {twice!r} is listed twice. Give each domain a name of its own."
        )
    low, high = int(domains.min()), int(domains.max())
    if low < 0 or high >= len(names):
        raise DomainDataError(
            f"domains must be from 0 to {len(names) - 1} for {len(names)} names, got "
            f"{low if low < 0 else high}."
        )
    empty = torch.nonzero(torch.bincount(domains, minlength=len(names)) == 0).reshape(-1)
    if len(empty):
        raise DomainDataError(
            f"The domain {names[int(empty[0])]!r} has no example. Leave out empty domains."
        )


def tensor_from(values: Any, what: str) -> Tensor:
    """Numbers as a tensor; float64 becomes float32, as networks compute."""
    try:
        # torch would share the memory, and warns of arrays that must not be written to.
        array = values if isinstance(values, Tensor) else np.require(values, requirements="W")
        tensor = torch.as_tensor(array)
    except (TypeError, ValueError):
        raise DomainDataError(
            f"{what} must hold numbers in rows of equal length, got a {type(values).__name__} that "
            "does not."
        ) from None
    return tensor.float() if tensor.dtype == torch.float64 else tensor
