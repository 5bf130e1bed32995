"""Batches on the device that trains: all data moved once if it fits, batch by batch if not."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from eqrm.data.domain_data import DomainData, Rows
from eqrm.predictors.base import Predictor

LARGEST_SHARE = 0.6
"""Of a GPU's free memory, for data; the rest is for the network and its activations."""


class Batches(Protocol):
    """An endless stream of row numbers that can be resumed: ``eqrm.data.DomainBatches``."""

    def __next__(self) -> Tensor: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def resident(data: DomainData, device: torch.device) -> DomainData:
    """The data on the device, or as it is if it would fill a GPU.

    >>> data = DomainData(torch.zeros(2, 1), torch.zeros(2), torch.tensor([0, 1]), ("a", "b"))
    >>> resident(data, torch.device("cpu")).device
    device(type='cpu')
    """
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
