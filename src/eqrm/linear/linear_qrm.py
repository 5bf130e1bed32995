"""LinearQRM: the linear predictor of the smallest quantile risk, exactly, and its path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqrm.distributions.bandwidths import Bandwidth, BandwidthFunction, Fixed
from eqrm.distributions.kernel import KDE
from eqrm.errors import SettingError
from eqrm.level import Level
from eqrm.linear.frontier import Frontier
from eqrm.linear.linear_model import LinearModel, as_moments
from eqrm.linear.moments.domain_moments import DomainMoments
from eqrm.linear.solving.chosen_measure import MeasureChoice
from eqrm.linear.solving.criteria import Criterion, MeasureOfRisks
from eqrm.linear.solving.one_thread import one_thread
from eqrm.linear.solving.quadratics import Array, Quadratics
from eqrm.measures import Estimator


class LinearQRM(LinearModel):
    """The linear predictor with the smallest α-quantile of risk over domains.

    With squared error a domain's risk is a quadratic form in the coefficients, so the quantile
    is minimised from moments alone, by Newton's method with the exact Hessian: in milliseconds,
    however many rows there were.

    Args:
        alpha: the level, as a number, a ``Level`` or a text: ``0.9``, ``"1-e^-1000"``.
        distribution: how the risk distribution is estimated: ``"kde"``, ``"gaussian"``,
            ``"empirical"``, ``"lognormal"``, or a class with a differentiable ``icdf``.
        measure: ``"quantile"``, or ``"superquantile"``, the mean risk beyond it.
        bandwidth: the KDE's rule, a number or a function; see :class:`eqrm.KDE`.
        ridge: r ≥ 0 adds r·Σβ_j² to the objective.
        intercept: whether the predictor has one.
        starts: how many points to descend from, or the points themselves, a row of coefficients
            each (and the intercept last). The objective is not convex: ``minima`` lists what
            was found.
        seed: of the random ones among the starts.
        max_steps: of Newton's method in one descent.

    Below α = ½ a KDE or Gaussian quantile may have no minimum, which is refused. ``"empirical"``
    always has one; its kinks are rounded off, ever less.

    >>> moments = DomainMoments.population(
    ...     mean=[[0.0, 0.0, 0.0]] * 3,
    ...     covariance=[[[1, 1, 1], [1, 3 + s, 3], [1, 3, 3]] for s in (0.5, 1.0, 3.0)],
    ... )
    >>> model = LinearQRM(alpha=0.9).fit(moments)
    >>> model.coefficients, round(model.value, 4)
    (tensor([0.6448, 0.3552], dtype=torch.float64), 1.2896)
    """

    def __init__(
        self,
        alpha: Level | float | str = 0.9,
        distribution: str | Estimator = "kde",
        measure: str = "quantile",
        *,
        bandwidth: str | float | Bandwidth | BandwidthFunction = "gaussian-optimal",
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.level = Level.of(alpha)
        self.distribution, self.measure = distribution, measure
        self.choice = MeasureChoice.of(distribution, measure, bandwidth)
        self.estimator, self.bandwidth = self.choice.estimator, self.choice.bandwidth
        self.choice.at(self.level, 2)  # refuses levels that the distribution does not have

    def _criterion(self, moments: DomainMoments, quadratics: Quadratics, ridge: Array) -> Criterion:
        if self.estimator is KDE and isinstance(self.bandwidth, Fixed):
            self._refuse_lost_bandwidth(self.bandwidth.value, quadratics, ridge)
        return MeasureOfRisks(quadratics, self.choice.at(self.level, len(moments)), ridge)

    @staticmethod
    def _refuse_lost_bandwidth(bandwidth: float, quadratics: Quadratics, ridge: Array) -> None:
        risk = quadratics.mean_risk(quadratics.minimiser_of_mean(ridge=ridge))
        if bandwidth < 1e-13 * risk:
            raise SettingError(
                f"A bandwidth of {bandwidth:g} is lost in the rounding of risks of about "
                f'{risk:.3g}. Use a larger one, or distribution="empirical", its limit.'
            )

    @property
    def options(self) -> dict[str, Any]:
        """What the distribution is made with, besides the risks."""
        return self.choice.options

    def path(
        self,
        levels: Sequence[Level | float | str],
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
        if isinstance(levels, (str, int, float, Level)):
            raise SettingError(f"A path needs a list of levels, but {levels!r} came.")
        wanted = [Level.of(level) for level in levels]
        if not wanted:
            raise SettingError("A path needs at least one level.")
        if X is None and self.moments is None:
            raise SettingError("A path needs moments, or X, y and groups, or a fitted model.")
        moments = as_moments(self.moments if X is None else X, y, groups)
        solved: dict[Level, LinearQRM] = {}
        before: list[Array] = []
        with one_thread():
            for level in sorted(set(wanted)):
                model = self._at(level, first=not before)
                problem, coordinates = model._pose(moments)
                ends = model._solve(problem, coordinates, before)
                model._keep(moments, coordinates, ends)
                before, solved[level] = [ends[0].theta], model
            return Frontier.of([solved[level] for level in wanted], moments)

    def _at(self, level: Level, first: bool) -> LinearQRM:
        settings: dict[str, Any] = {
            "ridge": self.ridge,
            "intercept": self.has_intercept,
            "starts": self.starts if first else 1,
            "seed": self.seed,
            "max_steps": self.max_steps,
        }
        if self.estimator is KDE:
            settings["bandwidth"] = self.bandwidth
        return LinearQRM(level, self.distribution, self.measure, **settings)
