"""Worlds with a known law of domain risks, and how often each certificate holds in them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from eqrm.evaluation import (
    cdf_band,
    domains_needed,
    probability_bound,
    quantile_bound,
    true_probability_bound,
    true_risk_bound,
)


class Eighths:
    """Binomial(8, 0.4)/8: a law of risks with nine values, in scipy's manner."""

    def __init__(self) -> None:
        self.law = stats.binom(8, 0.4)

    def rvs(self, shape: Any, random_state: Any) -> Any:
        return self.law.rvs(shape, random_state=random_state) / 8

    def cdf(self, risk: Any) -> Any:
        return self.law.cdf(np.asarray(risk) * 8)

    def ppf(self, level: float) -> float:
        return float(self.law.ppf(level)) / 8


@dataclass(frozen=True)
class RiskLaw:
    """A law of the risk of a domain, from scipy; ``continuous`` if it has no jumps."""

    name: str
    law: Any
    continuous: bool = True


LAWS = [
    RiskLaw("uniform", stats.uniform(0, 1)),
    RiskLaw("lognormal", stats.lognorm(0.8)),
    RiskLaw("Pareto with infinite variance", stats.pareto(1.5)),
    RiskLaw("beta with two peaks", stats.beta(0.4, 0.6)),
    RiskLaw("discrete, nine values", Eighths(), continuous=False),
]
TRUE_LAWS = [
    RiskLaw("beta", stats.beta(2, 8)),
    RiskLaw("beta with two peaks", stats.beta(0.4, 0.6)),
    RiskLaw("uniform", stats.uniform(0, 1)),
    RiskLaw("heavy near 0", stats.beta(0.2, 3)),
    RiskLaw("discrete, nine values", Eighths(), continuous=False),
]


@dataclass(frozen=True)
class Coverage:
    """How often a certificate held in simulated worlds, and how often it should."""

    what: str
    law: str
    domains: int
    worlds: int
    held: float
    stated: float
    exact: float | None = None

    @property
    def error(self) -> float:
        """4 standard errors of the simulation: of thousands of cases none should exceed it."""
        return 4.0 * math.sqrt(self.stated * (1.0 - self.stated) / self.worlds)

    @property
    def holds(self) -> bool:
        """At least as often as stated, and where it is exact, just as often."""
        if self.held < self.stated - self.error:
            return False
        return self.exact is None or abs(self.held - self.exact) <= self.error


def measured_risk_coverage(
    law: RiskLaw, m: int, alpha: float, confidence: float, worlds: int, seed: int
) -> list[Coverage]:
    """Order-statistic bound, probability bound and both bands, in the same worlds."""
    generator = np.random.default_rng([seed, m, round(1000 * alpha)])
    draws = np.asarray(law.law.rvs((worlds, m), random_state=generator), dtype=np.float64)
    found = []

    def add(what: str, held: Any, stated: float, exact: float | None = None) -> None:
        share = float(np.mean(held))
        found.append(Coverage(what, law.name, m, worlds, share, stated, exact))

    if m >= domains_needed(alpha, confidence):
        bounds = [quantile_bound(risks, alpha, confidence) for risks in draws]
        achieved = bounds[0].achieved
        held = np.array([bound.bound for bound in bounds]) >= law.law.ppf(alpha)
        add("order statistic", held, achieved, achieved if law.continuous else None)
    threshold = float(law.law.ppf(0.8))
    truth = float(law.law.cdf(threshold))
    lows = [probability_bound(risks, threshold, confidence).bound for risks in draws]
    add("probability", np.array(lows) <= truth, confidence)
    ordered = np.sort(draws, axis=1)
    at_risk, before = law.law.cdf(ordered), law.law.cdf(np.nextafter(ordered, -np.inf))
    for method in ("dkw", "exact"):
        band = cdf_band(draws[0], confidence, method)
        inside = (at_risk >= band.lower[1:]) & (before <= band.upper[:-1])
        exact = band.achieved if law.continuous else None
        add(f"{method} band", inside.all(axis=1), band.achieved, exact)
    return found


def true_risk_coverage(
    law: RiskLaw,
    m: int,
    alpha: float,
    confidence: float,
    worlds: int,
    seed: int,
    methods: tuple[str, ...] = ("auto", "kl", "bernstein", "clopper-pearson"),
) -> list[Coverage]:
    """Bounds on the true risk, from domains measured on 5 to 200 examples with losses 0 or 1."""
    generator = np.random.default_rng([seed, m, 7])
    truth = np.asarray(law.law.rvs((worlds, m), random_state=generator), dtype=np.float64)
    counts = generator.integers(5, 200, (worlds, m))
    measured = generator.binomial(counts, truth) / counts
    variances = measured * (1 - measured) * counts / (counts - 1)
    quantile, threshold = float(law.law.ppf(alpha)), float(law.law.ppf(0.8))
    share = float(law.law.cdf(threshold))
    enough, found = m >= domains_needed(alpha, confidence), []
    for method in methods:
        bounds, shares = [], []
        for risks, n, s2 in zip(measured, counts, variances, strict=True):
            options: dict[str, Any] = {"loss_variances": s2, "method": method}
            if enough:
                bound = true_risk_bound(risks, n, alpha, confidence, **options)
                bounds.append(bound.bound >= quantile)
            low = true_probability_bound(risks, n, threshold, confidence, **options)
            shares.append(low.bound <= share)
        for what, held in (("true quantile", bounds), ("true probability", shares)):
            if held:
                share_held = float(np.mean(held))
                name = f"{what}, {method}"
                found.append(Coverage(name, law.name, m, worlds, share_held, confidence))
    return found
