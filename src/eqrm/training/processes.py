"""Several processes that train one predictor together (``torchrun``), and signals to stop them.

Every process computes the gradient of its own part of the batch, the gradients are averaged,
and all take the same step, so their weights stay equal. Risk objectives know the risks of all
processes (``eqrm.objectives.risk_objective``), and their gradients are meant for averaging.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from eqrm.errors import SettingError
from eqrm.objectives.base import Objective
from eqrm.objectives.risk_objective import RiskObjective, several_processes


def rank() -> int:
    """The number of this process; 0 where there is one."""
    return dist.get_rank() if several_processes() else 0


def world_size() -> int:
    """How many processes there are."""
    return dist.get_world_size() if several_processes() else 1


@contextmanager
def process_group() -> Iterator[None]:
    """Join the processes that ``torchrun`` started; nothing where there is one process.

    NCCL for tensors on GPUs where each process of the machine has one of its own, gloo for
    everything else.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or dist.is_initialized():
        yield
        return
    gpu_each = torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if gpu_each:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("cpu:gloo,cuda:nccl" if gpu_each else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


def refuse_several_processes(objectives: Iterable[Objective]) -> None:
    """Refuse objectives that would not train what one process does, before training starts."""
    if not several_processes():
        return
    for objective in objectives:
        if not isinstance(objective, RiskObjective) or not objective.across_processes:
            raise SettingError(
                f"{type(objective).__name__} looks at the examples of its own process only, so "
                f"{world_size()} processes would not minimise what one does. Train it in "
                "one process, or use an objective of the risks: erm, eqrm, superquantile, "
                "groupdro, vrex."
            )


def refuse_local_batch_norm(predictor: nn.Module) -> None:
    """Refuse batch norm that would see the statistics of its own process only."""
    if not several_processes():
        return
    for name, module in predictor.named_modules():
        if type(module) in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d) and module.training:
            raise SettingError(
                f"The batch norm {name!r} would use the statistics of its own process's part of "
                "the batch, so several processes would not train what one does. Freeze it "
                "(batch_norm: frozen), or convert the network with "
                "torch.nn.SyncBatchNorm.convert_sync_batchnorm (on GPUs)."
            )


def same_on_all(module: nn.Module) -> None:
    """Give every process the weights and buffers of the first."""
    if several_processes():
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.data, src=0)


def average_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Replace every gradient by its mean over processes, in one message."""
    if not several_processes():
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    dist.all_reduce(flat)
    flat /= world_size()
    for gradient, mean in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))


def summed(values: Tensor) -> Tensor:
    """The sum over all processes; the tensor itself where there is one."""
    if several_processes():
        dist.all_reduce(values)
    return values


def any_process(flag: bool) -> bool:
    """Whether the flag is up in any process, the same answer in all."""
    return float(summed(torch.tensor(float(flag)))) > 0


class TrainingInterrupted(KeyboardInterrupt):
    """Training was interrupted after a complete step; the message says how to continue."""


@contextmanager
def watched_signals() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C (SIGINT) was pressed or a scheduler sent SIGTERM, in any process.

    Every process must ask at the same step. A second Ctrl-C stops at once. Only the main thread can
    watch; elsewhere nothing is changed.
    """
    raised = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal raised
        if raised and number == signal.SIGINT:
            raise KeyboardInterrupt
        raised = True

    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {each: signal.signal(each, note) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: any_process(raised)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
