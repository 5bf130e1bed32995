from .base import RiskDistribution as RiskDistribution
from .empirical import Empirical as Empirical
from .gaussian import Gaussian as Gaussian
from .gaussian import LogNormal as LogNormal
from .kernel import KDE as KDE
