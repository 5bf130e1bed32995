"""Work through a long array in blocks that stay in the cache.

Each block passes through all its operations before the next one starts, so that only the
first of them waits for memory. (Python threads, one stretch of the array each, were tried:
with operations this short they wait for the interpreter's lock.)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

BLOCK = 131_072
"""Long enough for torch's threads, short enough for three buffers to stay in the cache."""

Work = Callable[[slice, torch.Tensor], tuple[float, ...]]


def for_each_block(size: int, work: Work, buffers: int = 2) -> npt.NDArray[np.float64]:
    """Call ``work(where, scratch)`` for each block; a row of its results per block.

    ``scratch`` has shape ``(buffers, length of the block)``, float64, and is reused.

    >>> values = torch.arange(400_000, dtype=torch.float64)
    >>> sums = for_each_block(400_000, lambda where, scratch: (float(values[where].sum()),))
    >>> sums.shape, sums.sum().item() == values.sum().item()
    ((4, 1), True)
    """
    scratch = torch.empty(buffers, min(BLOCK, size), dtype=torch.float64)
    rows = []
    for begin in range(0, size, BLOCK):
        where = slice(begin, min(begin + BLOCK, size))
        rows.append(work(where, scratch[:, : where.stop - begin]))
    return np.array(rows)
