"""Superquantiles against numerical integration and their dual linear program."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import eqrm
from cases import in_full
from oracle.catalogue import DISTRIBUTIONS, distinct_risks
from oracle.kde_scipy import NormalMixture
from oracle.laws import LAWS, draw_risks, draw_weights
from oracle.superquantiles import (
    dual_superquantile,
    integrated_superquantile,
    step_superquantile,
)

LOG_TAILS = (math.log(0.99), math.log(0.5), math.log(0.1), math.log(0.01), -30.0, -1000.0)

# The solver of the linear program does not resolve risks that differ by 1e-9 of their size.
OTHER_LAWS = [law for law in LAWS if law not in ("lognormal", "nearly-equal")]


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("bandwidth", ["gaussian-optimal", *in_full("silverman", 0.2)])
@pytest.mark.parametrize("log_tail", LOG_TAILS)
@pytest.mark.parametrize("m", [12, *in_full(2, 5, 40)])
@pytest.mark.parametrize("law", ["lognormal", *in_full("uniform", "student", "two-cluster")])
def test_kde_superquantile_matches_integration_of_the_tail(
    law: str, m: int, log_tail: float, bandwidth: str | float, weighted: bool
) -> None:
    risks = draw_risks(law, m, 0)
    weights = draw_weights(m, 0) if weighted else None
    estimate = eqrm.KDE(
        torch.from_numpy(risks),
        bandwidth=bandwidth,
        weights=None if weights is None else torch.from_numpy(weights),
    )
    h = float(estimate.bandwidth)
    mixture = NormalMixture(risks, h, weights)
    level = eqrm.Level(log_tail=log_tail)
    panel = h / max(1.0, level.z)
    expected = integrated_superquantile(mixture.log_sf, mixture.quantile(log_tail), panel)
    found = float(estimate.superquantile(level))
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-10 * np.ptp(risks))


@pytest.mark.parametrize("log_tail", LOG_TAILS)
def test_gaussian_superquantile_matches_integration_of_the_tail(log_tail: float) -> None:
    risks = draw_risks("lognormal", 12, 1)
    std = float(risks.std(ddof=1))
    normal = NormalMixture([risks.mean()], std)
    level = eqrm.Level(log_tail=log_tail)
    panel = std / max(1.0, level.z)
    expected = integrated_superquantile(normal.log_sf, normal.quantile(log_tail), panel)
    found = eqrm.Gaussian(torch.from_numpy(risks)).superquantile(level)
    assert float(found) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("interpolation", ["step", "linear"])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("alpha", [0.0, 0.13, 0.5, 0.8, 0.97])
@pytest.mark.parametrize("m", [15, *in_full(1, 2, 7, 60)])
@pytest.mark.parametrize("law", ["lognormal", *in_full(*OTHER_LAWS)])
def test_empirical_superquantile_matches_integral_and_dual(
    law: str, m: int, alpha: float, weighted: bool, interpolation: str
) -> None:
    """Interpolation is a way to read off a quantile; the law has a step at each risk."""
    risks = draw_risks(law, m, 2)
    weights = draw_weights(m, 2) if weighted else np.ones(m)
    given = torch.from_numpy(weights)
    estimate = eqrm.Empirical(torch.from_numpy(risks), weights=given, interpolation=interpolation)
    found = float(estimate.superquantile(alpha))
    assert found == pytest.approx(step_superquantile(risks, alpha, weights), rel=1e-12)
    dual = dual_superquantile(risks, weights / weights.sum(), alpha)
    assert found == pytest.approx(dual, rel=1e-9)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_superquantile_tends_to_the_mean_as_alpha_tends_to_zero(distribution: str) -> None:
    estimate = DISTRIBUTIONS[distribution](distinct_risks(9))
    near_zero = float(estimate.superquantile(eqrm.Level(1e-12)))
    assert near_zero == pytest.approx(float(estimate.mean), rel=1e-9)
