"""ERM, VREx, GroupDRO and IRMv1 on the same moments, with the same interface as LinearQRM."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from eqrm.checks import NON_NEGATIVE, one_of
from eqrm.errors import DomainDataError
from eqrm.level import Level
from eqrm.linear.linear_model import LinearModel, Starts
from eqrm.linear.moments.domain_moments import DomainMoments
from eqrm.linear.solving.criteria import Criterion, MeanPlusSquares, MeasureOfRisks
from eqrm.linear.solving.kernel_measures import WorstShare
from eqrm.linear.solving.measures import Mean, MeanPlusVariance
from eqrm.linear.solving.risk_functions import Array, Quadratics, scale_slope_quadratics


@dataclass(eq=False, repr=False)
class LinearERM(LinearModel):
    """Least squares: the smallest mean risk, every domain counted once, or every row.

    ``weights="domains"`` is ERM over domains; ``"rows"`` is ordinary least squares on the rows
    of all domains together. The other settings are those of :class:`LinearModel`.

    >>> X, y, groups = [[0.0], [1.0], [2.0], [3.0]], [0.0, 2.0, 4.0, 6.0], ["a", "a", "a", "b"]
    >>> LinearERM().fit(X, y, groups).coef_.round(6)
    array([2.])
    """

    weights: str = "domains"
    starts: Starts = field(default=1, kw_only=True)

    _needs_domains = False

    def _criterion(self, moments: DomainMoments, risks: Quadratics, l2: Array) -> Criterion:
        if one_of(self.weights, ("domains", "rows"), "weights") == "domains":
            return MeasureOfRisks(risks, Mean(), l2)
        counts = moments.counts.numpy()
        if not np.isfinite(counts).all():
            raise DomainDataError(
                "Population moments have no rows to count. Use weights='domains'."
            )
        return MeasureOfRisks(risks, Mean(counts / counts.sum()), l2)


@dataclass(eq=False, repr=False)
class LinearVREx(LinearModel):
    """Variance risk extrapolation: mean + β·variance of the risks (Krueger et al. 2021).

    ``penalty_weight`` is β. The other settings are those of :class:`LinearModel`.

    >>> X, y, groups = [[0.0], [1.0], [0.0], [1.0]], [0.0, 1.0, 0.0, 3.0], ["a", "a", "b", "b"]
    >>> LinearVREx(penalty_weight=1e6).fit(X, y, groups).risks_.round(3)  # nearly equal
    array([0.5, 0.5])
    """

    penalty_weight: float = 10.0

    def _criterion(self, moments: DomainMoments, risks: Quadratics, l2: Array) -> Criterion:
        weight = NON_NEGATIVE.check(self.penalty_weight, "penalty_weight")
        return MeasureOfRisks(risks, MeanPlusVariance(weight), l2)


@dataclass(eq=False, repr=False)
class LinearGroupDRO(LinearModel):
    """The smallest worst-case risk max_e R_e, what GroupDRO's weights converge to.

    The settings are those of :class:`LinearModel`; the objective is convex, so one start is enough.

    >>> X, y, groups = [[0.0], [1.0], [0.0], [1.0]], [0.0, 1.0, 0.0, 3.0], ["a", "a", "b", "b"]
    >>> model = LinearGroupDRO(fit_intercept=False).fit(X, y, groups)
    >>> model.coef_.round(6), model.risks_.round(6)
    (array([2.]), array([0.5, 0.5]))
    """

    starts: Starts = field(default=1, kw_only=True)

    def _criterion(self, moments: DomainMoments, risks: Quadratics, l2: Array) -> Criterion:
        return MeasureOfRisks(risks, WorstShare(Level(1.0), len(moments)), l2)


@dataclass(eq=False, repr=False)
class LinearIRM(LinearModel):
    """Invariant risk minimisation, IRMv1: mean R_e + λ·mean g_e² (Arjovsky et al. 2019).

    g_e = d/dw R_e(w·f) at w = 1, the slope of the domain's risk in a scale on the predictions.
    ``penalty_weight`` is λ; the other settings are those of :class:`LinearModel`. Not convex:
    minima are searched from several starts.

    >>> X, y, groups = [[0.0], [1.0], [2.0], [3.0]], [0.0, 2.0, 4.0, 7.0], ["a", "a", "b", "b"]
    >>> LinearIRM(penalty_weight=10.0).fit(X, y, groups).converged_
    True
    """

    penalty_weight: float = 100.0

    def _criterion(self, moments: DomainMoments, risks: Quadratics, l2: Array) -> Criterion:
        weight = NON_NEGATIVE.check(self.penalty_weight, "penalty_weight")
        slopes = scale_slope_quadratics(moments, self.fit_intercept)
        return MeanPlusSquares(risks, slopes, weight, l2)
