"""Functions run in several processes that start quickly."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from typing import Any

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
    if "coverage" in sys.modules:  # a forked process ends without saving what was measured
        import coverage

        measured = coverage.Coverage.current()
        if measured is not None:
            measured.save()
