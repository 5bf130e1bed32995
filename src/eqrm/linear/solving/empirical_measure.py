"""The empirical quantile and superquantile of the risks, their kinks rounded off by kernels."""

from __future__ import annotations

import numpy as np

from eqrm.distributions.order_statistics import equal_step_index
from eqrm.level import Level
from eqrm.linear.solving.measures import KernelMeasure, Local, Measure, no_curvature
from eqrm.linear.solving.quadratics import Array


class EmpiricalMeasure(Measure):
    """A step at each of m risks: the k-th smallest, or the mean of the worst share 1−α.

    With smoothing δ each step is a Gaussian kernel of width δ. The k-th smallest is the limit
    of their quantile at (k − ½)/m, the middle of its step. The largest risk, and every
    superquantile, is convex in the risks, and so is its smooth form.

    >>> measure = EmpiricalMeasure(Level(0.5), domains=4)
    >>> spread = np.array([-3.0, -1.0, 1.0, 3.0])
    >>> measure.at(5.0, spread).value, round(measure.at(5.0, spread, 1e-3).value, 6)
    (4.0, 4.0)
    """

    has_kinks = True

    def __init__(self, level: Level, domains: int, superquantile: bool = False) -> None:
        index = equal_step_index(domains, level.alpha, level.tail)
        worst = level.tail * domains <= 1.0 if superquantile else index == domains - 1
        if worst:
            smooth_level = Level(1.0 - 0.5 / domains)
        elif superquantile:
            smooth_level = level
        else:
            smooth_level = Level((index + 0.5) / domains)
        self.smooth = KernelMeasure(smooth_level, superquantile or worst, factor=0.0)
        self.mix = np.zeros(domains)
        if worst or not superquantile:
            self.mix[domains - 1 if worst else index] = 1.0
        else:
            above = np.arange(domains - 1, -1, -1.0)
            taken = np.clip(level.tail * domains - above, 0.0, 1.0)
            self.mix = taken / taken.sum()

    def at(self, mean: float, spread: Array, smoothing: float = 0.0) -> Local:
        """With δ = 0 the exact value, and one of the slopes that a kink has."""
        if smoothing > 0.0:
            return self.smooth.with_bandwidth(smoothing).at(mean, spread)
        slope = np.empty_like(spread)
        slope[np.argsort(spread)] = self.mix
        return Local(mean + float(slope @ spread), slope, no_curvature)
