"""Laws of one number, of a noise or of an intervention's size: distributions of scipy.stats.

Any frozen distribution of scipy.stats will do, such as ``scipy.stats.gamma(2.0)``; that of a noise
needs a finite variance. The functions here make common ones from their usual parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import POSITIVE, is_number, number
from eqrm.errors import SettingError

Law = Any
"""A frozen distribution of scipy.stats."""


def normal(mean: float = 0.0, std: float = 1.0) -> Law:
    """The normal law.

    >>> float(normal(1.0, std=2.0).var())
    4.0
    """
    return _frozen("norm", loc=mean, scale=POSITIVE.check(std, "std"))


def lognormal(log_mean: float = 0.0, log_std: float = 1.0) -> Law:
    """exp of a normal number with mean ``log_mean`` and standard deviation ``log_std``.

    >>> float(lognormal(0.0, 0.5).median())
    1.0
    """
    number().check(log_mean, "log_mean")
    return _frozen("lognorm", POSITIVE.check(log_std, "log_std"), scale=math.exp(log_mean))


def uniform_between(low: float = 0.0, high: float = 1.0) -> Law:
    """The uniform law between ``low`` and ``high``."""
    number(above=low).check(high, "high")
    return _frozen("uniform", loc=low, scale=high - low)


def laplace(mean: float = 0.0, scale: float = 1.0) -> Law:
    """The Laplace law: density exp(−|x − mean|/scale)/(2·scale)."""
    return _frozen("laplace", loc=mean, scale=POSITIVE.check(scale, "scale"))


def student_t(df: float, mean: float = 0.0, scale: float = 1.0) -> Law:
    """Student's t with ``df`` degrees of freedom, times ``scale``, plus ``mean``."""
    POSITIVE.check(scale, "scale")
    return _frozen("t", POSITIVE.check(df, "df"), loc=mean, scale=scale)


def _frozen(name: str, *shape: float, loc: float = 0.0, scale: float) -> Law:
    from scipy import stats  # slow to import, rarely needed

    number().check(loc, "The location of a law")
    return getattr(stats, name)(*shape, loc=loc, scale=scale)


def is_law(value: Any) -> bool:
    """Whether it is a frozen distribution, by its methods."""
    return all(callable(getattr(value, name, None)) for name in ("rvs", "mean", "var"))


@dataclass(frozen=True)
class NoiseLaw:
    """The law of a noise and its moments, which scipy computes anew at every call."""

    law: Law
    mean: float
    variance: float

    @classmethod
    def of(cls, value: Law, variable: str) -> NoiseLaw:
        """From a law, or a positive number: the standard deviation of a centred normal law."""
        if is_number(value) and value > 0:
            return cls(normal(std=value), 0.0, float(value) ** 2)
        if not is_law(value):
            raise SettingError(
                f"The noise of {variable!r} must be a frozen scipy.stats distribution, or a "
                f"positive number (standard deviation of a normal distribution), got {value!r}."
            )
        with np.errstate(over="ignore", invalid="ignore"):
            mean, variance = float(value.mean()), float(value.var())
        if not (math.isfinite(mean) and math.isfinite(variance)):
            raise SettingError(
                f"The noise of {variable!r} has no finite variance, which squared error needs. Use "
                "a distribution with lighter tails."
            )
        return cls(value, mean, variance)

    def draw(self, generator: np.random.Generator, size: int) -> NDArray[np.float64]:
        """``size`` independent numbers, in an array of its own."""
        if getattr(getattr(self.law, "dist", None), "name", "") != "norm":
            return np.array(self.law.rvs(size, random_state=generator), dtype=np.float64)
        # scipy's numbers without its checks, which take half as long as the drawing itself.
        values = generator.standard_normal(size)
        values *= math.sqrt(self.variance)
        values += self.mean
        return values
