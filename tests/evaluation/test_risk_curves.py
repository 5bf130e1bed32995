"""Curves to draw against scipy's mixture and the definition of the step CDF."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import norm

from eqrm import KDE, Empirical, Level
from eqrm.evaluation.presenting.risk_curves import shared_grid, smooth_curve, step_curve

RISKS = torch.tensor([0.22, 0.3, 0.34, 0.52, 0.8], dtype=torch.float64)


def test_the_smooth_curve_is_the_mixture_of_normals() -> None:
    kde = KDE(RISKS, bandwidth=0.1)
    curve = smooth_curve(kde, "KDE", shared_grid(kde), Level(0.9))
    z = (curve.grid.numpy()[:, None] - RISKS.numpy()) / 0.1
    assert curve.pdf is not None
    np.testing.assert_allclose(curve.cdf.numpy(), norm.cdf(z).mean(1), rtol=1e-12)
    np.testing.assert_allclose(curve.pdf.numpy(), norm.pdf(z).mean(1) / 0.1, rtol=1e-12)
    assert curve.quantile is not None
    assert norm.cdf((curve.quantile - RISKS.numpy()) / 0.1).mean() == pytest.approx(0.9, rel=1e-12)


def test_the_step_curve_is_the_share_of_risks_at_or_below() -> None:
    curve = step_curve(Empirical(RISKS), "steps", torch.linspace(0, 1, 7, dtype=torch.float64))
    shares = (curve.grid[:, None] >= RISKS).double().mean(1)
    assert torch.allclose(curve.cdf, shares)
    assert set(RISKS.tolist()) <= set(curve.grid.tolist())


def test_the_grid_covers_all_but_a_thousandth() -> None:
    kde = KDE(RISKS)
    grid = shared_grid(kde)
    assert float(kde.cdf(grid[0])) == pytest.approx(0.0005, rel=1e-6)
    assert float(kde.sf(grid[-1])) == pytest.approx(0.0005, rel=1e-6)
