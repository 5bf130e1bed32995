"""The grid on which the KDE quantile is compared with 50-digit arithmetic, and how it is judged.

``make verify`` runs all of it; the tests run the sample that :func:`sample_of_grid` picks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from oracle.kde_mpmath import Floats, KdeTruth, kde_truth
from oracle.laws import LAWS, draw_risks, draw_weights

COUNTS = (2, 3, 10, 100, 1000)
MANY, LONG_ROW = 20_000, 9_000
"""The package has its own code for this many domains; the tests take as few of them as will do."""

ALPHAS = (1e-6, 1e-4, 0.01, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.95, 0.99, 0.999, 1 - 1e-6)
LOG_TAILS = (-20.0, -50.0, -100.0, -300.0, -590.0, -610.0, -745.0, -1000.0)
EXTREME_LOG_TAIL = -1e6

VALUE_TOLERANCE = 1e-12
GRADIENT_TOLERANCE = 1e-10
RESIDUAL_TOLERANCE = 1e-12
EXTREME_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Case:
    """One comparison: risks of a law, a bandwidth, a level given as the float log(1 - alpha)."""

    law: str
    m: int
    seed: int
    log_tail: float
    bandwidth: str | float = "gaussian-optimal"
    weighted: bool = False

    def risks(self) -> Floats:
        return draw_risks(self.law, self.m, self.seed)

    def weights(self) -> Floats | None:
        return draw_weights(self.m, self.seed) if self.weighted else None

    def truth(self) -> KdeTruth:
        weights = self.weights()
        return kde_truth(
            self.risks().tolist(),
            self.log_tail,
            self.bandwidth,
            None if weights is None else weights.tolist(),
        )

    def __str__(self) -> str:
        weights = ", weighted" if self.weighted else ""
        return (
            f"{self.law}, m={self.m}, seed {self.seed}, log tail {self.log_tail:.17g}, "
            f"{self.bandwidth}{weights}"
        )


@dataclass(frozen=True)
class Judgement:
    """The errors of one case and whether they are within the bounds."""

    in_gap: bool
    value_error: float
    gradient_error: float
    residual: float
    at_rounding: bool
    passed: bool


def judge(truth: KdeTruth, quantile: float, gradient: Floats) -> Judgement:
    """Compare value and gradient with the truth, or the residual alone in a gap between risks.

    In a gap the value is ill-conditioned, and the residual of the float nearest to the true
    quantile may itself exceed the bound; a quantile within one unit in the last place of the
    truth therefore counts as right.
    """
    value_error = truth.value_error(quantile)
    gradient_error = truth.gradient_error(gradient)
    extreme = truth.log_tail < -1000.0
    finite = bool(np.isfinite(quantile) and np.isfinite(gradient).all())
    if truth.well_conditioned:
        value_bound = EXTREME_TOLERANCE if extreme else VALUE_TOLERANCE
        gradient_bound = EXTREME_TOLERANCE if extreme else GRADIENT_TOLERANCE
        passed = finite and value_error <= value_bound and gradient_error <= gradient_bound
        return Judgement(False, value_error, gradient_error, math.nan, False, passed)
    residual = truth.residual(quantile)
    bound = EXTREME_TOLERANCE if extreme else RESIDUAL_TOLERANCE
    at_rounding = abs(quantile - float(truth.quantile)) <= math.ulp(quantile)
    passed = finite and (residual <= bound or at_rounding)
    return Judgement(True, value_error, gradient_error, residual, at_rounding, passed)


@dataclass
class Tally:
    """The worst errors over many cases, and how many there were."""

    worst: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(
            ("value", "gradient", "residual in gaps", "at 1-e^-1e6"), 0.0
        )
    )
    failures: list[str] = field(default_factory=list)

    def add(self, case: Case, found: Judgement, where: str = "") -> None:
        """Count a case, and keep its text if it failed."""
        if not found.passed:
            self.failures.append(f"{case}{where}: {found}")
        if found.in_gap:
            self._raise("residual in gaps", found.residual)
        elif case.log_tail < -1000.0:
            self._raise("at 1-e^-1e6", max(found.value_error, found.gradient_error))
        else:
            self._raise("value", found.value_error)
            self._raise("gradient", found.gradient_error)

    def _raise(self, name: str, error: float) -> None:
        self.worst[name] = max(self.worst[name], error)

    def __str__(self) -> str:
        return "worst " + ", ".join(f"{name} {error:.1e}" for name, error in self.worst.items())


def log_tails() -> tuple[float, ...]:
    """log(1 - alpha) from alpha = 1e-6 to 1 - e^-1000, then 1 - e^-1000000."""
    return (*(math.log1p(-a) for a in ALPHAS), *LOG_TAILS, EXTREME_LOG_TAIL)


def full_grid(seeds: int = 3) -> Iterator[Case]:
    """Every law, number of domains and level with the default rule; then other rules, weights."""
    for m in COUNTS:
        for law in LAWS:
            for log_tail in log_tails():
                for seed in range(seeds):
                    yield Case(law, m, seed, log_tail)
                yield Case(law, m, 0, log_tail, bandwidth="silverman")
                yield Case(law, m, 0, log_tail, bandwidth=0.3)
                if m <= 100:
                    yield Case(law, m, 0, log_tail, weighted=True)
                    yield Case(law, m, 0, log_tail, bandwidth="scott")
                    yield Case(law, m, 0, log_tail, bandwidth="median")
                    yield Case(law, m, 0, log_tail, bandwidth=0.1, weighted=True)
    for law in ("lognormal", "outlier", "nearly-equal"):
        for alpha in (1e-6, 0.3, 0.5, 0.999):
            yield Case(law, MANY, 0, math.log1p(-alpha))
        yield Case(law, MANY, 0, math.log1p(-0.75), weighted=True)
        yield Case(law, MANY, 0, -1000.0)


def sample_of_grid(every: int = 61, every_large: int = 301) -> Iterator[Case]:
    """A fixed sample of the grid: each ``every``-th case, fewer of those with 1000 domains."""
    small = [case for case in full_grid() if case.m < 1000]
    large = [case for case in full_grid() if case.m == 1000]
    yield from small[::every]
    yield from large[::every_large]
    # A solver that starts in the gap beside an outlier has to find its way out.
    for law in ("outlier", "pareto", "student"):
        for alpha in (1e-4, 0.4, 1.0 - 1e-6):
            yield Case(law, 1000, 0, math.log1p(-alpha))
    yield Case("lognormal", LONG_ROW, 0, -1000.0, weighted=True)
