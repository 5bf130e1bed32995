"""Estimated laws of the risk of a new domain."""

from eqrm.distributions.bandwidths import BANDWIDTHS, Bandwidth, resolve_bandwidth
from eqrm.distributions.base import RiskDistribution
from eqrm.distributions.empirical import Empirical
from eqrm.distributions.gaussian import Gaussian
from eqrm.distributions.kernel import KDE
from eqrm.distributions.lognormal import LogNormal

__all__ = [
    "BANDWIDTHS",
    "KDE",
    "Bandwidth",
    "Empirical",
    "Gaussian",
    "LogNormal",
    "RiskDistribution",
    "resolve_bandwidth",
]
