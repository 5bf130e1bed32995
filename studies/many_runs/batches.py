"""The batches of a stack of runs, on the device, each run's drawn by its own seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from eqrm.data import DomainBatches, DomainData


class StackBatches:
    """Inputs and targets of R runs, the examples of each domain one after the other.

    The data stay on the device. What travels each step is row numbers, and with whole domains
    (``examples_per_domain=None``) nothing does. With ``replacement`` rows are drawn on the device,
    independently of each other, as many as there are without.
    """

    def __init__(
        self,
        datasets: Sequence[DomainData],
        examples_per_domain: int | None,
        device: torch.device,
        dtype: torch.dtype,
        replacement: bool = False,
    ) -> None:
        self.replacement = replacement
        self.domains = [data.domains.cpu() for data in datasets]
        self.examples_per_domain = examples_per_domain
        self.device, self.dtype = device, dtype
        self.x = torch.stack([data.x.flatten(1).to(device, dtype) for data in datasets])
        self.y = torch.stack([data.y.to(device) for data in datasets])
        counts = datasets[0].counts
        limit = int(counts.max()) if examples_per_domain is None else examples_per_domain
        self.sizes: list[int] = counts.clamp(max=limit).tolist()
        # Checked once here: the streams themselves are made when their phase begins.
        self._stream(0, 0, 0)

    @property
    def rows(self) -> int:
        """Examples in a batch."""
        return sum(self.sizes)

    def _stream(self, data: int, seed: int, start: int) -> DomainBatches:
        """The batches of a seed, from step ``start`` on."""
        k = self.examples_per_domain
        stream = DomainBatches(self.domains[data], None, k, seed=seed)
        state = stream.state_dict()
        state |= {"step": start, "visits": torch.full_like(state["visits"], start)}
        stream.load_state_dict(state)
        return stream

    def from_step(self, keys: Sequence[tuple[int, int, int]]) -> BatchesOfRuns:
        """Batches for runs given by (data, seed, the step they begin at)."""
        return ResampledBatches(self, keys) if self.replacement else BatchesOfRuns(self, keys)


class BatchesOfRuns:
    """The next batch of each of some runs; runs with the same key share a stream."""

    def __init__(self, source: StackBatches, keys: Sequence[tuple[int, int, int]]) -> None:
        self.source = source
        distinct = list(dict.fromkeys(keys))
        self.streams = [source._stream(*key) for key in distinct]
        self.stream_of = [distinct.index(key) for key in keys]
        self.data_of = torch.tensor([key[0] for key in keys], device=source.device)
        self.one_dataset = keys[0][0] if len({key[0] for key in keys}) == 1 else None
        self.alive = len(keys)
        self._whole: tuple[Tensor, Tensor] | None = None

    def keep(self, alive: int) -> None:
        """Go on with the first ``alive`` runs only."""
        self.alive = alive
        used = max(self.stream_of[:alive]) + 1
        self.streams = self.streams[:used]
        self._whole = None

    def next(self) -> tuple[Tensor, Tensor]:
        """x (R, n, inputs) or (n, inputs) if all runs see the same, and y (R, n, …)."""
        if self.source.examples_per_domain is None:
            if self._whole is None:
                self._whole = self._gathered([next(stream) for stream in self.streams])
            return self._whole
        return self._gathered([next(stream) for stream in self.streams])

    def _gathered(self, rows: list[Tensor]) -> tuple[Tensor, Tensor]:
        x, y = self.source.x, self.source.y
        whole = self.source.examples_per_domain is None
        if self.one_dataset is not None and (len(rows) == 1 or whole):
            here = self._moved(rows[0])
            shared = y[self.one_dataset].index_select(0, here)
            picked = x[self.one_dataset].index_select(0, here)
            return picked, shared.expand(self.alive, *shared.shape)
        here = self._moved(torch.stack([rows[stream] for stream in self.stream_of[: self.alive]]))
        which = self.data_of[: self.alive].unsqueeze(1)
        return x[which, here], y[which, here]

    def _moved(self, rows: Tensor) -> Tensor:
        if self.source.device.type != "cuda":
            return rows.to(self.source.device)
        return rows.pin_memory().to(self.source.device, non_blocking=True)


class ResampledBatches(BatchesOfRuns):
    """Examples of each domain drawn with replacement, by the seed of the run and its first step."""

    def __init__(self, source: StackBatches, keys: Sequence[tuple[int, int, int]]) -> None:
        super().__init__(source, keys)
        self.generators = []
        for _, seed, start in dict.fromkeys(keys):
            words = np.random.SeedSequence([seed, start, 0]).generate_state(1, np.uint64)
            generator = torch.Generator(source.device)
            self.generators.append(generator.manual_seed(int(words[0]) >> 1))
        orders = [domains.argsort(stable=True) for domains in source.domains]
        self.orders = torch.stack(orders).to(source.device)
        self.counts = torch.bincount(source.domains[0]).tolist()
        self.streams_data = [key[0] for key in dict.fromkeys(keys)]

    def next(self) -> tuple[Tensor, Tensor]:
        """x (R, n, inputs) and y (R, n, …)."""
        used = max(self.stream_of[: self.alive]) + 1
        rows = [self._drawn(stream) for stream in range(used)]
        here = torch.stack([rows[stream] for stream in self.stream_of[: self.alive]])
        which = self.data_of[: self.alive].unsqueeze(1)
        return self.source.x[which, here], self.source.y[which, here]

    def _drawn(self, stream: int) -> Tensor:
        found, begin = [], 0
        order = self.orders[self.streams_data[stream]]
        for size, count in zip(self.source.sizes, self.counts, strict=True):
            drawn = torch.randint(
                count, (size,), generator=self.generators[stream], device=order.device
            )
            found.append(order[begin + drawn])
            begin += count
        return torch.cat(found)
