"""Functions run in several processes that start quickly."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.context import ForkServerContext
from typing import Any

import torch.distributed
import torch.multiprocessing

# The first optimizer of a process would load dynamo, in two seconds.
LOADED = [
    "torch.nn.parallel",
    "torch._dynamo",
    "eqrm.training.trainer",
    "eqrm.evaluation.evaluate",
]


def forkserver() -> ForkServerContext:
    """Starts processes that have loaded torch already."""
    multiprocessing.set_forkserver_preload(LOADED)
    return multiprocessing.get_context("forkserver")


def run_in_processes(work: Callable[..., None], *arguments: Any, processes: int = 2) -> None:
    """Run ``work(rank, *arguments)`` in every process, all of them forked from a server.

    The server has loaded torch already, once for all tests of this process, which takes seconds;
    ``work`` must be importable.
    """
    forkserver()
    torch.multiprocessing.start_processes(  # type: ignore[no-untyped-call]
        _work, args=(work, arguments), nprocs=processes, start_method="forkserver"
    )


def _work(rank: int, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    work(rank, *arguments)
    _save_coverage()


def meet(rank: int, folder: str) -> None:
    """Join the gloo group of two processes that meet in a folder; one thread each."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting-point",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=120),
    )


def end_together() -> None:
    """End this process when the others of its group have come this far too.

    Where a group is taken apart instead, gloo's threads may wait for the interpreter that waits
    for them, once in hundreds of runs on a busy machine.
    """
    torch.distributed.barrier()
    _save_coverage()
    os._exit(0)


def _save_coverage() -> None:
    """A forked process ends without saving what was measured."""
    if "coverage" in sys.modules:
        import coverage

        measured = coverage.Coverage.current()
        if measured is not None:
            measured.save()
