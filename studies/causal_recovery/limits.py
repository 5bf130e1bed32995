"""Where EQRM, VREx and IRM end as their level or penalty grows, from population moments."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eqrm import LinearQRM
from eqrm.linear import DomainMoments, LinearERM, LinearIRM, LinearVREx
from eqrm.linear.linear_qrm import Frontier
from studies.causal_recovery.invariance import InvariantRisk, minimal_invariant_risk
from studies.causal_recovery.settings import LEVELS, PENALTY_WEIGHTS, SIGMAS, Case
from studies.linear_worlds import ExampleWorld, changing_sigmas

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Solved:
    """One case: its moments, the decision, and where each method ends."""

    case: Case
    moments: DomainMoments
    decided: InvariantRisk
    path: Frontier
    vrex: Array
    irm: Array

    @property
    def eqrm(self) -> Array:
        """Coefficients (2,) at the deepest level."""
        deepest: Array = self.path.coefficients[-1]
        return deepest

    @property
    def distances(self) -> list[float]:
        """The distance of EQRM from the true predictor, by level; empty where there is none."""
        if self.case.truth is None:
            return []
        away = self.path.coefficients - np.array(self.case.truth)
        return [float(np.linalg.norm(each)) for each in away]

    @property
    def remaining_spread(self) -> float:
        """The spread of EQRM's risks at the deepest level."""
        risks = self.path.risks[-1]
        return float(risks.max() - risks.min())


def solve_case(case: Case) -> Solved:
    """Decide a case and follow each method to its limit."""
    sigmas = {name: SIGMAS[name] for name in case.changing}
    world = ExampleWorld(sigma_y=case.sigma_y, sigma2=case.sigma2)
    moments = world.population(changing_sigmas(**sigmas))
    return Solved(
        case=case,
        moments=moments,
        decided=minimal_invariant_risk(case.variances(sigmas)),
        path=LinearQRM(fit_intercept=False).path(LEVELS, moments),
        vrex=_vrex_limit(moments),
        irm=_irm_limit(moments),
    )


def _vrex_limit(moments: DomainMoments) -> Array:
    """Coefficients (2,) of VREx, its penalty raised step by step from least squares."""
    start = LinearERM(fit_intercept=False).fit(moments).coef_
    for weight in PENALTY_WEIGHTS:
        model = LinearVREx(weight, fit_intercept=False, starts=[start.tolist()])
        start = model.fit(moments).coef_
    return start


def _irm_limit(moments: DomainMoments) -> Array:
    """Coefficients (2,) of IRMv1: every minimum at the first penalty followed to the last.

    IRMv1 has several minima, the zero predictor among them; the lowest is taken.
    """
    grid = list(itertools.product((-0.5, 0.25, 1.0), repeat=2))
    first = LinearIRM(PENALTY_WEIGHTS[0], fit_intercept=False, starts=grid).fit(moments)
    ends = []
    for minimum in first.minima_:
        start = minimum.coefficients
        for weight in PENALTY_WEIGHTS[1:]:
            model = LinearIRM(weight, fit_intercept=False, starts=[start.tolist()]).fit(moments)
            start = model.coef_
        ends.append((model.value_, start))
    return min(ends, key=lambda end: end[0])[1]
