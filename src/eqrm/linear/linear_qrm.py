"""LinearQRM, its frontier, and ERM, VREx and IRMv1 on the same moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from eqrm.checks import NON_NEGATIVE, check_fields, one_of, ruled
from eqrm.distributions.bandwidths import Bandwidth, BandwidthFunction
from eqrm.distributions.empirical import Empirical
from eqrm.errors import DomainDataError, SettingError
from eqrm.level import WITHOUT_LEVEL, Level
from eqrm.linear.domain_moments import DomainMoments
from eqrm.linear.linear_model import STARTS, LinearModel, Starts
from eqrm.linear.solving.kernel_measures import MeasureChoice
from eqrm.linear.solving.measures import (
    Mean,
    MeanPlusSquares,
    MeanPlusVariance,
    MeasureOfRisks,
)
from eqrm.linear.solving.risk_functions import Array, Quadratics, scale_slope_quadratics
from eqrm.measures import Estimator, estimate, quantile_at
from eqrm.text import aligned

ROUNDING = 1e-12
"""A smaller share of the size of the errors is printed as 0."""


@dataclass(eq=False, repr=False)
class LinearQRM(LinearModel):
    """The linear predictor with the smallest α-quantile (or other measure) of risk over domains.

    With squared error a domain's risk is a quadratic form in the coefficients, so the quantile
    is minimised from moments alone, by Newton's method with the exact Hessian: in milliseconds,
    however many rows there were. A scikit-learn estimator: ``fit(X, y, groups=domains)``, or
    ``fit(moments)``.

    Args:
        alpha: the level, as a number, a ``Level`` or a string: ``0.9``, ``"1-e^-1000"``. Not used
            by the measures ``"worst"`` and ``"mean"``.
        distribution: how the risk distribution is estimated: ``"kde"``, ``"gaussian"``,
            ``"empirical"``, ``"lognormal"``, or a class with a differentiable ``icdf``. None is
            ``"kde"`` for the quantile and ``"empirical"`` for the other measures.
        measure: what is minimised: ``"quantile"``, ``"superquantile"`` (the mean risk beyond the
            quantile, CVaR), ``"worst"`` (the largest risk, as GroupDRO does) or ``"mean"``. With
            the empirical distribution all but the quantile are convex and solved to optimality,
            which ``optimality_`` proves.
        bandwidth: the KDE's rule, a number or a function; see :class:`eqrm.KDE`.
        l2: strength ≥ 0 of the penalty: adds l2·Σβ_j² to the objective. The intercept is not
            penalised, and features are not standardised.
        fit_intercept: whether the predictor has an intercept.
        starts: number of points to descend from, or the points themselves, a row of
            coefficients each (and the intercept last). A quantile is not convex: ``minima_``
            lists what was found.
        random_state: seed of the random points among the starts.
        max_steps: maximum number of steps of Newton's method in one descent.

    After ``fit``: ``coef_`` (d,), ``intercept_``, ``risks_`` (E,) of the domains, ``value_`` of the
    objective (the penalty included), ``minima_`` (the distinct minima found, best first),
    ``converged_``, ``n_iter_`` (steps of Newton's method on the way to those minima),
    ``optimality_`` (of a convex objective), ``moments_``, ``n_features_in_`` and, where columns
    have names, ``feature_names_in_``.

    Below α = ½ a KDE or Gaussian quantile may have no minimum, which is refused. ``"empirical"``
    always has one; its kinks are rounded off, ever less.

    >>> moments = DomainMoments.population(
    ...     mean=[[0.0, 0.0, 0.0]] * 3,
    ...     covariance=[[[1, 1, 1], [1, 3 + s, 3], [1, 3, 3]] for s in (0.5, 1.0, 3.0)],
    ... )
    >>> model = LinearQRM(alpha=0.9).fit(moments)
    >>> model.coef_.round(4), round(model.value_, 4)
    (array([0.6448, 0.3552]), 1.2896)
    """

    alpha: Level | float | str = 0.9
    distribution: str | Estimator | None = None
    measure: str = "quantile"
    bandwidth: str | float | Bandwidth | BandwidthFunction = field(
        default="gaussian-optimal", kw_only=True
    )

    def _criterion(self, moments: DomainMoments, risks: Quadratics, l2: Array) -> MeasureOfRisks:
        choice = MeasureChoice.of(self.distribution, self.measure, self.bandwidth)
        return MeasureOfRisks(risks, choice.at(self.alpha, len(moments)), l2)

    def path(
        self,
        alpha: Sequence[Level | float | str],
        X: Any = None,
        y: Any = None,
        groups: Any = None,
    ) -> Frontier:
        """Solve a grid of levels, each from the solution before: the risk-robustness frontier.

        Takes moments, or X, y and groups, as :meth:`fit` does, or nothing after :meth:`fit`. The
        level of this model is not used, its other settings are. The lowest level is searched
        from all ``starts``; every further one from its neighbour's solution and from the least
        mean risk.

        >>> moments = DomainMoments.population(
        ...     mean=[[0.0, 0.0, 0.0]] * 3,
        ...     covariance=[[[1, 1, 1], [1, 3 + s, 3], [1, 3, 3]] for s in (0.5, 1.0, 3.0)],
        ... )
        >>> print(LinearQRM().path([0.5, 0.9, "1-e^-100"], moments))
        level         x1      x2  intercept  mean risk  q(0.5)  q(0.9)  q(1-e^-100)
        0.5       0.4107  0.5893     0.0000     0.8583  0.8213  1.5981       6.7742
        0.9       0.6448  0.3552     0.0000     1.0208  1.0073  1.2896       3.1701
        1-e^-100  0.9026  0.0974     0.0000     1.6436  1.6426  1.6638       1.8052
        """
        if self.measure in WITHOUT_LEVEL:
            raise SettingError(
                f"measure={self.measure!r} has no level, so it has no path. Use fit, or the "
                "measures 'quantile' and 'superquantile'."
            )
        if isinstance(alpha, (Real, str, Level)):
            raise SettingError(f"A path needs a list of levels, got {alpha!r}.")
        wanted = [Level.of(level) for level in alpha]
        if not wanted:
            raise SettingError("A path needs at least one level.")
        if X is None:
            check_is_fitted(self, msg="A path needs moments, or X, y and groups, or a fitted model")
        check_fields(self)
        moments = self.moments_ if X is None else clone(self)._moments_of(X, y, groups)
        solved: dict[Level, LinearQRM] = {}
        before: list[Array] = []
        for level in sorted(set(wanted)):
            model = clone(self).set_params(alpha=level, starts=1 if before else self.starts)
            before = [model._fit_moments(moments, before)]
            solved[level] = model
        return Frontier.of([solved[level] for level in wanted], moments)


@dataclass(frozen=True, eq=False)
class Frontier:
    """One predictor per level, and how it does on average and at every level.

    ``coefficients`` (L, d), ``intercepts`` (L,), ``values`` (L,) of each one's own objective,
    ``risks`` (L, E), ``mean_risks`` (L,) and ``quantile_risks`` (L, L): row i is the predictor of
    level i, column j its risk at the quantile of level j, by the distribution it was trained
    with. ``converged`` (L,). Printing it gives a table.
    """

    levels: tuple[Level, ...]
    features: tuple[str, ...]
    coefficients: Array
    intercepts: Array
    values: Array
    risks: Array
    mean_risks: Array
    quantile_risks: Array
    converged: NDArray[np.bool_]

    @classmethod
    def of(cls, models: Sequence[LinearQRM], moments: DomainMoments) -> Frontier:
        """From fitted models, one per level."""
        levels = tuple(Level.of(model.alpha) for model in models)
        risks = np.stack([model.risks_ for model in models])
        quantiles = [[_quantile(model, level) for level in levels] for model in models]
        return cls(
            levels=levels,
            features=moments.features,
            coefficients=np.stack([model.coef_ for model in models]),
            intercepts=np.array([model.intercept_ for model in models]),
            values=np.array([model.value_ for model in models]),
            risks=risks,
            mean_risks=risks.mean(axis=1),
            quantile_risks=np.array(quantiles),
            converged=np.array([model.converged_ for model in models]),
        )

    def __str__(self) -> str:
        rows = [["level", *self.features, "intercept", "mean risk"]]
        rows[0] += [f"q({level})" for level in self.levels]
        for i, level in enumerate(self.levels):
            mean, intercept = float(self.mean_risks[i]), float(self.intercepts[i])
            if abs(intercept) < ROUNDING * mean**0.5:  # both are in the unit of y
                intercept = 0.0
            numbers = [*self.coefficients[i].tolist(), intercept]
            numbers += [mean, *self.quantile_risks[i].tolist()]
            rows.append([str(level), *(_short(number) for number in numbers)])
        return aligned(rows)


def _quantile(model: LinearQRM, level: Level) -> float:
    choice = MeasureChoice.of(model.distribution, model.measure, model.bandwidth)
    if level.log_tail == 0.0 and choice.estimator is not Empirical:
        return -np.inf  # where only a superquantile, the mean risk, can be trained for
    law = estimate(choice.estimator, model.risks_, None, choice.options)
    return float(quantile_at(law, level))


def _short(number: float) -> str:
    return f"{number:.4f}" if 1e-3 <= abs(number) < 1e5 or number == 0.0 else f"{number:.4g}"


@dataclass(eq=False, repr=False)
class LinearERM(LinearModel):
    """Least squares: the smallest mean risk, every domain counted once, or every row.

    ``weights="domains"`` is ERM over domains; ``"rows"`` is ordinary least squares on the rows
    of all domains together. The other settings are those of :class:`eqrm.LinearQRM`.
    """

    weights: str = "domains"
    starts: Starts = field(default=1, kw_only=True, metadata={"rule": STARTS})

    _needs_domains = False

    def _criterion(self, moments: DomainMoments, risks: Quadratics, l2: Array) -> MeasureOfRisks:
        if one_of(self.weights, ("domains", "rows"), "weights") == "domains":
            return MeasureOfRisks(risks, Mean(), l2)
        counts = moments.counts
        if not np.isfinite(counts).all():
            raise DomainDataError(
                "Population moments have no rows to count. Use weights='domains'."
            )
        return MeasureOfRisks(risks, Mean(counts / counts.sum()), l2)


@dataclass(eq=False, repr=False)
class LinearVREx(LinearModel):
    """Variance risk extrapolation: mean + β·variance of the risks (Krueger et al. 2021).

    ``penalty_weight`` is β. The other settings are those of LinearQRM.
    """

    penalty_weight: float = ruled(10.0, NON_NEGATIVE)

    def _criterion(self, moments: DomainMoments, risks: Quadratics, l2: Array) -> MeasureOfRisks:
        return MeasureOfRisks(risks, MeanPlusVariance(self.penalty_weight), l2)


@dataclass(eq=False, repr=False)
class LinearIRM(LinearModel):
    """Invariant risk minimisation, IRMv1: mean R_e + λ·mean g_e² (Arjovsky et al. 2019).

    g_e = d/dw R_e(w·f) at w = 1, the slope of the domain's risk in a scale on the predictions.
    ``penalty_weight`` is λ; the other settings are those of :class:`eqrm.LinearQRM`.
    """

    penalty_weight: float = ruled(100.0, NON_NEGATIVE)

    def _criterion(self, moments: DomainMoments, risks: Quadratics, l2: Array) -> MeasureOfRisks:
        both = risks.followed_by(scale_slope_quadratics(moments, self.fit_intercept))
        return MeasureOfRisks(both, MeanPlusSquares(self.penalty_weight), l2)
