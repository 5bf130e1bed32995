"""What the linear-regression experiment must give, and where that comes from.

The paper prints no numbers for Figure 3, only curves and claims. Beside the claims there is a
closed form: with many samples the risk of β in a domain with variance v = σ2² of X2's noise is

    R = (β1 + β2 − 1)²·1 + (β2 − 1)²·2 + β2²·v      (appendix G.1.2),

which for β1 + β2 = 1 is a location-scale family in v. Its α-quantile is least at
β2 = 2/(2 + Q_α), where Q_α is the α-quantile that the estimator gives for the drawn v.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eqrm.distributions.kernel import KDE
from eqrm.level import Level
from eqrm.linear.scm.laws import LogNormal

VARIANCE_1, VARIANCE_Y = 1.0, 2.0
SIGMA_2 = LogNormal(0.0, 0.5**0.5)

FIGURE_A = "Figure 3 A: for each quantile, the corresponding α has the lowest risk"
FIGURE_B = "Figure 3 B: as α → 1 the risk distribution approaches a point mass"
FIGURE_C = "Figure 3 C: coefficients approach (1, 0) as α → 1"
FIGURE_D = "Figure 3 D: fewer domains give less accurate risk quantiles"
FIGURE_CDF = "appendix G.1.1: each α has the lowest upper bound at its own probability"
CLOSED_FORM = "closed form from appendix G.1.2"


def exact_risk(coefficients: Tensor, variance: Tensor) -> Tensor:
    """The risk without sampling noise: β (…, 2) and v (k,) give (…, k).

    >>> exact_risk(torch.tensor([1.0, 0.0]), torch.tensor([0.5, 7.0]))
    tensor([2., 2.])
    """
    first, second = coefficients[..., :1], coefficients[..., 1:2]
    fixed = (first + second - 1) ** 2 * VARIANCE_1 + (second - 1) ** 2 * VARIANCE_Y
    return fixed + second**2 * variance


def exact_coefficients(level: Level, variances: Tensor) -> Tensor:
    """(1 − β2, β2) for the drawn variances (m,), with the KDE's quantile of them.

    >>> exact_coefficients(Level(0.5), torch.full((3,), 2.0)).tolist()
    [0.5, 0.5]
    """
    second = VARIANCE_Y / (VARIANCE_Y + float(KDE(variances).quantile(level)))
    return torch.tensor([1 - second, second], dtype=torch.float64)


def variance_quantile(probability: float) -> float:
    """The quantile of σ2² under the law over domains.

    >>> round(variance_quantile(0.5), 12)
    1.0
    """
    return SIGMA_2.quantile(probability) ** 2
