"""The variance between domains: against direct maximisation, closed forms, finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.optimize import minimize_scalar
from torch import Tensor

from eqrm.between_domains import (
    BINS,
    PRIOR_FREEDOM,
    between_domains,
    pooled_variances,
    restricted_log_likelihood,
)
from evaluation.unequal_worlds import SIZES, Vector


def density_of_contrasts(spread: float, risks: Vector, noise: Vector) -> float:
    """The log of the restricted likelihood: that of the risks, the mean integrated out.

    As a multivariate normal density of m − 1 contrasts R_i − R_m, which know nothing of the mean.
    """
    contrasts = risks[:-1] - risks[-1]
    covariance = np.diag(noise[:-1] + spread) + noise[-1] + spread
    return float(stats.multivariate_normal(np.zeros(len(contrasts)), covariance).logpdf(contrasts))


def maximum_by_search(likelihood: Callable[[float], float], risks: Vector) -> float:
    """The best of a fine grid, then Brent's method between its neighbours."""
    grid = np.append(0.0, np.geomspace(1e-7, 4.0, 100) * risks.var(ddof=1))
    values = [likelihood(v) for v in grid]
    best = int(np.argmax(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(
        lambda v: -likelihood(v), bounds=(low, high), method="bounded", options={"xatol": 1e-14}
    )
    return float(found.x) if -found.fun > values[best] else float(grid[best])


def world(sizes: str, number: int, spread: float, seed: int) -> tuple[Vector, Vector]:
    """Normal risks and their sampling variances."""
    rng = np.random.default_rng(seed)
    counts = SIZES[sizes](rng)
    if number < len(counts):
        counts = np.append(counts[:1], rng.choice(counts, number - 1))
    noise = rng.uniform(0.5, 2.0, len(counts)) / counts
    return rng.normal(1.0, np.sqrt(spread**2 + noise)), noise


def estimated(risks: Vector, noise: Vector, weights: Vector | None = None) -> float:
    given = None if weights is None else torch.from_numpy(weights)
    return float(between_domains(torch.from_numpy(risks), torch.from_numpy(noise), given).variance)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("number", [3, 20])
def test_it_is_the_maximum_of_the_restricted_likelihood(sizes: str, number: int) -> None:
    for seed, spread in enumerate([0.0, 0.1, 0.25, 1.0]):
        risks, noise = world(sizes, number, spread, seed)
        truth = maximum_by_search(lambda v: density_of_contrasts(v, risks, noise), risks)  # noqa: B023
        assert estimated(risks, noise) == pytest.approx(truth, rel=1e-5, abs=1e-6 * noise.min())


@pytest.mark.parametrize("spread", [0.02, 0.3])
def test_many_domains_are_solved_as_exactly_as_few(spread: float) -> None:
    rng = np.random.default_rng(0)
    noise = np.exp(rng.uniform(-8.0, 2.0, 20 * BINS))
    risks = rng.normal(1.0, np.sqrt(spread**2 + noise))
    pair = torch.from_numpy(risks), torch.from_numpy(noise)
    truth = maximum_by_search(lambda v: restricted_log_likelihood(v, *pair), risks)
    assert estimated(risks, noise) == pytest.approx(truth, rel=1e-6)


def test_domains_of_one_size_give_the_plain_variance_minus_the_noise() -> None:
    risks = np.random.default_rng(0).normal(0.0, 1.0, 40)
    found = between_domains(torch.from_numpy(risks), torch.full((40,), 0.25, dtype=torch.float64))
    assert found.variance.item() == pytest.approx(risks.var(ddof=1) - 0.25, rel=1e-12)
    assert found.mean.item() == pytest.approx(risks.mean(), rel=1e-12)
    assert found.error.item() == pytest.approx(risks.var(ddof=1) * np.sqrt(2.0 / 40), rel=1e-6)


def test_a_domain_of_weight_zero_is_absent_and_scale_does_not_matter() -> None:
    risks, noise = world("log-uniform, 2 to 600", 20, 0.3, 1)
    alone = estimated(risks[1:], noise[1:])
    weights = np.append(0.0, np.full(19, 1 / 19))
    assert estimated(risks, noise, weights) == pytest.approx(alone, rel=1e-12)
    assert estimated(7.0 + 1e-6 * risks, 1e-12 * noise) == pytest.approx(
        1e-12 * estimated(risks, noise), rel=1e-6
    )


@pytest.mark.parametrize("seed", range(2))
def test_the_gradient_is_that_of_finite_differences(seed: int) -> None:
    """In risks and variances, of the mean and of the variance, with unequal weights."""
    risks, noise = (torch.from_numpy(v).requires_grad_() for v in world("3 to 600", 8, 0.4, seed))
    weights = torch.rand(8, dtype=torch.float64) + 0.5
    weights /= weights.sum()

    def both(*given: Tensor) -> tuple[Tensor, Tensor]:
        return between_domains(*given, weights)[:2]

    assert torch.autograd.gradcheck(both, (risks, noise), eps=1e-7, atol=1e-6)


@pytest.mark.parametrize(
    ("risks", "noise", "variance"),
    [
        ([1.0, 1.0, 1.0], [0.0, 0.0, 0.0], 0.0),
        ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0], 0.0),
        ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0], 1.0),
        ([1.0, 2.0, 3.0], [9.0, 9.0, 9.0], 0.0),
        ([1.0], [1.0], 0.0),
    ],
)
def test_degenerate_domains_have_a_finite_variance_and_gradient(
    risks: list[float], noise: list[float], variance: float
) -> None:
    given = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (risks, noise)]
    found = between_domains(*given)
    assert found.variance.item() == pytest.approx(variance, abs=1e-9)
    assert found.mean.item() == pytest.approx(np.mean(risks))
    for slope in torch.autograd.grad(found.variance + found.mean, given):
        assert bool(slope.isfinite().all())


class TestPooledVariances:
    def test_a_domain_keeps_its_own_variance_as_far_as_it_has_examples(self) -> None:
        counts, own = np.array([2, 51, 100_001, 1]), np.array([4.0, 1.0, 9.0, np.nan])
        freedom = np.array([1.0, 50.0, 100_000.0])
        weights = freedom / (freedom + PRIOR_FREEDOM)
        pool = np.average(own[:3], weights=weights)
        expected: Any = [*(weights * own[:3] + (1 - weights) * pool), pool]
        assert pooled_variances(own, counts).tolist() == pytest.approx(expected, rel=1e-6)

    def test_without_two_examples_anywhere_there_is_no_variance(self) -> None:
        none = pooled_variances(np.array([np.nan, np.nan]), np.array([1, 0]))
        assert none.tolist() == [0.0, 0.0]
