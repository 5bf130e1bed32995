"""ERM, VREx, GroupDRO and IRMv1 on the same moments, with the same interface as LinearQRM."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqrm.errors import DomainDataError, SettingError, did_you_mean
from eqrm.level import Level
from eqrm.linear.linear_model import LinearModel
from eqrm.linear.moments.domain_moments import DomainMoments
from eqrm.linear.settings import check_amount
from eqrm.linear.solving.criteria import Criterion, MeanPlusSquares, MeasureOfRisks
from eqrm.linear.solving.empirical_measure import EmpiricalMeasure
from eqrm.linear.solving.measures import Mean, MeanPlusVariance
from eqrm.linear.solving.quadratics import Array, Quadratics, scale_slope_quadratics


class LinearERM(LinearModel):
    """Least squares: the smallest mean risk, every domain counted once, or every row.

    ``weights="domains"`` is ERM over domains; ``"rows"`` is ordinary least squares on the rows
    of all domains together.

    >>> X, y, groups = [[0.0], [1.0], [2.0], [3.0]], [0.0, 2.0, 4.0, 6.0], ["a", "a", "a", "b"]
    >>> LinearERM().fit(X, y, groups).coefficients
    tensor([2.], dtype=torch.float64)
    """

    least_domains = 1

    def __init__(self, weights: str = "domains", **settings: Any) -> None:
        super().__init__(**{"starts": 1, **settings})
        if weights not in ("domains", "rows"):
            raise SettingError(
                f"There are no weights {weights!r}. {did_you_mean(weights, ('domains', 'rows'))}"
            )
        self.weights = weights

    def _criterion(self, moments: DomainMoments, quadratics: Quadratics, ridge: Array) -> Criterion:
        if self.weights == "domains":
            return MeasureOfRisks(quadratics, Mean(), ridge)
        counts = moments.counts.numpy()
        if not np.isfinite(counts).all():
            raise DomainDataError(
                "Population moments have no rows to count. Use weights='domains'."
            )
        return MeasureOfRisks(quadratics, Mean(counts / counts.sum()), ridge)


class LinearVREx(LinearModel):
    """Variance risk extrapolation: mean + β·variance of the risks (Krueger et al. 2021).

    >>> X, y, groups = [[0.0], [1.0], [2.0], [3.0]], [0.0, 2.0, 4.0, 7.0], ["a", "a", "b", "b"]
    >>> LinearVREx(penalty_weight=10.0).fit(X, y, groups).converged
    True
    """

    def __init__(self, penalty_weight: float = 10.0, **settings: Any) -> None:
        super().__init__(**settings)
        self.penalty_weight = check_amount(penalty_weight, "penalty_weight")

    def _criterion(self, moments: DomainMoments, quadratics: Quadratics, ridge: Array) -> Criterion:
        return MeasureOfRisks(quadratics, MeanPlusVariance(self.penalty_weight), ridge)


class LinearGroupDRO(LinearModel):
    """The smallest worst-case risk max_e R_e, what GroupDRO's weights converge to.

    >>> X, y, groups = [[0.0], [1.0], [0.0], [1.0]], [0.0, 1.0, 0.0, 3.0], ["a", "a", "b", "b"]
    >>> model = LinearGroupDRO(intercept=False).fit(X, y, groups)
    >>> round(float(model.coefficients), 6), [round(r, 6) for r in model.risks.tolist()]
    (2.0, [0.5, 0.5])
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"starts": 1, **settings})  # convex: one start will do

    def _criterion(self, moments: DomainMoments, quadratics: Quadratics, ridge: Array) -> Criterion:
        return MeasureOfRisks(quadratics, EmpiricalMeasure(Level(1.0), len(moments)), ridge)


class LinearIRM(LinearModel):
    """Invariant risk minimisation, IRMv1: mean R_e + λ·mean g_e² (Arjovsky et al. 2019).

    g_e = d/dw R_e(w·f) at w = 1, the slope of the domain's risk in a scale on the predictions.
    Not convex: minima are searched from several starts.

    >>> X, y, groups = [[0.0], [1.0], [2.0], [3.0]], [0.0, 2.0, 4.0, 7.0], ["a", "a", "b", "b"]
    >>> LinearIRM(penalty_weight=10.0).fit(X, y, groups).converged
    True
    """

    def __init__(self, penalty_weight: float = 100.0, **settings: Any) -> None:
        super().__init__(**settings)
        self.penalty_weight = check_amount(penalty_weight, "penalty_weight")

    def _criterion(self, moments: DomainMoments, quadratics: Quadratics, ridge: Array) -> Criterion:
        slopes = scale_slope_quadratics(moments, self.has_intercept)
        return MeanPlusSquares(quadratics, slopes, self.penalty_weight, ridge)
