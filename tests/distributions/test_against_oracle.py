"""The KDE quantile and its gradient against 50-digit arithmetic and scipy.

A fixed sample of the grid that ``make verify`` runs in full.
"""

from __future__ import annotations

import math
from collections import defaultdict
from unittest import mock

import mpmath as mp
import numpy as np
import pytest
import torch
from scipy.stats import gaussian_kde

import eqrm
from cases import in_full
from eqrm.distributions.kde import native
from eqrm.distributions.order_statistics import median_distance, row_median_distance
from oracle.bandwidths_mpmath import RULES, bandwidth_of
from oracle.grid import Case, sample_of_grid
from oracle.kde_mpmath import WORKING_DIGITS, kde_truth
from oracle.laws import draw_risks, draw_weights
from oracle.package import ROADS, judge_case

LEVELS = (1e-4, 0.1, 0.5, 0.75, 0.99)
LOG_TAILS = (*(math.log1p(-a) for a in LEVELS), -100.0, -1000.0)


def _sample() -> dict[tuple[str, int], list[Case]]:
    groups: dict[tuple[str, int], list[Case]] = defaultdict(list)
    for case in sample_of_grid():
        groups[case.law, case.m].append(case)
    return groups


SAMPLE = _sample()
QUICK = [(law, m) for law, m in sorted(SAMPLE) if m < 100] + [
    ("lognormal", 100),
    ("lognormal", 1000),
]
OTHERS = [part for part in sorted(SAMPLE) if part not in QUICK]


@pytest.mark.unmeasured
@pytest.mark.parametrize("part", [*QUICK, *in_full(*OTHERS)], ids=lambda p: f"{p[0]}-{p[1]}")
def test_quantile_and_gradient_match_50_digits_on_every_road(part: tuple[str, int]) -> None:
    failures = [
        f"{case} ({road}): {judgement}"
        for case in SAMPLE[part]
        for road, judgement in judge_case(case, ROADS).items()
        if not judgement.passed
    ]
    assert not failures, "\n".join(failures)


@pytest.mark.unmeasured
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("log_tail", [math.log1p(-0.1), math.log1p(-0.75), -1000.0])
def test_oracle_gradient_is_the_slope_of_the_oracle_quantile(
    log_tail: float, weighted: bool
) -> None:
    """The truth itself: central differences of 80-digit roots, nothing implicit about them."""
    risks = draw_risks("lognormal", 5, 0).tolist()
    weights = draw_weights(5, 0).tolist() if weighted else None
    truth = kde_truth(risks, log_tail, weights=weights)
    step = 2.0**-20
    for i in range(len(risks)):
        ends = [
            kde_truth([r + s * (j == i) for j, r in enumerate(risks)], log_tail, weights=weights)
            for s in (-2 * step, -step, step, 2 * step)
        ]
        with mp.workdps(WORKING_DIGITS):
            a, b, c, d = (end.quantile for end in ends)
            slope = float((a - 8 * b + 8 * c - d) / (12 * mp.mpf(step)))
        assert slope == pytest.approx(truth.gradient[i], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("alpha", [0.05, 0.5, 0.9, 0.99])
def test_scipys_kde_puts_probability_alpha_below_the_quantile(alpha: float) -> None:
    risks, weights = draw_risks("lognormal", 50, 2), draw_weights(50, 2)
    p = weights / weights.sum()
    factor = (4.0 * float(p @ p) / 3.0) ** 0.2
    estimate = gaussian_kde(risks, bw_method=factor, weights=weights)
    q = eqrm.KDE(torch.from_numpy(risks), weights=torch.from_numpy(weights)).quantile(alpha)
    assert estimate.integrate_box_1d(-np.inf, float(q)) == pytest.approx(alpha, abs=1e-12)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("m", [2, 5, 40])
@pytest.mark.parametrize("law", ["lognormal", "nearly-equal", "two-cluster"])
def test_bandwidth_and_its_gradient_match_50_digits(rule: str, m: int, law: str) -> None:
    values = draw_risks(law, m, 3)
    with mp.workdps(WORKING_DIGITS):
        h, gradient = bandwidth_of(rule, [mp.mpf(r) for r in values], [mp.mpf(1) / m] * m)
    risks = torch.from_numpy(values).requires_grad_()
    found = eqrm.KDE(risks, bandwidth=rule).bandwidth
    found.backward()
    expected = np.array([float(g) for g in gradient])
    assert float(found.detach()) == pytest.approx(float(h), rel=1e-13)
    assert risks.grad is not None
    np.testing.assert_allclose(
        risks.grad.numpy(), expected, rtol=0, atol=1e-12 * np.abs(expected).max()
    )


@pytest.mark.parametrize("law", ["lognormal", "two-cluster", "outlier", "few values"])
@pytest.mark.parametrize("m", [2, 3, 33, 200, 1001])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("road", ["C", "numpy", "tensors"])
def test_median_bandwidth_is_the_median_of_all_pairwise_distances(
    road: str, m: int, law: str, weighted: bool
) -> None:
    values = np.arange(m) % 7.0 if law == "few values" else draw_risks(law, m, 4)
    weights = 0.1 + draw_risks("uniform", m, 5) if weighted else np.ones(m)
    first, second = np.triu_indices(m, 1)
    distances, pair_weights = (
        np.abs(values[first] - values[second]),
        weights[first] * weights[second],
    )
    order = distances.argsort()
    reached = pair_weights[order].cumsum() / pair_weights.sum() - 0.5
    lower, upper = (reached >= -1e-12).argmax(), (reached > 1e-12).argmax()
    expected = 0.5 * (distances[order[lower]] + distances[order[upper]])
    given = weights / weights.sum() if weighted else None
    if road == "tensors":
        share = None if given is None else torch.from_numpy(given)
        found = float(median_distance(torch.from_numpy(values), share))
    else:
        with mock.patch.object(native, "LIBRARY", native.LIBRARY if road == "C" else None):
            found, places, shares = row_median_distance(values, given)
        assert float(shares @ values[places]) == pytest.approx(found, abs=1e-12 * np.ptp(values))
    assert found == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.3, 0.5, 0.77, 0.9, 1.0])
@pytest.mark.parametrize("m", [1, 2, 10, 37])
def test_empirical_quantiles_match_numpys(m: int, alpha: float) -> None:
    values = draw_risks("lognormal", m, 6)
    risks = torch.from_numpy(values)
    step = eqrm.Empirical(risks, interpolation="step").quantile(alpha)
    linear = eqrm.Empirical(risks, interpolation="linear").quantile(alpha)
    assert float(step) == np.quantile(values, alpha, method="inverted_cdf")
    assert float(linear) == pytest.approx(float(np.quantile(values, alpha)), rel=1e-13)
