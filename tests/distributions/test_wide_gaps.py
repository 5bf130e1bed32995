"""Quantiles that fall into a wide gap between the risks: ill-conditioned, but inside the gap."""

from __future__ import annotations

import pytest
import torch

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
