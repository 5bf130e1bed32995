"""Quantiles that fall into a wide gap between the risks: ill-conditioned, but inside the gap."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import log_ndtr, logsumexp, ndtr

import eqrm


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("domains", "far"), [(200, 2), (500, 5), (1000, 10), (2000, 1)])
def test_a_quantile_in_a_wide_gap_stays_in_the_gap(domains: int, far: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    noise = 0.01 * torch.randn(domains, generator=generator, dtype=torch.float64)
    risks = noise + 50.0 * (torch.arange(domains) >= domains - far)
    level = 1.0 - far / domains
    distribution = eqrm.KDE(risks)
    quantile = distribution.quantile(level)
    assert -0.1 < float(quantile) < 50.1
    assert float(distribution.cdf(quantile)) == pytest.approx(level, rel=1e-12)


@pytest.mark.parametrize("log_tail", [-1e9, -1e15, -1e21, -1e25, -1e30])
def test_levels_beyond_all_measure_are_solved(log_tail: float) -> None:
    risks = torch.from_numpy(np.random.default_rng(0).lognormal(size=200))
    level = eqrm.Level(log_tail=log_tail)
    estimate = eqrm.KDE(risks)
    expected = risks.max() + estimate.bandwidth * level.z
    assert float(estimate.quantile(level)) == pytest.approx(float(expected), rel=1e-4)


@pytest.mark.parametrize("alpha", [0.25, 0.6, 0.9])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_mean_far_from_the_quantile_costs_no_digits(alpha: float, weighted: bool) -> None:
    """Heavy tails: the mean is 150,000 bandwidths of Silverman's rule away from the quantile."""
    generator = torch.Generator().manual_seed(0)
    risks = (6.0 * torch.randn(17_000, dtype=torch.float64, generator=generator)).exp()
    weights = None
    if weighted:
        weights = torch.rand(17_000, dtype=torch.float64, generator=generator)
        weights /= weights.sum()
    estimate = eqrm.KDE(risks, "silverman", weights=weights)
    value, width = float(estimate.quantile(alpha)), float(estimate.bandwidth)
    z = (value - risks.numpy()) / width
    reached = ndtr(z)
    found = math.fsum(reached) / 17_000 if weights is None else float(weights.numpy() @ reached)
    assert math.log(found / alpha) == pytest.approx(0.0, abs=2e-13)


@pytest.mark.parametrize(
    ("risks", "beyond"), [([1.0, 6.0], 1), ([1.0, 1.0, 1.0, 6.0], 1), ([0, 0.1, 0.2, 4, 4.1, 9], 3)]
)
def test_in_a_batch_the_tails_of_both_sides_of_a_gap_are_equal(
    risks: list[float], beyond: int
) -> None:
    x = torch.tensor([risks, risks], dtype=torch.float64, requires_grad=True)
    quantile = eqrm.KDE(x, bandwidth=0.3).quantile(1.0 - beyond / len(risks))
    quantile.sum().backward()
    z = (float(quantile[0].detach()) - np.array(risks)) / 0.3
    below, above = log_ndtr(-z[z > 0.0]), log_ndtr(z[z < 0.0])
    assert logsumexp(below) == pytest.approx(logsumexp(above), rel=1e-12)
    assert x.grad is not None
    halves = x.grad[0, :-beyond].sum(), x.grad[0, -beyond:].sum()
    assert float(halves[0]) == pytest.approx(float(halves[1]), rel=0.05)
