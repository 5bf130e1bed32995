"""What a step has on the device that trains: data, moved once if they fit, and captured steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor

from eqrm.data.domain_data import DomainData, Rows
from eqrm.objectives.batch import Batch
from eqrm.predictors.base import Predictor

LARGEST_SHARE = 0.6
"""Of a GPU's free memory, for data; the rest is for the network and its activations."""


class Batches(Protocol):
    """An endless stream of row numbers that can be resumed: ``eqrm.data.DomainBatches``."""

    def __next__(self) -> Tensor: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def resident(data: DomainData, device: torch.device) -> DomainData:
    """The data on the device, or as it is if it would fill a GPU."""
    if device.type == "cuda" and isinstance(data.x, Tensor) and not data.x.is_cuda:
        free, _ = torch.cuda.mem_get_info(device)
        if data.x.numel() * data.x.element_size() > LARGEST_SHARE * free:
            return data
    return data.to(device)


def network_on(device: torch.device, network: Predictor) -> Predictor:
    """The network on the device; that of images in channels last on a GPU, which is faster."""
    network = network.to(device)
    if device.type == "cuda" and network.input_kind == "channels":
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def rows_on(device: torch.device, data: DomainData, rows: Tensor) -> Rows:
    """Some examples, on the device wherever the data is."""
    if data.device.type == "cuda" and not rows.is_cuda:
        rows = rows.pin_memory()  # else copying them would wait for the step before
    part = data.rows(rows)
    return Rows(*(_moved(each, device) for each in part))


def _moved(values: Any, device: torch.device) -> Any:
    if isinstance(values, Tensor):
        return values.to(device, non_blocking=True)
    return values.to(device) if hasattr(values, "to") else values


Take = Callable[[Batch], Mapping[str, Tensor]]
"""Applies the updates of one step to a batch; the last loss by optimizer."""

WARM_UP = 3
"""Steps of a phase that are taken one launch at a time, in which kernels are compiled and
optimizers make their state."""


class CapturedStep:
    """The updates of a step, replayed on batches of the same shape.

    The weights, the state of objective and optimizer, and the learning rate are read and written
    where they are in memory, so nothing may replace them while this is in use.
    """

    def __init__(self, take: Take, batch: Batch) -> None:
        self._batch = replace(
            batch, x=batch.x.clone(), y=batch.y.clone(), domains=batch.domains.clone()
        )
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._losses = take(self._batch)

    def fits(self, batch: Batch) -> bool:
        """Whether a batch has the shape of the one that was captured."""
        if batch.sizes != self._batch.sizes:
            return False
        pairs = zip(_tensors(self._batch), _tensors(batch), strict=True)
        return all(own.shape == other.shape and own.dtype == other.dtype for own, other in pairs)

    def __call__(self, batch: Batch) -> Mapping[str, Tensor]:
        """Take the step; the losses are overwritten by the next one."""
        for own, other in zip(_tensors(self._batch), _tensors(batch), strict=True):
            own.copy_(other, non_blocking=True)
        self._graph.replay()
        return self._losses


class StepTaker:
    """Takes the steps of a phase, after the first ones captured where that is asked for."""

    def __init__(self, captures: bool) -> None:
        self.captures = captures
        self.begin_phase()

    def begin_phase(self) -> None:
        """Forget what was captured: weights and optimizers may be others from here on."""
        self.captured: CapturedStep | None = None
        self._taken = 0

    def __call__(self, take: Take, batch: Batch, capturable: bool) -> Mapping[str, Tensor]:
        """Take a step with an objective that may or may not be captured."""
        ready = self.captures and capturable and self._taken >= WARM_UP
        if self.captured is None and ready and may_be_captured(batch):
            self.captured = CapturedStep(take, batch)
        self._taken += 1
        if self.captured is not None and self.captured.fits(batch):
            return self.captured(batch)
        return take(batch)


def may_be_captured(batch: Batch) -> bool:
    """Whether all of a batch is tensors on a GPU, its rows sorted by domain and of one weight."""
    tensors = _tensors(batch)
    on_gpu = all(isinstance(each, Tensor) and each.is_cuda for each in tensors)
    return on_gpu and batch.sizes is not None and batch.weights is None


def _tensors(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    return batch.x, batch.y, batch.domains
