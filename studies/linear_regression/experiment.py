"""The computation: sample domains, reduce them to moments, solve, measure risks."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from eqrm import KDE, Level, LinearQRM
from eqrm.linear import DomainMoments, LinearERM
from eqrm.linear.linear_qrm import Frontier
from studies.linear_regression.resampling import (
    Exceptions,
    QuantileCurves,
    count_exceptions,
    drawn_variances,
    quantile_curves,
)
from studies.linear_regression.settings import (
    EXACT_LEVELS,
    LEVELS,
    PATH_LEVELS,
    SIGMA_2,
    TEST_QUANTILES,
    RegressionSettings,
    exact_risk,
    named_level,
    variance_quantile,
)
from studies.linear_worlds import ExampleWorld, example_domains
from studies.outcome import Progress

LARGEST_RISK_DRAWN = 5.0


@dataclass(frozen=True, eq=False)
class DensityCurve:
    """CDF and PDF of a risk on a grid, all (n,)."""

    label: str
    grid: Tensor
    cdf: Tensor
    pdf: Tensor


@dataclass(frozen=True, eq=False)
class RegressionFindings:
    """Everything the checks, tables and figures read.

    ``frontier`` holds the paper's levels and ``path`` the finer grid; ``oracle`` (2,) is least
    squares with X2 shuffled. ``test_risks`` (L + 1, q) are risks on sampled test domains, the
    oracle last, and ``exact_test_risks`` the same without sampling noise. ``variances`` (m,)
    are the drawn σ2², and ``exact_path`` the solutions for the population moments of the
    same domains.
    """

    frontier: Frontier
    path: Frontier
    oracle: Tensor
    variances: Tensor
    exact_path: Frontier
    test_risks: Tensor
    exact_test_risks: Tensor
    curves: list[DensityCurve]
    quantiles: QuantileCurves
    exceptions: list[Exceptions]
    timings: dict[str, float]

    @property
    def spread(self) -> Any:
        """The standard deviation of the risk over training domains, by level (L,)."""
        return self.frontier.risks.std(axis=1, ddof=1)


def run_regression(
    settings: RegressionSettings, seed: int, progress: Progress
) -> RegressionFindings:
    """All of it, from the first random number to the curves of the figures."""
    clock, timings = time.perf_counter, {}
    world = ExampleWorld()
    start = clock()
    train, test = sample_domains(world, settings, seed, progress)
    timings["sampling"] = clock() - start
    progress(0.9, "solving")
    start = clock()
    path = LinearQRM().path(PATH_LEVELS, train)
    timings[f"solving {len(PATH_LEVELS)} levels"] = clock() - start
    frontier = LinearQRM().path(LEVELS, train)
    oracle = oracle_coefficients(train)
    predictors = torch.cat([torch.from_numpy(frontier.coefficients), oracle[None]])
    intercepts = np.append(frontier.intercepts, 0.0)
    tests = torch.tensor([variance_quantile(q) for q in TEST_QUANTILES], dtype=torch.float64)
    population = world.population(example_domains(settings.domains, seed))
    progress(0.93, "risk distributions")
    start = clock()
    quantiles = quantile_curves(frontier, settings, np.random.default_rng([seed, 1]))
    curves = [density_curve(frontier, index) for index in range(len(LEVELS))]
    timings["risk distributions"] = clock() - start
    progress(0.95, "other draws of the domains")
    start = clock()
    exceptions = count_exceptions(settings.domains_per_draw, settings.draws, first_seed=seed)
    timings["other draws"] = clock() - start
    progress(0.97, "figures")
    return RegressionFindings(
        frontier=frontier,
        path=path,
        oracle=oracle,
        variances=drawn_variances(settings.domains, seed),
        exact_path=LinearQRM().path(EXACT_LEVELS, population),
        test_risks=test.risks(predictors, intercepts),
        exact_test_risks=exact_risk(predictors, tests),
        curves=curves,
        quantiles=quantiles,
        exceptions=exceptions,
        timings=timings,
    )


def sample_domains(
    world: ExampleWorld, settings: RegressionSettings, seed: int, progress: Progress
) -> tuple[DomainMoments, DomainMoments]:
    """Moments of sampled training domains and of test domains at the quantiles of σ2.

    Every row is drawn; a domain's rows are reduced to moments as they come, and never kept.
    """

    def tell(share: float) -> None:
        progress(0.9 * share, f"sampling {settings.domains} domains")

    drawn = example_domains(settings.domains, seed)
    tests = {str(q): {"X2": float(SIGMA_2.ppf(q))} for q in TEST_QUANTILES}
    with threadpool_limits(1):  # two threads draw; BLAS must not start more
        train = world.sample_moments(drawn, settings.rows, seed, settings.workers, tell)
        test = world.sample_moments(tests, settings.rows, seed + 2**32, settings.workers)
    return train, test


def oracle_coefficients(moments: DomainMoments) -> Tensor:
    """Least squares with X2 shuffled (2,): shuffling takes away its covariances, in expectation."""
    covariance = moments.covariance.copy()
    other = [0, 2]
    covariance[:, 1, other] = 0.0
    covariance[:, other, 1] = 0.0
    return torch.from_numpy(LinearERM().fit(replace(moments, covariance=covariance)).coef_)


def density_curve(frontier: Frontier, index: int) -> DensityCurve:
    """PDF and CDF of one predictor's training risks (KDE, Gaussian-optimal)."""
    kde = KDE(torch.from_numpy(frontier.risks[index]))
    wide = torch.linspace(0, LARGEST_RISK_DRAWN, 300, dtype=torch.float64)
    low, high = (float(kde.quantile(Level(alpha))) for alpha in (0.0005, 0.9995))
    own = torch.linspace(low, high, 200, dtype=torch.float64)
    grid = torch.cat([wide, own]).unique()
    grid = grid[(grid >= 0) & (grid <= LARGEST_RISK_DRAWN)]
    return DensityCurve(
        named_level(frontier.levels[index]), grid, kde.cdf(grid), kde.log_prob(grid).exp()
    )
