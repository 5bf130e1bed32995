"""Batches of d domains × k examples, drawn afresh each step: epochs of them, or without end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eqrm.checks import COUNT, NON_NEGATIVE_INTEGER, SEED, check_fields, one_of, optional, ruled
from eqrm.data.domain_data import DomainData
from eqrm.data.hashed_draws import Integers, below, different, different_by_weight, hashed
from eqrm.domains import number_domains
from eqrm.errors import DomainDataError, SettingError
from eqrm.risks import Domains
from eqrm.text import counted

UNITS = ("domains", "examples")
_DOMAINS, _EXAMPLES, _ORDER = 1, 2, 3  # keep the draws for each purpose apart


@dataclass(frozen=True)
class SamplerSettings:
    """What a batch contains: the arguments of :class:`DomainBatches`, by their names in files.

    A ``seed`` of None is the run's own.
    """

    domains_per_batch: int | None = ruled(None, optional(COUNT), in_files="domains")
    examples_per_domain: int | None = ruled(None, optional(COUNT), in_files="examples")
    over: str = "domains"
    repeat_domains: bool = False
    repeat_examples: bool = False
    seed: int | None = ruled(None, optional(SEED))
    rank: int = ruled(0, NON_NEGATIVE_INTEGER, in_files=None)
    world_size: int = ruled(1, COUNT, in_files=None)
    across: str = "domains"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.rank >= self.world_size:
            raise SettingError(
                f"rank must be from 0 to {self.world_size - 1} for {self.world_size} processes, "
                f"got {self.rank}."
            )
        one_of(self.over, UNITS, "value of over")
        one_of(self.across, UNITS, "value of across")

    def check(self, counts: Integers) -> None:
        """Raise if such batches cannot be drawn from domains of these sizes (m,)."""
        d, k = self.domains_per_batch, self.examples_per_domain
        if d is not None and d > len(counts) and not self.repeat_domains:
            raise SettingError(
                f"domains_per_batch is {d}, but the data has {counted(len(counts), 'domain')}. "
                "Lower it, omit it to use all domains, or set repeat_domains."
            )
        if k is not None and k > int(counts.max()) and not self.repeat_examples:
            raise SettingError(
                f"examples_per_domain is {k}, but the largest domain has "
                f"{counted(int(counts.max()), 'example')}. "
                "Lower it, omit it to use whole domains, or set repeat_examples."
            )
        if d is None and self.repeat_domains:
            raise SettingError("repeat_domains needs domains_per_batch.")
        if k is None and self.repeat_examples:
            raise SettingError("repeat_examples needs examples_per_domain.")

        # Every process must get something in every batch.
        d = len(counts) if d is None else d
        if self.across == "domains" and d < self.world_size:
            raise SettingError(
                f"A batch of {counted(d, 'domain')} cannot be shared by {self.world_size} "
                "processes, whole domains each. Use more domains per batch, fewer processes, or "
                'across="examples".'
            )
        sizes = np.sort(counts if k is None else np.minimum(counts, k))
        fewest = d * int(sizes[0]) if self.repeat_domains else int(sizes[:d].sum())
        fewest = d * k if k is not None and self.repeat_examples else fewest
        if self.across == "examples" and fewest < self.world_size:
            raise SettingError(
                f"A batch may hold only {counted(fewest, 'example')}, too few for "
                f"{self.world_size} processes. Use larger batches or fewer processes."
            )


class DomainBatches:
    """Batches of the row numbers of d domains × k examples: a ``batch_sampler`` of a DataLoader.

    Iterating gives one epoch of lists, with fresh draws each time; ``next(batches)`` gives the next
    batch as a tensor, without end. An epoch has ``steps`` batches; unless given, as many as show as
    many examples as there are.

    Args:
        data: the data, or the (n,) domains of its examples.
        domains_per_batch, examples_per_domain: d and k; ``None`` takes all domains, or whole ones.
            A domain with fewer examples gives all it has.
        over: draw domains uniformly (``"domains"``), or in proportion to their number of examples
            (``"examples"``).
        repeat_domains: whether a batch may hold the same domain more than once.
        repeat_examples: draw a domain's examples with replacement. Otherwise its visits go through
            a permutation of its examples, k at a time, and then through a new one; what does not
            fill a visit is left out of that round.
        rank, world_size, across: each of several processes yields its part of the same batch:
            every world_size-th domain whole, or every world_size-th example.

    A batch is a function of the seed, the step and how often each domain was visited, so
    ``state_dict`` is small and a resumed stream is the same stream, also on another number of
    processes.

    >>> batches = DomainBatches(["Oslo", "Oslo", "Rome", "Rome", "Bern"], 2, 1, seed=1)
    >>> len(batches), next(batches).shape
    (3, torch.Size([2]))
    """

    def __init__(
        self,
        data: DomainData | Domains,
        domains_per_batch: int | None = None,
        examples_per_domain: int | None = None,
        *,
        over: str = SamplerSettings.over,
        repeat_domains: bool = SamplerSettings.repeat_domains,
        repeat_examples: bool = SamplerSettings.repeat_examples,
        seed: int = 0,
        rank: int = SamplerSettings.rank,
        world_size: int = SamplerSettings.world_size,
        across: str = SamplerSettings.across,
        steps: int | None = None,
    ) -> None:
        domains = number_domains(data.domains if isinstance(data, DomainData) else data).ids
        if len(domains) == 0:
            raise DomainDataError("At least one example to draw from is needed, got none.")
        self._counts: Integers = np.bincount(domains)
        self._by_domain: Integers = np.argsort(domains, kind="stable")
        self._order: Integers = self._by_domain.copy()
        self._starts: Integers = np.cumsum(self._counts) - self._counts
        drawn = (domains_per_batch, examples_per_domain, over, repeat_domains, repeat_examples)
        self.settings = SamplerSettings(*drawn, seed, rank, world_size, across)
        self.settings.check(self._counts)
        k = examples_per_domain
        self._per_visit = self._counts if k is None else np.minimum(self._counts, k)
        self._visits_per_round = self._counts // self._per_visit
        self._visits = np.zeros(len(self._counts), dtype=np.int64)
        self._round_of_order = np.full(len(self._counts), -1, dtype=np.int64)
        self.seed, self.step = seed, 0
        self._length = optional(COUNT).check(steps, "steps") or self.steps_per_epoch

    @property
    def steps_per_epoch(self) -> int:
        """Steps in which as many examples are drawn as the data has, on average and rounded up."""
        chosen, expected = self.settings.domains_per_batch, float(self._per_visit.sum())
        if chosen is not None:
            weights = None if self.settings.over == "domains" else self._counts
            expected = chosen * float(np.average(self._per_visit, weights=weights))
        return int(np.ceil(self._counts.sum() / expected))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(len(self)):
            yield next(self).tolist()

    def __next__(self) -> Tensor:
        """The rows of the next batch (this process's part of it)."""
        chosen = self._choose_domains()
        occurrence = _occurrences(chosen) if self.settings.repeat_domains else np.zeros_like(chosen)
        visits = self._visits[chosen] + occurrence
        np.add.at(self._visits, chosen, 1)
        place = np.arange(len(chosen))
        if self.settings.across == "domains":
            mine = slice(self.settings.rank, None, self.settings.world_size)
            chosen, visits, place = chosen[mine], visits[mine], place[mine]
        rows = self._rows(chosen, visits, place)
        if self.settings.across == "examples":
            rows = rows[self.settings.rank :: self.settings.world_size]
        self.step += 1
        return torch.from_numpy(rows)

    def _choose_domains(self) -> Integers:
        """(d,) the domains of this step's batch, the same on every process."""
        number, m = self.settings.domains_per_batch, len(self._counts)
        if number is None:
            return np.arange(m, dtype=np.int64)
        key = (self.seed, _DOMAINS, self.step)
        if self.settings.repeat_domains:
            draws = hashed(*key, np.arange(number))
            if self.settings.over == "domains":
                return below(m, draws)
            ends = np.cumsum(self._counts)
            return np.searchsorted(ends, below(int(ends[-1]), draws), side="right")
        if self.settings.over == "domains":
            return different(number, m, *key)
        return different_by_weight(number, self._counts, *key)

    def _rows(self, chosen: Integers, visits: Integers, place: Integers) -> Integers:
        """The rows that each visit (domain, number of the visit, place in the batch) sees."""
        if self.settings.examples_per_domain is None:
            return self._by_domain[_ranges(self._starts[chosen], self._counts[chosen])]
        sizes = self._per_visit[chosen]
        if self.settings.repeat_examples:
            sizes = np.full(len(chosen), self.settings.examples_per_domain)
            which = _ranges(np.zeros_like(sizes), sizes)
            key = (self.seed, _EXAMPLES, self.step)
            draws = hashed(*key, np.repeat(place, sizes), which)
            within = below(np.repeat(self._counts[chosen], sizes), draws)
            place_of_row: Integers = np.repeat(self._starts[chosen], sizes) + within
            return self._by_domain[place_of_row]
        rounds, turn = np.divmod(visits, self._visits_per_round[chosen])
        if not self.settings.repeat_domains:
            return self._visited(chosen, rounds, turn, sizes)
        # The visits of one domain may belong to two rounds: one permutation at a time.
        found = np.empty(int(sizes.sum()), dtype=np.int64)
        starts = np.cumsum(sizes) - sizes
        for now in (rounds == number for number in np.unique(rounds)):
            rows = self._visited(chosen[now], rounds[now], turn[now], sizes[now])
            found[_ranges(starts[now], sizes[now])] = rows
        return found

    def _visited(
        self, chosen: Integers, rounds: Integers, turn: Integers, sizes: Integers
    ) -> Integers:
        stale = self._round_of_order[chosen] != rounds
        if stale.any():
            domains, first = np.unique(chosen[stale], return_index=True)
            self._shuffle(domains, rounds[stale][first])
        return self._order[_ranges(self._starts[chosen] + turn * sizes, sizes)]

    def _shuffle(self, domains: Integers, rounds: Integers) -> None:
        """Put the examples of these domains into the order of the given rounds."""
        sizes = self._counts[domains]
        place = _ranges(self._starts[domains], sizes)
        rows = self._by_domain[place]
        words = hashed(self.seed, _ORDER, np.repeat(rounds, sizes), rows)
        # One sort for all: the domain in the upper bits, random bits below. Always from the
        # same order, so that equal words cannot make a resumed stream differ.
        bits = np.uint64(max(1, (len(domains) - 1).bit_length()))
        segment = np.repeat(np.arange(len(domains), dtype=np.uint64), sizes)
        keys = (segment << (np.uint64(64) - bits)) | (words >> bits)
        self._order[place] = rows[np.argsort(keys)]
        self._round_of_order[domains] = rounds

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides the batches to come: integers and one tensor (m,)."""
        return {
            "step": self.step,
            "seed": self.seed,
            "examples": int(self._counts.sum()),
            "visits": torch.from_numpy(self._visits.copy()),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from where ``state`` was saved."""
        examples = int(self._counts.sum())
        here = {"seed": self.seed, "examples": examples, "domains": len(self._counts)}
        saved = {name: int(state[name]) for name in ("seed", "examples")}
        saved["domains"] = torch.as_tensor(state["visits"]).numel()
        if saved != here:
            raise SettingError(
                f"The state was saved with {saved}, but here it is {here}. Use the data and the "
                "seed that the state was saved with."
            )
        self.step = int(state["step"])
        self._visits = state["visits"].cpu().numpy().astype(np.int64, copy=True)


def _occurrences(chosen: Integers) -> Integers:
    """How often each element has come before: [4, 7, 4] → [0, 0, 1]."""
    order = np.argsort(chosen, kind="stable")
    _, counts = np.unique(chosen, return_counts=True)
    found = np.empty_like(chosen)
    found[order] = _ranges(np.zeros_like(counts), counts)
    return found


def _ranges(starts: Integers, sizes: Integers) -> Integers:
    """start, start + 1, … for each start, one after the other."""
    ends = np.cumsum(sizes)
    return np.arange(int(ends[-1])) + np.repeat(starts - ends + sizes, sizes)
