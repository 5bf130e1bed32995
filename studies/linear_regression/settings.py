"""Linear regression: the settings, and what must come out.

The paper prints no numbers for Figure 3, only curves and claims. Beside the claims there is a
closed form: with many samples the risk of β in a domain with variance v = σ2² of X2's noise is

    R = (β1 + β2 − 1)²·1 + (β2 − 1)²·2 + β2²·v      (appendix G.1.2),

which for β1 + β2 = 1 is a location-scale family in v. Its α-quantile is least at
β2 = 2/(2 + Q_α), where Q_α is the α-quantile that the estimator gives for the drawn v.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.stats import lognorm
from torch import Tensor

from eqrm import KDE, Level

# Published code, and §6.1 where they agree: the paper's α → 1 is log(1−α) = −1e30 there.
LEVELS = (
    Level(0.25),
    Level(0.5),
    Level(0.75),
    Level(0.9),
    Level(0.99),
    Level(log_tail=-1e30),
)
TEST_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999)

# A finer path, to time the solver and to tabulate the way to the causal predictor.
PATH_LEVELS = (
    *(Level(alpha) for alpha in (0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999)),
    *(Level(log_tail=tail) for tail in (-20.0, -100.0, -1000.0, -1e30)),
)

# For the solutions without sampling noise: as deep as float64 still sees the mean risk beside
# the spread, which is multiplied by z = √(−2 log(1−α)).
EXACT_LEVELS = (*LEVELS[:-1], *(Level(log_tail=tail) for tail in (-1e2, -1e4, -1e6, -1e8)))

VARIANCE_1, VARIANCE_Y = 1.0, 2.0
SIGMA_2 = lognorm(0.5**0.5)

FIGURE_A = "Figure 3 A: for each quantile, the corresponding α has the lowest risk"
FIGURE_B = "Figure 3 B: as α → 1 the risk distribution approaches a point mass"
FIGURE_C = "Figure 3 C: coefficients approach (1, 0) as α → 1"
FIGURE_D = "Figure 3 D: fewer domains give less accurate risk quantiles"
FIGURE_CDF = "appendix G.1.1: each α has the lowest upper bound at its own probability"
CLOSED_FORM = "closed form from appendix G.1.2"


@dataclass(frozen=True)
class RegressionSettings:
    """Sizes and tolerances. The defaults are the paper's size.

    ``subset_sizes`` are the m < 1000 of Figure 3 D and ``subsets`` how many random subsets its
    error is averaged over; the paper names neither, they are ours. ``near_closed_form`` bounds
    the distance of coefficients from their limit for many samples, ``near_causal`` that of the
    last level from (1, 0). There the spread of measured risks is minimised, and most of it is
    sampling noise: by chance it falls along some direction, which moves β_cause by about 1/√m,
    and its size keeps β_effect above 0 by about n^(−1/3). ``exact`` and
    ``exact_near_causal`` are the same two without sampling.
    ``draws`` other draws of the domains are judged by the closed form.
    """

    domains: int = 1000
    rows: int = 200_000
    subset_sizes: tuple[int, ...] = (10, 30, 100, 300)
    subsets: int = 100
    near_closed_form: float = 0.01
    near_causal: float = 0.1
    exact: float = 1e-8
    exact_near_causal: float = 1e-3
    draws: int = 100
    domains_per_draw: int = 1000
    workers: int = 2


SIZES = {
    "full": RegressionSettings(),
    "quick": RegressionSettings(
        domains=300,
        rows=40_000,
        subset_sizes=(5, 20, 80),
        subsets=40,
        near_closed_form=0.03,
        near_causal=0.2,
        draws=5,
    ),
}


def printed_level(level: Level) -> str:
    """The level as the paper prints it."""
    return "→ 1" if level.log_tail == -1e30 else str(level)


def named_level(level: Level) -> str:
    """The same with its symbol."""
    return f"α = {printed_level(level)}".replace("= →", "→")


def expected_winner(quantile: float) -> int:
    """The index of the level for a test quantile: its own, else the next above."""
    for index, level in enumerate(LEVELS):
        if quantile <= level.alpha + 1e-9:
            return index
    return len(LEVELS) - 1


def exact_risk(coefficients: Tensor, variance: Tensor) -> Tensor:
    """The risk without sampling noise: β (…, 2) and v (k,) give (…, k)."""
    first, second = coefficients[..., :1], coefficients[..., 1:2]
    fixed = (first + second - 1) ** 2 * VARIANCE_1 + (second - 1) ** 2 * VARIANCE_Y
    return fixed + second**2 * variance


def exact_coefficients(level: Level, variances: Tensor) -> Tensor:
    """(1 − β2, β2) for the drawn variances (m,), with the KDE's quantile of them."""
    second = VARIANCE_Y / (VARIANCE_Y + float(KDE(variances).quantile(level)))
    return torch.tensor([1 - second, second], dtype=torch.float64)


def variance_quantile(probability: float) -> float:
    """The quantile of σ2² under the law over domains."""
    return float(SIGMA_2.ppf(probability)) ** 2
