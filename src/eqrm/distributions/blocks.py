"""Work through a long array in blocks that stay in the cache, on all threads.

torch splits each operation over its threads and waits for all of them after every one. On a
machine that has other work to do, such a wait can take longer than all of the work. Here each
thread takes its stretch of the array through all operations, block by block, and they meet
once. Matrix products are avoided: BLAS has threads of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import numpy.typing as npt
import torch

BLOCK = 16_384
"""torch runs an operation on less than 32,768 elements in the calling thread."""

BLOCKS_WORTH_A_THREAD = 4

Work = Callable[[slice, torch.Tensor], tuple[float, ...]]


def for_each_block(size: int, work: Work, buffers: int = 2) -> npt.NDArray[np.float64]:
    """Call ``work(where, scratch)`` for each block; a row of its results per block.

    ``scratch`` has shape ``(buffers, length of the block)``, float64, and is reused.

    >>> values = torch.arange(100_000, dtype=torch.float64)
    >>> sums = for_each_block(100_000, lambda where, scratch: (float(values[where].sum()),))
    >>> sums.shape, sums.sum().item() == values.sum().item()
    ((7, 1), True)
    """
    blocks = [slice(begin, min(begin + BLOCK, size)) for begin in range(0, size, BLOCK)]
    threads = max(1, min(torch.get_num_threads(), len(blocks) // BLOCKS_WORTH_A_THREAD))
    stretches = [blocks[k::threads] for k in range(threads)]
    others = [_pool(threads - 1).submit(_stretch, s, work, buffers) for s in stretches[1:]]
    rows = _stretch(stretches[0], work, buffers)
    for other in others:
        rows += other.result()
    return np.array(rows)


def _stretch(blocks: list[slice], work: Work, buffers: int) -> list[tuple[float, ...]]:
    scratch = torch.empty(buffers, BLOCK, dtype=torch.float64)
    return [work(where, scratch[:, : where.stop - where.start]) for where in blocks]


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="eqrm-blocks")


# Threads do not survive a fork; a child makes its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
