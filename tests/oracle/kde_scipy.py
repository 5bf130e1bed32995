"""The second oracle: scipy's normal mixture, its root by brentq, and gaussian_kde."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp, ndtri_exp

Floats = NDArray[np.float64]


class NormalMixture:
    """sum_i p_i N(R_i, h^2), with the smaller tail computed in logarithms."""

    def __init__(self, risks: ArrayLike, bandwidth: float, weights: ArrayLike | None = None):
        self.risks: Floats = np.asarray(risks, dtype=np.float64)
        w = np.ones_like(self.risks) if weights is None else np.asarray(weights, dtype=np.float64)
        self.risks, w = self.risks[w > 0], w[w > 0]
        self.log_p: Floats = np.log(w / w.sum())
        self.bandwidth = bandwidth

    def log_sf(self, x: float) -> float:
        return float(logsumexp(self.log_p + log_ndtr((self.risks - x) / self.bandwidth)))

    def log_cdf(self, x: float) -> float:
        return float(logsumexp(self.log_p + log_ndtr((x - self.risks) / self.bandwidth)))

    def quantile(self, log_tail: float) -> float:
        """The root of log S(x) = log(1 - alpha), or of log F(x) = log(alpha) below 1/2."""
        upper = log_tail <= np.log(0.5)
        target = log_tail if upper else float(np.log(-np.expm1(log_tail)))
        z = float(ndtri_exp(target)) * (-1.0 if upper else 1.0)
        slack = 1e-9 * (1.0 + abs(z)) * self.bandwidth
        low = float(self.risks.min()) + z * self.bandwidth - slack
        high = float(self.risks.max()) + z * self.bandwidth + slack
        log_tail_at = self.log_sf if upper else self.log_cdf
        root = brentq(lambda x: log_tail_at(x) - target, low, high, xtol=1e-300, rtol=1e-15)
        return float(root)
