"""What the package computes for a case of the grid, by each of the roads it may take.

One row of risks on the CPU (at once by the C part where that was built, in one call of it when the
bandwidth is known, by its sums for long rows, or without it in numpy), rows in a batch, and the
fixed number of steps of GPUs, CUDA graphs and ``torch.compile`` are different code; each has to
reach the truth.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np
import torch

import eqrm
from eqrm.distributions.kde import (
    gradient,
    native,
    one_row,
    root,
    root_in_tensors,
)
from oracle.catalogue import DISTRIBUTIONS
from oracle.grid import Case, Judgement, judge
from oracle.kde_mpmath import Floats

ROADS = ("one row", "one call", "sums in C", "numpy", "batch", "fixed steps")
"""Those of a CPU. The kernels of a GPU are the road "gpu", see benchmarks/cuda_oracle.py."""


# A function in the place of another one: a Mock takes longer to make than a quantile.
def _nothing(*given: object) -> None:
    return None


def _never(*given: object) -> bool:
    return False


@contextmanager
def _as_on_a_gpu() -> Iterator[None]:
    """As where nobody may look whether the solve has converged."""
    with (
        mock.patch.object(root_in_tensors, "can_look", _never),
        mock.patch.object(gradient, "can_look", _never),
    ):
        yield


@contextmanager
def _on_road(road: str) -> Iterator[None]:
    """One row by the given road, whichever the length and whether or not the C part is there."""
    with ExitStack() as stack:
        if road != "one row":
            stack.enter_context(mock.patch.object(one_row, "quantile_at_once", _nothing))
        if road not in ("one row", "one call"):
            stack.enter_context(mock.patch.object(root, "_in_one_call", _nothing))
        if road == "numpy":
            stack.enter_context(mock.patch.object(native, "LIBRARY", None))
        yield


def quantile_and_gradient(case: Case, road: str = "one row") -> tuple[float, Floats]:
    """The package's quantile and gradient of a case."""
    weights = case.weights()
    given = None if weights is None else torch.from_numpy(weights)
    level = eqrm.Level(log_tail=case.log_tail)
    risks = torch.from_numpy(case.risks()).requires_grad_()
    if road == "gpu":
        there = None if given is None else given.cuda()
        value = eqrm.KDE(risks.cuda(), bandwidth=case.bandwidth, weights=there).quantile(level)
    elif road == "batch":
        # A second row that converges at another step must not disturb the first.
        other = torch.linspace(0.0, 1.0, case.m, dtype=torch.float64)
        rows = torch.stack([risks, other])
        value = eqrm.KDE(rows, bandwidth=case.bandwidth, weights=given).quantile(level)[0]
    elif road == "fixed steps":
        with _as_on_a_gpu():
            estimate = eqrm.KDE(risks[None], bandwidth=case.bandwidth, weights=given)
            value = estimate.quantile(level)[0]
    else:
        with _on_road(road):
            value = eqrm.KDE(risks, bandwidth=case.bandwidth, weights=given).quantile(level)
    (slopes,) = torch.autograd.grad(value, risks)
    return float(value.detach()), np.asarray(slopes.numpy(), dtype=np.float64)


def judge_case(case: Case, roads: tuple[str, ...] = ROADS) -> dict[str, Judgement]:
    """Compare each road with the truth of the case."""
    truth = case.truth()
    return {road: judge(truth, *quantile_and_gradient(case, road)) for road in roads}


def value_and_gradient(name: str, risks: list[float], level: eqrm.Level) -> tuple[float, Floats]:
    """The quantile of a distribution of the catalogue, by name, and its gradient, in float64."""
    tensor = torch.tensor(risks, dtype=torch.float64, requires_grad=True)
    value = DISTRIBUTIONS[name](tensor).quantile(level)
    (slopes,) = torch.autograd.grad(value, tensor)
    return float(value.detach()), np.asarray(slopes.numpy())
