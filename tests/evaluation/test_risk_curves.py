"""Drawn curves against scipy's mixture and the definition of the step CDF."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import norm

import eqrm
from eqrm.evaluation.presenting.plots import draw_risk_cdf, draw_risk_distribution

RISKS = np.array([0.22, 0.3, 0.34, 0.52, 0.8])


def test_smooth_curves_are_the_mixture_of_normals_with_its_quantile_marked() -> None:
    kde = eqrm.KDE(RISKS, bandwidth=0.1)
    density, distribution = draw_risk_distribution(kde, eqrm.Level(0.9)).axes
    (grid, pdf), (same, cdf) = (axes.get_lines()[0].get_data() for axes in (density, distribution))
    z = (np.asarray(grid)[:, None] - RISKS) / 0.1
    np.testing.assert_array_equal(grid, same)
    np.testing.assert_allclose(pdf, norm.pdf(z).mean(1) / 0.1, rtol=1e-12)
    np.testing.assert_allclose(cdf, norm.cdf(z).mean(1), rtol=1e-12)
    assert [cdf[0], cdf[-1]] == pytest.approx([0.0005, 0.9995], rel=1e-6)
    (quantile, _) = density.get_lines()[1].get_xdata()
    assert norm.cdf((quantile - RISKS) / 0.1).mean() == pytest.approx(0.9, rel=1e-12)


def test_step_curves_are_the_share_of_risks_at_or_below() -> None:
    axes = Figure().subplots()
    eqrm.evaluate(domains=range(5), losses=RISKS[::-1]).plot(axes)
    figure = draw_risk_cdf(eqrm.KDE(RISKS), eqrm.Level(0.9))
    for line in (axes.get_lines()[0], figure.axes[0].get_lines()[0]):
        risks, heights = line.get_data()
        assert line.get_drawstyle() == "steps-post"
        assert heights[1:].tolist() == [(r >= RISKS).mean() for r in risks[1:]]
        assert set(RISKS) <= set(risks)
