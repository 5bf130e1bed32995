"""Quantiles that fall into a wide gap between the risks: ill-conditioned, but inside the gap."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import eqrm
from eqrm.errors import DomainDataError


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


@pytest.mark.parametrize("distribution", [eqrm.Gaussian, eqrm.distributions.LogNormal])
def test_a_quantile_too_large_for_a_float_is_refused(
    distribution: type[eqrm.distributions.RiskDistribution],
) -> None:
    risks = torch.tensor([1e300, 1e308], dtype=torch.float64)
    with pytest.raises(DomainDataError, match="too large"):
        distribution(risks).quantile(eqrm.Level(log_tail=-1e30))


@pytest.mark.parametrize("risks", [None, "abc", {"a": 1.0}])
def test_what_holds_no_numbers_is_refused(risks: object) -> None:
    with pytest.raises(DomainDataError, match="list of numbers"):
        eqrm.KDE(risks)  # type: ignore[arg-type]
