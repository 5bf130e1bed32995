"""The norm with fixed statistics in Triton's interpreter, against torch's own on the CPU.

Run as a program: ``python -m oracle.interpreted_norms [--all]`` with ``TRITON_INTERPRET=1`` prints
one line of JSON per case, with the largest of the errors of output and gradients.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from eqrm.gpu.frozen_norm import FrozenNorm
from eqrm.predictors.images import Padding, padded, rectified

EPS = 1e-3


def case(
    shape: tuple[int, int, int, int], highest: float | None, padding: Padding, twice: bool
) -> float:
    """The largest error of the output, the three gradients, and where asked those of these."""
    draw = torch.Generator().manual_seed(shape[1])
    x = torch.randn(shape, generator=draw).contiguous(memory_format=torch.channels_last) * 4.0
    weight, bias, mean = torch.randn(3, shape[1], generator=draw)
    variance = torch.rand(shape[1], generator=draw) + 0.1
    slopes = padded(torch.randn(shape, generator=draw), padding) + 0.5
    leaves = [each.clone().requires_grad_() for each in (x, weight, bias)]

    def own() -> Tensor:
        found: Tensor = FrozenNorm.apply(*leaves, mean, variance, EPS, highest, padding)  # type: ignore[no-untyped-call]
        return found

    def true() -> Tensor:
        y = functional.batch_norm(leaves[0], mean, variance, leaves[1], leaves[2], eps=EPS)
        return padded(y if highest is None else rectified(y, highest), padding)

    results = []
    for function in (own, true):
        y = function()
        found = [y, *torch.autograd.grad((y * slopes).sum(), leaves, create_graph=twice)]
        if twice:
            again = sum((each**2).sum() for each in found)
            found += torch.autograd.grad(again, leaves)
        results.append(found)
    return max(
        float((one - other).detach().abs().max() / other.detach().abs().max().clamp(min=1.0))
        for one, other in zip(*results, strict=True)
    )


def cases(all_cases: bool) -> Iterator[tuple[str, float]]:
    """Channels that do and do not fill a block, more pixels than a program takes, cuts, padding."""
    shapes = ((2, 16, 3, 5), (1, 24, 4, 4), (3, 40, 2, 2), (2, 192, 5, 4))
    for shape, highest in itertools.product(shapes, (None, 6.0, math.inf)):
        for padding in ((0, 0, 0, 0), (0, 1, 2, 3)) if highest else ((0, 0, 0, 0),):
            large = shape[1] > 24
            if large and not all_cases and (shape[1], highest, any(padding)) != (192, 6.0, False):
                continue
            found = case(shape, highest, padding, twice=shape[1] == 24)
            yield f"{shape}, highest {highest}, padding {padding}", found


def main() -> None:
    """Print every case."""
    for name, error in cases("--all" in sys.argv):
        print(json.dumps({"case": name, "error": error}))


if __name__ == "__main__":
    main()
