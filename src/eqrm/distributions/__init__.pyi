from .bandwidths import BANDWIDTHS as BANDWIDTHS
from .bandwidths import Bandwidth as Bandwidth
from .bandwidths import resolve_bandwidth as resolve_bandwidth
from .base import RiskDistribution as RiskDistribution
from .empirical import Empirical as Empirical
from .gaussian import Gaussian as Gaussian
from .gaussian import LogNormal as LogNormal
from .kernel import KDE as KDE
