"""A sample of the fuzzed risk vectors; ``make verify`` judges a million of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import eqrm
from adversarial.judged_vectors import Report, judged
from adversarial.risk_vectors import ROWS, batch_of
from eqrm.distributions import LogNormal
from eqrm.errors import DomainDataError

SAMPLE = 4


def _report(seeds: range) -> Report:
    report = Report()
    for seed in seeds:
        report.add(judged(batch_of(seed)))
    return report


def test_fuzzed_risk_vectors_are_solved_alike_on_every_road_or_refused() -> None:
    report = _report(range(SAMPLE))
    assert report.problems == []
    assert report.vectors == SAMPLE * ROWS
    assert report.outcomes["solved"] > 2 * report.vectors


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(1758, id="a float16 gradient of a batch is too large"),
        pytest.param(1891, id="one domain has nearly all the weight"),
        pytest.param(40154, id="and the others are far away", marks=pytest.mark.full),
        pytest.param(40439, id="the value has fewer digits than the bandwidth"),
        pytest.param(101163, id="and the far one comes first", marks=pytest.mark.full),
        pytest.param(41422, id="kernels are 1e-100 of the spread"),
    ],
)
def test_what_was_wrong_once_is_right(seed: int) -> None:
    report = judged(batch_of(seed, rows=50, mixed=False))
    assert report.problems == []
    assert report.vectors == 50


def _superquantile(law: Any, level: eqrm.Level, leaf: Tensor) -> tuple[float, float] | None:
    """The superquantile and the quantile in float64, or None if it, or its gradient, is refused."""
    try:
        value, least = law.superquantile(level), law.quantile(level)
        (gradient,) = torch.autograd.grad(value, leaf)
    except DomainDataError:
        return None
    assert value.dtype == leaf.dtype
    assert bool(gradient.isfinite().all())
    return value.item(), least.item()


@pytest.mark.parametrize(
    "seeds", [range(60), pytest.param(range(60, 800), marks=pytest.mark.full)], ids=str
)
def test_superquantiles_are_finite_and_above_quantiles_or_refused(seeds: range) -> None:
    solved = asked = 0
    for seed in seeds:
        batch = batch_of(seed)
        for place in range(2):
            weights = batch.weights_of(place)
            leaf = batch.risks[place].clone().requires_grad_()
            laws: list[Any] = [
                eqrm.KDE(leaf, batch.bandwidth, weights=weights),
                eqrm.Gaussian(leaf, weights=weights),
            ]
            if bool((leaf > 0).all()):
                laws.append(LogNormal(leaf, weights=weights))
            scale = float(leaf.detach().double().abs().max())
            for law in laws:
                for level in batch.levels:
                    asked += 1
                    found = _superquantile(law, level, leaf)
                    if found is None:
                        continue
                    solved += 1
                    value, least = found
                    assert np.isfinite(value), (batch, law, level)
                    # Computed on two roads; the contract is 1e-10 of the scale.
                    rounding = max(4.0 * torch.finfo(leaf.dtype).eps, 1e-10)
                    rounding *= max(scale, abs(least))
                    # A bandwidth of denormal risks has no digits.
                    below = value < least - rounding and batch.kind != "denormal"
                    assert not below, (batch, law, level)
    assert solved > 0.8 * asked
